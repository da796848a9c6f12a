package catalog

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/pluralsh/plural/workspace/ocirepo"
)

// What cosign calls a signature.
const (
	simpleType   = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureKey = "dev.cosignproject.cosign/signature"
)

// sign leaves a signature beside a manifest as cosign does, with those of others that are there.
func sign(ctx context.Context, repo *ocirepo.Repository, url, manifest string, by signature.SignerVerifier) error {
	payload, err := statement(url, manifest)
	if err != nil {
		return err
	}
	made, err := by.SignMessage(bytes.NewReader(payload))
	if err != nil {
		return err
	}
	layer := describe(simpleType, payload)
	layer.Annotations = map[string]string{signatureKey: base64.StdEncoding.EncodeToString(made)}
	config := []byte("{}")
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: describe(ocispec.MediaTypeImageConfig, config),
	}
	tag := ocirepo.SignatureTag(manifest)
	d, err := repo.Resolve(ctx, tag)
	switch {
	case err == nil:
		others, err := repo.Manifest(ctx, d)
		if err != nil {
			return fmt.Errorf("signatures that are there: %w", err)
		}
		m.Layers = others.Layers
	case !errors.Is(err, ocirepo.ErrNotFound):
		return err
	}
	if slices.ContainsFunc(m.Layers, func(l ocispec.Descriptor) bool { return l.Digest == layer.Digest && signedBy(by, payload, l) }) {
		return nil
	}
	m.Layers = append(m.Layers, layer)
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := repo.PushBlob(ctx, layer, payload); err != nil {
		return err
	}
	if err := repo.PushBlob(ctx, m.Config, config); err != nil {
		return err
	}
	return repo.PushManifest(ctx, describe(ocispec.MediaTypeImageManifest, text), text, tag)
}

// signedBy says that a signature which is there is by the same key.
func signedBy(key signature.Verifier, payload []byte, layer ocispec.Descriptor) bool {
	made, err := base64.StdEncoding.DecodeString(layer.Annotations[signatureKey])
	return err == nil && key.VerifySignature(bytes.NewReader(made), bytes.NewReader(payload)) == nil
}

// statement is what is signed.
func statement(url, manifest string) ([]byte, error) {
	type identity struct {
		Reference string `json:"docker-reference"`
	}
	type image struct {
		Digest string `json:"docker-manifest-digest"`
	}
	type critical struct {
		Identity identity `json:"identity"`
		Image    image    `json:"image"`
		Type     string   `json:"type"`
	}
	return json.Marshal(struct {
		Critical critical       `json:"critical"`
		Optional map[string]any `json:"optional"`
	}{critical{identity{strings.TrimPrefix(url, "oci://")}, image{manifest}, "cosign container image signature"}, nil})
}
