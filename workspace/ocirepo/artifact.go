package ocirepo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/pluralsh/plural/workspace/archive"
	"github.com/pluralsh/plural/workspace/mirror"
)

// maxManifest is the size that registries must take, in bytes.
const maxManifest = 4 << 20

// The media types that decide.
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartLayer   = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	fluxLayer    = "application/vnd.cncf.flux.content.v1.tar+gzip"
	dockerImage  = "application/vnd.docker.distribution.manifest.v2+json"
	dockerLayers = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// take brings an artifact, which its digest vouches for, and makes a commit of its files.
func (f *fetch) take(ctx context.Context, d ocispec.Descriptor) (string, error) {
	if commit, ok := f.made[d.Digest.String()]; ok {
		return commit, nil
	}
	manifest, err := f.Manifest(ctx, d)
	if err != nil {
		return "", err
	}
	layer, err := pickLayer(manifest)
	if err != nil {
		return "", err
	}
	packed, err := f.Blob(ctx, layer, archive.DefaultLimits().Packed)
	if err != nil {
		return "", fmt.Errorf("layer %s: %w", short(layer.Digest.String()), err)
	}
	var files *archive.Files
	if manifest.Config.MediaType == chartConfig {
		files, err = archive.UnpackChart(bytes.NewReader(packed))
	} else {
		files, err = archive.Unpack(bytes.NewReader(packed), archive.Limits{})
	}
	if err != nil {
		return "", fmt.Errorf("layer %s of type %.100q: %w", short(layer.Digest.String()), layer.MediaType, err)
	}
	commit, err := f.into.Tree(ctx, files, mirror.About{
		Author:  f.repo.Reference.Repository,
		Message: fmt.Sprintf("%s\n\n%s\n", f.repo.Reference.Repository, d.Digest),
		Time:    time.Unix(0, 0).UTC(),
	})
	if err != nil {
		return "", err
	}
	f.made[d.Digest.String()] = commit
	return commit, nil
}

// Manifest reads the manifest of one artifact, which its digest vouches for.
func (r *Repository) Manifest(ctx context.Context, d ocispec.Descriptor) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	switch d.MediaType {
	case ocispec.MediaTypeImageManifest, dockerImage:
	case ocispec.MediaTypeImageIndex, "application/vnd.docker.distribution.manifest.list.v2+json":
		return m, errors.New("it is an index of several artifacts, as of an image for several platforms: " +
			"name one of them by its digest")
	default:
		return m, fmt.Errorf("its manifest has the unknown type %.100q", d.MediaType)
	}
	if err := checkDescriptor(d, maxManifest); err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	body, err := r.repo.Manifests().Fetch(ctx, d)
	if err != nil {
		return m, fmt.Errorf("manifest: %w", r.readable(err))
	}
	text, err := readAll(body, d)
	if err != nil {
		return m, fmt.Errorf("manifest: %w", r.readable(err))
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

// Blob reads a blob of at most so many bytes, which its digest vouches for.
func (r *Repository) Blob(ctx context.Context, d ocispec.Descriptor, most int64) ([]byte, error) {
	if err := checkDescriptor(d, most); err != nil {
		return nil, err
	}
	body, err := r.repo.Blobs().Fetch(ctx, d)
	if err != nil {
		return nil, r.readable(err)
	}
	data, err := readAll(body, d)
	if err != nil {
		return nil, r.readable(err)
	}
	return data, nil
}

// readAll reads what a descriptor describes, and nothing else.
func readAll(body io.ReadCloser, d ocispec.Descriptor) ([]byte, error) {
	defer body.Close()
	data, err := content.ReadAll(body, d)
	switch {
	case errors.Is(err, content.ErrMismatchedDigest):
		return nil, fmt.Errorf("the registry sent something else than what %s stands for: %w", short(d.Digest.String()), err)
	case errors.Is(err, content.ErrTrailingData):
		return nil, fmt.Errorf("the registry sent more than the %d bytes that it announced: %w", d.Size, err)
	}
	return data, err
}

// checkDescriptor refuses what cannot be held against a SHA-256, or is too large to be asked for.
func checkDescriptor(d ocispec.Descriptor, most int64) error {
	switch {
	case d.Digest.Validate() != nil || d.Digest.Algorithm() != digest.SHA256:
		return fmt.Errorf("digest %.80q is no SHA-256", d.Digest)
	case d.Size < 0:
		return fmt.Errorf("impossible size %d", d.Size)
	case d.Size > most:
		return fmt.Errorf("it has %d bytes, more than the limit of %d", d.Size, most)
	}
	return nil
}

// pickLayer finds the one layer that holds the files: the only one, or the only one of the most telling media type.
func pickLayer(m ocispec.Manifest) (ocispec.Descriptor, error) {
	telling := [][]string{
		{fluxLayer},
		{ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageLayer, dockerLayers, "application/tar+gzip", "application/x-tar"},
	}
	if m.Config.MediaType == chartConfig {
		telling = [][]string{{chartLayer}, {"application/tar+gzip"}} // the second is of helm's first tries at OCI
	} else if len(m.Layers) == 1 {
		return m.Layers[0], nil
	}
	for _, types := range telling {
		var match []ocispec.Descriptor
		for _, l := range m.Layers {
			if slices.Contains(types, l.MediaType) {
				match = append(match, l)
			}
		}
		if len(match) == 1 {
			return match[0], nil
		}
	}
	var types []string
	for _, l := range m.Layers[:min(len(m.Layers), 5)] {
		types = append(types, fmt.Sprintf("%.80q", l.MediaType))
	}
	if len(types) == 0 {
		return ocispec.Descriptor{}, errors.New("it has no layers, so no files")
	}
	return ocispec.Descriptor{}, fmt.Errorf("it has %d layers (%s), and no media type says which one holds the files: "+
		"push them as one archive", len(m.Layers), strings.Join(types, ", "))
}
