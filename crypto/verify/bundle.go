package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
)

// maxBundle is the size of a bundle with a large statement in it.
const maxBundle = 4 << 20

// approvals are the statements about an image that say "this is mine": cosign's signature, and the note of who built
// it. Others, such as the result of a scan, may well say the opposite.
func approvals() []string {
	return []string{"https://sigstore.dev/cosign/sign/v1", "https://slsa.dev/provenance/v1"}
}

func readBundle(text []byte) (*bundle.Bundle, error) {
	if len(text) > maxBundle {
		return nil, fmt.Errorf("%w: a bundle larger than %d bytes", ErrMalformed, maxBundle)
	}
	var b bundle.Bundle
	if err := b.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%w: not a sigstore bundle that can be read: %w", ErrMalformed, err)
	}
	return &b, nil
}

// verifyBundle verifies everything about a bundle, which ends in a signature over an artifact's SHA-256.
func verifyBundle(v *verify.Verifier, b *bundle.Bundle, sum []byte, by verify.PolicyOption) error {
	result, err := v.Verify(b, verify.NewPolicy(verify.WithArtifactDigest("sha256", sum), by))
	var stranger *verify.ErrNoMatchingCertificateIdentity
	switch {
	case errors.As(err, &stranger):
		return fmt.Errorf("%w: %w", ErrUnknownKey, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBad, err)
	case result.Statement != nil && !slices.Contains(approvals(), result.Statement.GetPredicateType()):
		return fmt.Errorf("%w: it is a statement of type %.80q", ErrNamespace, result.Statement.GetPredicateType())
	}
	return nil
}

// bundle verifies by each key: a bundle only hints at which one made it.
func (k *Keys) bundle(text, sum []byte) error {
	b, err := readBundle(text)
	if err != nil {
		return err
	}
	for _, public := range k.public {
		for _, hash := range public.hashes() {
			if err = public.verifyBundle(b, sum, hash); err == nil || errors.Is(err, ErrNamespace) {
				return err
			}
		}
	}
	return err
}

func (p publicKey) verifyBundle(b *bundle.Bundle, sum []byte, hash crypto.Hash) error {
	verifier, err := signature.LoadVerifier(p.key, hash)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBad, err)
	}
	trust := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
		return root.NewExpiringKey(verifier, time.Time{}, time.Time{}), nil
	})
	v, err := verify.NewVerifier(trust, verify.WithNoObserverTimestamps(), verify.WithoutStatementPredicate())
	if err != nil {
		return err
	}
	return verifyBundle(v, b, sum, verify.WithKey())
}

// hashes are those that signers take with the key; the larger curve has had two.
func (p publicKey) hashes() []crypto.Hash {
	if key, ok := p.key.(*ecdsa.PublicKey); ok && key.Curve == elliptic.P384() {
		return []crypto.Hash{crypto.SHA384, crypto.SHA256}
	}
	return []crypto.Hash{crypto.SHA256}
}
