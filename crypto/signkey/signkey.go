// Package signkey owns reading the private keys that packages and releases are signed with: PEM as OpenSSL and cosign write it.
package signkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"errors"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Open reads a private key; without one the signer is nil.
func Open(key, password []byte) (signature.SignerVerifier, error) {
	if len(key) == 0 {
		return nil, nil //nolint:nilnil // nobody signs
	}
	if strings.Contains(string(key), "ENCRYPTED") && len(password) == 0 {
		return nil, errors.New("the private key is locked: give its password")
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(key, func(bool) ([]byte, error) { return password, nil })
	if err != nil { // not its text, which may quote the key
		return nil, errors.New("the private key cannot be read: want PEM of Ed25519 or ECDSA, and its password when it is locked")
	}
	switch k := private.(type) {
	case ed25519.PrivateKey:
		return signature.LoadED25519SignerVerifier(k)
	case *ecdsa.PrivateKey:
		switch k.Curve {
		case elliptic.P256():
			return signature.LoadECDSASignerVerifier(k, crypto.SHA256)
		case elliptic.P384():
			return signature.LoadECDSASignerVerifier(k, crypto.SHA384)
		}
	}
	return nil, errors.New("the private key is of a kind that is not signed with here: want Ed25519, or ECDSA on P-256 or P-384")
}
