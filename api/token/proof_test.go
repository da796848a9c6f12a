package token_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/api/token"
)

func TestAProofIsGoodForWhatWasSignedAlone(t *testing.T) {
	public, private := newKey(t)
	otherPublic, _ := newKey(t)
	signer := token.NewSigner(private, "edge-1", hub+"/", func() time.Time { return now })
	nonce := token.NewNonce()
	proof := token.Proof{Nonce: nonce, Binding: []byte("binding"), Said: []byte("hello")}
	signature, err := signer.Prove(proof)
	if err != nil || !proof.SignedBy(public, hub, signature) {
		t.Fatalf("a good proof is not taken: %v", err)
	}
	raw, err := signer.Token(nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(raw, ".")
	ofToken, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		key       ed25519.PublicKey
		hub       string
		proof     token.Proof
		signature []byte
	}{
		"another key":             {otherPublic, hub, proof, signature},
		"no key":                  {nil, hub, proof, signature},
		"another hub":             {public, "https://evil.example.com", proof, signature},
		"another nonce":           {public, hub, token.Proof{Nonce: token.NewNonce(), Binding: proof.Binding, Said: proof.Said}, signature},
		"no nonce":                {public, hub, token.Proof{Binding: proof.Binding, Said: proof.Said}, signature},
		"another connection":      {public, hub, token.Proof{Nonce: nonce, Binding: []byte("bindinG"), Said: proof.Said}, signature},
		"no connection":           {public, hub, token.Proof{Nonce: nonce, Said: proof.Said}, signature},
		"something else":          {public, hub, token.Proof{Nonce: nonce, Binding: proof.Binding, Said: []byte("hellO")}, signature},
		"the parts cut elsewhere": {public, hub, token.Proof{Nonce: nonce, Binding: []byte("bindinghe"), Said: []byte("llo")}, signature},
		"no signature":            {public, hub, proof, nil},
		"a token's signature":     {public, hub, token.Proof{Nonce: nonce, Said: []byte(parts[0] + "." + parts[1])}, ofToken},
	} {
		if test.proof.SignedBy(test.key, test.hub, test.signature) {
			t.Errorf("%s: it is taken", name)
		}
	}
	if _, err := signer.Prove(token.Proof{Nonce: bytes.Repeat([]byte{1}, token.NonceBytes+1)}); err == nil {
		t.Error("whatever is asked for is signed")
	}
}

// What signs proofs must make nothing that passes for a token, whoever chooses what is signed.
func TestAProofIsNoToken(t *testing.T) {
	public, private := newKey(t)
	signer := token.NewSigner(private, "edge-1", hub, func() time.Time { return now })
	raw, err := signer.Token(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed := raw[:strings.LastIndex(raw, ".")]
	nonce := token.NewNonce()
	signature, err := signer.Prove(token.Proof{Nonce: nonce, Said: []byte(signed)})
	if err != nil {
		t.Fatal(err)
	}
	forged := signed + "." + base64.RawURLEncoding.EncodeToString(signature)
	if _, err := token.Verify(forged, hub, now, keysOf(map[string]ed25519.PublicKey{"edge-1": public})); err == nil {
		t.Error("it is taken for one")
	}
	var message []byte
	for _, part := range []string{hub, string(nonce), "", signed} {
		message = append(binary.BigEndian.AppendUint64(message, uint64(len(part))), part...)
	}
	ofProofs := &ed25519.Options{Context: "plural.sh/channel proof 1"}
	if err := ed25519.VerifyWithOptions(public, message, signature, ofProofs); err != nil {
		t.Errorf("it is not the signature that agents and hubs of other versions make: %v", err)
	}
	if ed25519.Verify(public, message, signature) {
		t.Error("it is good without its purpose")
	}
}
