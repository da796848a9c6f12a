package publish

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/tools/release/images"
)

// What Helm calls the parts of a chart in a registry.
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Chart is what is packed as a chart.
type Chart struct {
	// Dir has Chart.yaml.
	Dir     string
	Version string
	// Repository and Digest are the image that its values name: "ghcr.io/pluralsh/plural", "sha256:...".
	Repository, Digest string
	Created            time.Time
}

// Pack writes a chart into the OCI layout at dir, which it makes. The same chart gives the same bytes.
func (c *Chart) Pack(ctx context.Context, dir string) (ocispec.Descriptor, error) {
	head, packed, err := c.pack()
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("chart %s: %w", c.Dir, err)
	}
	config, err := json.Marshal(head)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	store, err := oci.NewWithContext(ctx, dir)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	store.AutoSaveIndex = false
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: content.NewDescriptorFromBytes(chartConfig, config),
		Layers: []ocispec.Descriptor{content.NewDescriptorFromBytes(chartContent, packed)},
		Annotations: map[string]string{
			ocispec.AnnotationCreated: c.Created.UTC().Format(time.RFC3339), ocispec.AnnotationVersion: c.Version,
			ocispec.AnnotationTitle: fmt.Sprint(head["name"]), ocispec.AnnotationDescription: fmt.Sprint(head["description"]),
			ocispec.AnnotationSource: "https://github.com/pluralsh/plural",
		},
	}
	text, err := json.Marshal(m)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	manifest := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, text)
	for _, blob := range []struct {
		ocispec.Descriptor
		data []byte
	}{{m.Config, config}, {m.Layers[0], packed}, {manifest, text}} {
		err := store.Push(ctx, blob.Descriptor, bytes.NewReader(blob.data))
		if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return manifest, err
		}
	}
	if err := store.Tag(ctx, manifest, c.Version); err != nil {
		return manifest, err
	}
	return manifest, images.Save(store, dir)
}

// pack is the chart's head, and the archive of its files with the version and the image filled in.
func (c *Chart) pack() (head map[string]any, packed []byte, err error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.DefaultCompression)
	if err != nil {
		return nil, nil, err
	}
	to := tar.NewWriter(zip)
	text, err := os.ReadFile(filepath.Join(c.Dir, "Chart.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &head)
	}
	if err != nil {
		return nil, nil, err
	}
	head["version"], head["appVersion"] = c.Version, c.Version
	err = fs.WalkDir(os.DirFS(c.Dir), ".", func(name string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no file", name)
		}
		text, err := os.ReadFile(filepath.Join(c.Dir, name))
		switch {
		case err != nil:
		case name == "Chart.yaml":
			text, err = yaml.Marshal(head)
		case name == "values.yaml":
			text, err = c.values(text)
		}
		if err != nil {
			return err
		}
		err = to.WriteHeader(&tar.Header{
			Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: path.Join(fmt.Sprint(head["name"]), name), Mode: 0o644, Size: int64(len(text)),
			ModTime: c.Created.UTC().Truncate(time.Second),
		})
		if err == nil {
			_, err = to.Write(text)
		}
		return err
	})
	if err := errors.Join(err, to.Close(), zip.Close()); err != nil {
		return nil, nil, err
	}
	return head, out.Bytes(), nil
}

// values names the image by its digest. The comments of the file stay.
func (c *Chart) values(text []byte) ([]byte, error) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	set := 0
	for n, line := range lines {
		for key, value := range map[string]string{"  repository: ": c.Repository, `  digest: `: c.Digest} {
			if bytes.HasPrefix(line, []byte(key)) {
				lines[n] = []byte(key + value + "\n")
				set++
			}
		}
	}
	out := bytes.Join(lines, nil)
	var got struct {
		Image struct{ Repository, Digest string }
	}
	if err := yaml.Unmarshal(out, &got); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	if set != 2 || got.Image.Repository != c.Repository || got.Image.Digest != c.Digest {
		return nil, errors.New("values.yaml: want one image with repository and digest, two columns in")
	}
	return out, nil
}
