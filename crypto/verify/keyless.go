package verify

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// Keyless is the demand that somebody whom an issuer of identities vouched for signed, as the given roots of trust bear
// out. Nothing is asked of the network.
type Keyless struct {
	// Issuer is the URL of who vouched, such as https://token.actions.githubusercontent.com, exactly.
	Issuer string
	// Identity is an e-mail address or a URL, such as that of a workflow; * in it stands for any text.
	Identity string
	// TrustRoot is the JSON of a sigstore trusted root, as `cosign trusted-root create` writes it. A signature has to
	// be in a transparency log if the root names one, else to carry a signed timestamp; its certificate has to be in a
	// certificate log if the root names one.
	TrustRoot []byte
}

// Image is what verifies by k. Errors say what nobody could ever meet.
func (k Keyless) Image() (Image, error) {
	if k.Issuer == "" || strings.Trim(k.Identity, "*") == "" {
		return nil, errors.New("keyless: want an issuer and an identity; without them anybody's signature would do")
	}
	trust, err := root.NewTrustedRootFromJSON(k.TrustRoot)
	if err != nil {
		return nil, errors.New("trust root: not the JSON that `cosign trusted-root create` writes")
	}
	options, err := demands(trust)
	if err != nil {
		return nil, err
	}
	verifier, err := verify.NewVerifier(trust, options...)
	if err != nil {
		return nil, fmt.Errorf("trust root: %w", err)
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(k.Identity), `\*`, ".*") + "$"
	identity, err := verify.NewShortCertificateIdentity(k.Issuer, "", "", pattern)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return &keyless{verifier: verifier, identity: identity}, nil
}

// demands follow from what the trust root offers: the public one offers all, a private one may do without logs.
func demands(trust *root.TrustedRoot) ([]verify.VerifierOption, error) {
	options := []verify.VerifierOption{verify.WithoutStatementPredicate()}
	switch {
	case len(trust.FulcioCertificateAuthorities()) == 0:
		return nil, errors.New("trust root: names no certificate authority")
	case len(trust.RekorLogs()) > 0:
		options = append(options, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	case len(trust.TimestampingAuthorities()) > 0:
		options = append(options, verify.WithSignedTimestamps(1))
	default:
		return nil, errors.New("trust root: names neither a transparency log nor a timestamp authority")
	}
	if len(trust.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	return options, nil
}

// keyless is safe for concurrent use.
type keyless struct {
	verifier *verify.Verifier
	identity verify.CertificateIdentity
}

// Verify wants one signature by the identity, in either of cosign's formats.
func (k *keyless) Verify(ctx context.Context, digest string, sigs Signatures) error {
	return eachSignature(ctx, digest, sigs, k.simple, k.bundle)
}

func (k *keyless) bundle(text, sum []byte) error {
	b, err := readBundle(text)
	if err != nil {
		return err
	}
	return verifyBundle(k.verifier, b, sum, verify.WithCertificateIdentity(k.identity))
}

// simple makes a bundle of what the old format scatters over annotations.
func (k *keyless) simple(s Simple) error {
	if s.Certificate == "" {
		return fmt.Errorf("%w: it was made with a key, and a certificate is wanted", ErrUnknownKey)
	}
	b, sum, err := s.bundle()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return verifyBundle(k.verifier, b, sum, verify.WithCertificateIdentity(k.identity))
}
