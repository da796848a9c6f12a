package catalog

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pluralsh/plural/crypto/signkey"
	"github.com/pluralsh/plural/workspace/archive"
	"github.com/pluralsh/plural/workspace/ocirepo"
	"github.com/pluralsh/plural/workspace/packages"
)

// PublishOptions say where a package is published, and who signs it.
type PublishOptions struct {
	OCIOptions
	// Key is a private key in PEM (Ed25519, or ECDSA on P-256 or P-384) that signs the package; empty signs nothing. Password
	// opens it when it is locked, as cosign does.
	Key      []byte
	Password []byte
	// Force replaces a version that is there with other content.
	Force bool
}

// Published is what a package became in a registry.
type Published struct {
	// Tag and Manifest name the artifact; Digest is that of packages.Digest.
	Tag      string `json:"tag"`
	Manifest string `json:"manifest"`
	Digest   string `json:"digest"`
	// Existed says that the registry had the very same already.
	Existed bool `json:"existed"`
}

// ExistsError says that a version is there, with other content.
type ExistsError struct {
	Tag, Digest, Have string
}

// Error says what to do.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s is published already with other files (%s; these are %s): raise spec.version in package.yaml; "+
		"whoever has the old one could not verify it any more if it was replaced (--force)", e.Tag, e.Have, e.Digest)
}

// Publish puts the package in files into a repository, under the tag NAME_VERSION. The same files give the same manifest on
// every machine. Of a version that is there with other content the error is an *ExistsError.
func Publish(ctx context.Context, files fs.FS, o PublishOptions) (*Published, error) {
	p, sum, err := examine(files)
	if err != nil {
		return nil, err
	}
	signer, err := signkey.Open(o.Key, o.Password)
	if err != nil {
		return nil, err
	}
	repo, err := ocirepo.Open(o.OCIOptions)
	if err != nil {
		return nil, err
	}
	tag := tagOf(p.Metadata.Name, p.Spec.Version)
	parts, err := pack(files, p, sum)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", tag, err)
	}
	out := &Published{Tag: tag, Manifest: parts.manifest.Digest.String(), Digest: sum}
	there, err := existing(ctx, repo, tag)
	switch {
	case err != nil:
		return nil, fmt.Errorf("publish %s: %w", tag, err)
	case there != nil && there.digest == sum:
		out.Existed, out.Manifest = true, there.manifest
	case there != nil && !o.Force:
		return nil, &ExistsError{Tag: tag, Digest: sum, Have: there.called()}
	default:
		if err := parts.push(ctx, repo, tag); err != nil {
			return nil, fmt.Errorf("publish %s: %w", tag, err)
		}
	}
	if signer == nil {
		return out, nil
	}
	if err := sign(ctx, repo, o.URL, out.Manifest, signer); err != nil {
		return nil, fmt.Errorf("sign %s: %w", tag, err)
	}
	return out, nil
}

// found is a version that is there: its manifest, with the digest that it says its files have.
type found struct{ manifest, digest string }

func (f *found) called() string {
	if f.digest != "" {
		return f.digest
	}
	return "no package, " + f.manifest
}

func existing(ctx context.Context, repo *ocirepo.Repository, tag string) (*found, error) {
	d, err := repo.Resolve(ctx, tag)
	if errors.Is(err, ocirepo.ErrNotFound) {
		return nil, nil //nolint:nilnil // nothing is there
	}
	if err != nil {
		return nil, err
	}
	manifest, err := repo.Manifest(ctx, d)
	if err != nil {
		return nil, err
	}
	return &found{d.Digest.String(), manifest.Annotations[digestKey]}, nil
}

// packed is what a package becomes, ready to be pushed.
type packed struct {
	manifest     ocispec.Descriptor
	manifestText []byte
	config       ocispec.Descriptor
	configText   []byte
	layer        ocispec.Descriptor
	layerBytes   []byte
}

func describe(mediaType string, data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

func pack(files fs.FS, p *packages.Package, sum string) (*packed, error) {
	out := &packed{}
	var err error
	if out.configText, err = json.Marshal(p); err != nil {
		return nil, err
	}
	if out.layerBytes, err = packFiles(files); err != nil {
		return nil, err
	}
	if most := archive.DefaultLimits().Packed; int64(len(out.layerBytes)) > most {
		return nil, fmt.Errorf("the files have %d MiB when packed, more than the limit of %d MiB: leave out what the package does not need",
			len(out.layerBytes)>>20, most>>20)
	}
	out.config, out.layer = describe(configType, out.configText), describe(layerType, out.layerBytes)
	annotations := map[string]string{
		digestKey: sum, ocispec.AnnotationTitle: p.Metadata.Name, ocispec.AnnotationVersion: p.Spec.Version,
	}
	for key, value := range map[string]string{ocispec.AnnotationDescription: p.Spec.Description, ocispec.AnnotationURL: p.Spec.Home} {
		if value != "" {
			annotations[key] = value
		}
	}
	out.manifestText, err = json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType,
		Config: out.config, Layers: []ocispec.Descriptor{out.layer}, Annotations: annotations,
	})
	out.manifest = describe(ocispec.MediaTypeImageManifest, out.manifestText)
	return out, err
}

// packFiles writes a tar file in gzip whose bytes depend on the files alone.
func packFiles(files fs.FS) ([]byte, error) {
	list, err := packages.Contents(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, c := range list {
		header := &tar.Header{Name: c.Path, Typeflag: tar.TypeReg, Size: c.Size, Mode: 0o644, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if err := copyFile(w, files, c); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func copyFile(w io.Writer, files fs.FS, c packages.Content) error {
	f, err := files.Open(c.Path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing is lost
	n, err := io.Copy(w, io.LimitReader(f, c.Size))
	if err == nil && n != c.Size {
		err = fmt.Errorf("read %q: the file changed while it was read", c.Path)
	}
	return err
}

// push puts everything there before the tag names it: whoever stops in between has published nothing.
func (p *packed) push(ctx context.Context, repo *ocirepo.Repository, tag string) error {
	if err := repo.PushBlob(ctx, p.layer, p.layerBytes); err != nil {
		return err
	}
	if err := repo.PushBlob(ctx, p.config, p.configText); err != nil {
		return err
	}
	return repo.PushManifest(ctx, p.manifest, p.manifestText, tag)
}
