package token

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

// NonceBytes is the length of what a hub asks an agent to sign.
const NonceBytes = 32

// NewNonce returns what has never been signed.
func NewNonce() []byte {
	nonce := make([]byte, NonceBytes)
	_, _ = rand.Read(nonce) // never fails
	return nonce
}

// Proof is what an agent signs to show that it holds its key now, and on this connection.
type Proof struct {
	// Nonce is the hub's, made for the connection.
	Nonce []byte
	// Binding is that of the TLS connection, as for tokens; empty where something between agent and hub ends TLS.
	Binding []byte
	// Said is what the agent says of itself, as it was sent.
	Said []byte
}

// purpose keeps the signature of a proof from being that of anything else, tokens included, and the other way round.
const purpose = "plural.sh/channel proof 1"

func options() *ed25519.Options { return &ed25519.Options{Hash: crypto.Hash(0), Context: purpose} }

// message is what is signed. The hub is named, so that no other one can ask for a proof to show it there.
func (p Proof) message(hub string) []byte {
	var m []byte
	for _, part := range [][]byte{[]byte(hub), p.Nonce, p.Binding, p.Said} {
		m = binary.BigEndian.AppendUint64(m, uint64(len(part)))
		m = append(m, part...)
	}
	return m
}

// Prove signs a proof.
func (s *Signer) Prove(p Proof) ([]byte, error) {
	if len(p.Nonce) != NonceBytes {
		return nil, fmt.Errorf("prove that the key is here: the hub asks with %d bytes, want %d", len(p.Nonce), NonceBytes)
	}
	signature, err := s.key.Sign(nil, p.message(s.hub), options())
	if err != nil {
		return nil, fmt.Errorf("prove that the key is here: %w", err)
	}
	return signature, nil
}

// SignedBy says whether the holder of a cluster's key signed the proof for the hub with the given URL.
func (p Proof) SignedBy(key ed25519.PublicKey, hubURL string, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && len(p.Nonce) == NonceBytes &&
		ed25519.VerifyWithOptions(key, p.message(Audience(hubURL)), signature, options()) == nil
}
