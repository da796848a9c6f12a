package verify

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Signatures are what a registry holds beside an image or another artifact. None of it is believed before it is
// verified.
type Signatures struct {
	// Simple are the layers of the manifest under the tag sha256-HEX.sig, as cosign wrote them up to version 2.
	Simple []Simple
	// Bundles are sigstore bundles, as JSON: the layers of those referrers whose artifact type, or whose layer's media
	// type, begins with application/vnd.dev.sigstore.bundle.
	Bundles [][]byte
}

// Simple is one layer with its annotations, which are empty where the registry has none.
type Simple struct {
	// Payload is the layer itself, of media type application/vnd.dev.cosign.simplesigning.v1+json.
	Payload []byte
	// Signature is the annotation dev.cosignproject.cosign/signature.
	Signature string
	// Certificate, Bundle and Timestamp are the annotations dev.sigstore.cosign/certificate, /bundle and
	// /rfc3161timestamp, which keyless signatures carry.
	Certificate, Bundle, Timestamp string
}

// Image is a demand on who signed an image. Digest is "sha256:" and 64 hex digits, of the manifest that is going to be
// used. One signature that meets the demand is enough; else the error wraps a verdict of this package.
type Image interface {
	Verify(ctx context.Context, digest string, sigs Signatures) error
}

// maxImageSignatures bounds the work for one image: everybody who may push can add signatures.
const maxImageSignatures = 64

// Verify wants one signature by one of the PEM keys, as `cosign verify --key` does. No transparency log is asked for:
// who pins a key trusts its owner.
func (k *Keys) Verify(ctx context.Context, digest string, sigs Signatures) error {
	if len(k.public) == 0 {
		return fmt.Errorf("%w: none of the keys is a PEM public key, which images are signed with", ErrUnknownKey)
	}
	return eachSignature(ctx, digest, sigs, k.simple, k.bundle)
}

// eachSignature is content with the first that one of the two finds good.
func eachSignature(ctx context.Context, digest string, sigs Signatures,
	simple func(Simple) error, bundle func(bundle, sum []byte) error,
) error {
	sum, err := digestBytes(digest)
	if err != nil {
		return err
	}
	count := len(sigs.Simple) + len(sigs.Bundles)
	switch {
	case count == 0:
		return fmt.Errorf("%s is %w", digest, ErrUnsigned)
	case count > maxImageSignatures:
		return fmt.Errorf("%w: %d signatures of %s; want at most %d", ErrMalformed, count, digest, maxImageSignatures)
	}
	var verdicts []error
	for _, s := range sigs.Simple {
		err := simple(s)
		if err == nil {
			err = simplyNames(s.Payload, digest)
		}
		if err == nil {
			return nil
		}
		verdicts = append(verdicts, err)
	}
	for _, b := range sigs.Bundles {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := bundle(b, sum)
		if err == nil {
			return nil
		}
		verdicts = append(verdicts, err)
	}
	return fmt.Errorf("%s: %w", digest, together(verdicts))
}

func digestBytes(digest string) ([]byte, error) {
	text, ok := strings.CutPrefix(digest, "sha256:")
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != 32 {
		return nil, fmt.Errorf("bad digest %.80q: want sha256: and 64 hex digits", digest)
	}
	return sum, nil
}

// together says each verdict once, in one line, and wraps them all.
func together(verdicts []error) error {
	if len(verdicts) == 1 {
		return verdicts[0]
	}
	seen := map[string]bool{}
	var texts []string
	for _, verdict := range verdicts {
		if text := verdict.Error(); !seen[text] && len(texts) < 4 {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	return &several{count: len(verdicts), texts: texts, verdicts: verdicts}
}

type several struct {
	count    int
	texts    []string
	verdicts []error
}

func (s *several) Error() string {
	return fmt.Sprintf("none of %d signatures counts: %s", s.count, strings.Join(s.texts, "; "))
}

func (s *several) Unwrap() []error { return s.verdicts }

// simple verifies the signature over the payload, not yet what the payload says.
func (k *Keys) simple(s Simple) error {
	signature, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil {
		return fmt.Errorf("%w: the annotation is not base64", ErrMalformed)
	}
	return k.Blob(s.Payload, signature)
}

// simplyNames reads a payload that has been verified.
func simplyNames(payload []byte, digest string) error {
	var simple struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &simple); err != nil {
		return fmt.Errorf("%w: what was signed is not JSON", ErrMalformed)
	}
	if simple.Critical.Type != "cosign container image signature" {
		return fmt.Errorf("%w: what was signed is of type %.60q", ErrNamespace, simple.Critical.Type)
	}
	if simple.Critical.Image.Digest != digest {
		return fmt.Errorf("%w: image %.80q", ErrOther, simple.Critical.Image.Digest)
	}
	return nil
}
