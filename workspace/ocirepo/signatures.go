package ocirepo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"github.com/pluralsh/plural/crypto/verify"
)

// Whoever may push to a repository can add signatures, so what is fetched of them is bounded in number and bytes.
const (
	mostSignatures    = 65
	maxSignatureBytes = 16 << 20
)

const (
	simpleLayer  = "application/vnd.dev.cosign.simplesigning.v1+json"
	bundlePrefix = "application/vnd.dev.sigstore.bundle"
	emptyType    = "application/vnd.oci.empty.v1+json"
)

// errEnough ends a list of referrers; what was found by then is judged.
var errEnough = errors.New("enough")

// Verify asks who signed a manifest, once for each digest. Without somebody to ask, everything is believed.
func (r *Repository) Verify(ctx context.Context, d ocispec.Descriptor) error {
	digest := d.Digest.String()
	if r.believes(digest) {
		return nil
	}
	s := &signatures{Repository: r, left: maxSignatureBytes}
	if err := s.simple(ctx, d); err != nil {
		return fmt.Errorf("signatures: %w", err)
	}
	// Not every registry knows how to list referrers, and none needs to where the old form is enough.
	unlisted := s.bundles(ctx, d)
	if err := r.options.Verify.Verify(ctx, digest, s.found); err != nil {
		if unlisted != nil {
			return fmt.Errorf("%w (and sigstore bundles cannot be listed: %w)", err, unlisted)
		}
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verified[digest] = true
	return nil
}

// believes says that nobody has to be asked about a digest, any more.
func (r *Repository) believes(digest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.options.Verify == nil || r.verified[digest]
}

type signatures struct {
	*Repository
	found verify.Signatures
	// left is in bytes.
	left int64
}

// SignatureTag is where cosign kept the signatures of a manifest up to its version 2.
func SignatureTag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

// simple fetches what cosign stored up to its version 2: layers of the manifest under the tag sha256-HEX.sig.
func (s *signatures) simple(ctx context.Context, d ocispec.Descriptor) error {
	at, err := s.repo.Resolve(ctx, SignatureTag(d.Digest.String()))
	if errors.Is(err, errdef.ErrNotFound) {
		return nil
	}
	if err != nil {
		return s.readable(err)
	}
	manifest, err := s.Manifest(ctx, at)
	if err != nil {
		return err
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != simpleLayer || s.full() {
			continue
		}
		payload, err := s.piece(ctx, layer)
		if err != nil {
			return err
		}
		s.found.Simple = append(s.found.Simple, verify.Simple{
			Payload:     payload,
			Signature:   layer.Annotations["dev.cosignproject.cosign/signature"],
			Certificate: layer.Annotations["dev.sigstore.cosign/certificate"],
			Bundle:      layer.Annotations["dev.sigstore.cosign/bundle"],
			Timestamp:   layer.Annotations["dev.sigstore.cosign/rfc3161timestamp"],
		})
	}
	return nil
}

func (s *signatures) full() bool { return len(s.found.Simple)+len(s.found.Bundles) >= mostSignatures }

// piece fetches a payload or a bundle.
func (s *signatures) piece(ctx context.Context, layer ocispec.Descriptor) ([]byte, error) {
	data, err := s.Blob(ctx, layer, s.left)
	if err != nil {
		return nil, err
	}
	s.left -= int64(len(data))
	return data, nil
}

// bundles fetches sigstore bundles: layers of manifests that refer to the one that was signed. A registry without the
// API for that keeps the list under the tag sha256-HEX.
func (s *signatures) bundles(ctx context.Context, d ocispec.Descriptor) error {
	var referrers []ocispec.Descriptor
	err := s.repo.Referrers(ctx, d, "", func(page []ocispec.Descriptor) error {
		for _, r := range page {
			if strings.HasPrefix(r.ArtifactType, bundlePrefix) || r.ArtifactType == "" || r.ArtifactType == emptyType {
				referrers = append(referrers, r)
			}
		}
		if len(referrers) > mostSignatures {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return s.readable(err)
	}
	for _, r := range referrers {
		if err := s.bundle(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *signatures) bundle(ctx context.Context, referrer ocispec.Descriptor) error {
	manifest, err := s.Manifest(ctx, referrer)
	if err != nil {
		return err
	}
	for _, layer := range manifest.Layers {
		if !strings.HasPrefix(layer.MediaType, bundlePrefix) || s.full() {
			continue
		}
		text, err := s.piece(ctx, layer)
		if err != nil {
			return err
		}
		s.found.Bundles = append(s.found.Bundles, text)
	}
	return nil
}
