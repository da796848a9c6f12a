// Package publish owns what is in registries of a release: images and charts, what is attached to them, and how they get there.
package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"

	"github.com/pluralsh/plural/tools/release/attest"
)

// Attach puts a signed statement beside a manifest of a layout, as cosign does: a manifest that refers to it and holds the bundle.
func Attach(ctx context.Context, to *oci.Store, subject ocispec.Descriptor, bundle []byte, predicateType string, created time.Time) error {
	config := ocispec.DescriptorEmptyJSON
	layer := content.NewDescriptorFromBytes(attest.BundleType, bundle)
	refersTo := ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: attest.BundleType,
		Config: config, Layers: []ocispec.Descriptor{layer}, Subject: &refersTo,
		Annotations: map[string]string{
			ocispec.AnnotationCreated:           created.UTC().Format(time.RFC3339),
			"dev.sigstore.bundle.content":       "dsse-envelope",
			"dev.sigstore.bundle.predicateType": predicateType,
		},
	})
	if err != nil {
		return err
	}
	for _, blob := range []struct {
		ocispec.Descriptor
		data []byte
	}{{config, config.Data}, {layer, bundle}, {content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, manifest), manifest}} {
		err := to.Push(ctx, blob.Descriptor, bytes.NewReader(blob.data))
		if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return err
		}
	}
	return nil
}
