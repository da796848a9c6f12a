package ocirepo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/workspace/archive"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/versions"
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

// artifact is what was brought.
type artifact struct {
	commit string
	chart  *chartHead // nil for what is no chart, and where nobody is asked who signed it
}

// chartHead is what a chart says that it is.
type chartHead struct{ Name, Version string }

// is says whether a chart is the one that was asked for. A signature names a digest alone: a registry could put any chart that
// was ever signed by the same key under any tag.
func (c *chartHead) is(repository, tag string) error {
	version := versionOf(tag)
	switch {
	case c.Name != path.Base(repository):
		return fmt.Errorf("it is the chart %.80q, and not %q: name it by its digest if it is meant", c.Name, path.Base(repository))
	case versions.Is(version) && strings.TrimPrefix(c.Version, "v") != strings.TrimPrefix(version, "v"):
		return fmt.Errorf("it is version %.80q of the chart, and not %s: name it by its digest if it is meant", c.Version, version)
	}
	return nil
}

// take brings an artifact, which its digest vouches for, and makes a commit of its files. A signed chart has to be the one that the
// tag names.
func (f *fetch) take(ctx context.Context, n named) (string, error) {
	made, ok := f.made[n.digest()]
	if !ok {
		var err error
		if made, err = f.bring(ctx, n.descriptor); err != nil {
			return "", err
		}
		f.made[n.digest()] = made
	}
	if made.chart != nil && n.tag != "" {
		if err := made.chart.is(f.repo.Reference.Repository, n.tag); err != nil {
			return "", err
		}
	}
	return made.commit, nil
}

func (f *fetch) bring(ctx context.Context, d ocispec.Descriptor) (a artifact, err error) {
	manifest, err := f.Manifest(ctx, d)
	if err != nil {
		return a, err
	}
	layer, err := pickLayer(manifest)
	if err != nil {
		return a, err
	}
	packed, err := f.Blob(ctx, layer, archive.DefaultLimits().Packed)
	if err != nil {
		return a, fmt.Errorf("layer %s: %w", short(layer.Digest.String()), err)
	}
	var files *archive.Files
	if manifest.Config.MediaType == chartConfig {
		files, err = archive.UnpackChart(bytes.NewReader(packed))
	} else {
		files, err = archive.Unpack(bytes.NewReader(packed), archive.Limits{})
	}
	if err != nil {
		return a, fmt.Errorf("layer %s of type %.100q: %w", short(layer.Digest.String()), layer.MediaType, err)
	}
	if manifest.Config.MediaType == chartConfig && f.options.Verify != nil {
		if a.chart, err = headOf(files); err != nil {
			return a, err
		}
	}
	a.commit, err = f.into.Tree(ctx, files, mirror.About{
		Author:  f.repo.Reference.Repository,
		Message: fmt.Sprintf("%s\n\n%s\n", f.repo.Reference.Repository, d.Digest),
		Time:    time.Unix(0, 0).UTC(),
	})
	return a, err
}

func headOf(chart *archive.Files) (*chartHead, error) {
	text, err := chart.ReadFile("Chart.yaml")
	if err != nil {
		return nil, err
	}
	head := &chartHead{}
	if err := yaml.Unmarshal(text, head); err != nil {
		return nil, fmt.Errorf("Chart.yaml: %w", err)
	}
	return head, nil
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
