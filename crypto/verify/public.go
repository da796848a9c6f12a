package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// publicKey is one of cosign's.
type publicKey struct {
	key crypto.PublicKey
	// name is the digest of the key's DER, by which cosign tells keys apart too.
	name string
}

func (k *Keys) addPEM(text []byte) error {
	for len(text) > 0 {
		block, rest := pem.Decode(text)
		if block == nil {
			return errors.New("the PEM is damaged: is it complete?")
		}
		key, err := parsePublic(block)
		if err != nil {
			return err
		}
		k.public = append(k.public, key)
		text = bytes.TrimSpace(rest)
	}
	return nil
}

func parsePublic(block *pem.Block) (publicKey, error) {
	if block.Type != "PUBLIC KEY" {
		return publicKey{}, fmt.Errorf("a PEM block of %.40q: want a PUBLIC KEY, as cosign.pub is", block.Type)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return publicKey{}, errors.New("the PEM holds no public key that can be read")
	}
	switch key := key.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return publicKey{}, fmt.Errorf("ECDSA on %s: want P-256 or P-384", key.Params().Name)
		}
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSA {
			return publicKey{}, fmt.Errorf("the key is %w: RSA of less than %d bits", ErrWeak, minRSA)
		}
	default:
		return publicKey{}, fmt.Errorf("a %T: want ECDSA, RSA or Ed25519", key)
	}
	return publicKey{key: key, name: fmt.Sprintf("sha256:%x", sha256.Sum256(block.Bytes))}, nil
}

// Blob verifies a signature (its bytes, not their base64) over a payload by one of the PEM keys, as `cosign verify-blob
// --key` does. A signature names no key: that another one made it cannot be told from a change to the payload.
func (k *Keys) Blob(payload, signature []byte) error {
	if len(signature) == 0 {
		return ErrUnsigned
	}
	if len(k.public) == 0 {
		return fmt.Errorf("%w: there is no PEM public key among the keys", ErrUnknownKey)
	}
	for _, public := range k.public {
		if public.verify(payload, signature) {
			return nil
		}
	}
	return fmt.Errorf("%w, or %w", ErrUnknownKey, errChanged)
}

func (p publicKey) verify(payload, signature []byte) bool {
	sum := sha256.Sum256(payload)
	switch key := p.key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, payload, signature)
	case *ecdsa.PublicKey:
		longer := sha512.Sum384(payload) // what newer signers take with P-384
		return ecdsa.VerifyASN1(key, sum[:], signature) ||
			key.Curve == elliptic.P384() && ecdsa.VerifyASN1(key, longer[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil ||
			rsa.VerifyPSS(key, crypto.SHA256, sum[:], signature, nil) == nil
	}
	return false
}
