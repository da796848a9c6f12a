// Package images owns how programs become OCI images: without a daemon, a base image or the network.
//
// An image has two layers, the files that a program needs of a system and the program itself. The same programs give the same bytes.
package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
)

// User is whom an image's program runs as, by number, so that runAsNonRoot needs no further word.
const User = "65532:65532"

// Image is what is packed.
type Image struct {
	// Name is the repository and the tag, such as ghcr.io/pluralsh/plural:1.2.3.
	Name        string
	Description string
	Revision    string // the commit
	Created     time.Time
	// Programs are one program, for each platform.
	Programs []Program
}

// Program is a file for a platform.
type Program struct {
	OS, Arch string
	File     string
}

// repository and version are the parts of a name.
func (i *Image) repository() string { return i.Name[:strings.LastIndex(i.Name, ":")] }
func (i *Image) version() string    { return i.Name[strings.LastIndex(i.Name, ":")+1:] }

// Pack writes an image into the OCI layout at dir, which it makes, beside what is there.
func Pack(ctx context.Context, dir string, i *Image) (ocispec.Descriptor, error) {
	if strings.LastIndex(i.Name, ":") <= strings.LastIndex(i.Name, "/") {
		return ocispec.Descriptor{}, fmt.Errorf("image %q: want a tag, as in ghcr.io/pluralsh/plural:1.2.3", i.Name)
	}
	store, err := oci.NewWithContext(ctx, dir)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	store.AutoSaveIndex = false
	p := &packing{Image: i, store: store, dir: dir}
	index, err := p.index(ctx)
	if err != nil {
		return index, fmt.Errorf("image %s: %w", i.Name, err)
	}
	// What containerd calls the image when it is imported.
	index.Annotations = map[string]string{"io.containerd.image.name": i.Name}
	if err := store.Tag(ctx, index, i.version()); err != nil {
		return index, err
	}
	return index, Save(store, dir)
}

// Save writes the index of a layout in an order of its own, and without what is a part of another image: readers that are given no tag
// take the only one there is.
func Save(store *oci.Store, dir string) error {
	if err := store.SaveIndex(); err != nil {
		return err
	}
	file := filepath.Join(dir, ocispec.ImageIndexFile)
	index, err := readIndex(file)
	if err != nil {
		return err
	}
	parts := map[digest.Digest]bool{}
	for _, d := range index.Manifests {
		if d.MediaType != ocispec.MediaTypeImageIndex {
			continue
		}
		of, err := readIndex(filepath.Join(dir, ocispec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded()))
		if err != nil {
			return err
		}
		for _, part := range of.Manifests {
			parts[part.Digest] = true
		}
	}
	index.MediaType = ocispec.MediaTypeImageIndex
	index.Manifests = slices.DeleteFunc(index.Manifests, func(d ocispec.Descriptor) bool { return parts[d.Digest] })
	slices.SortFunc(index.Manifests, func(a, b ocispec.Descriptor) int {
		return cmp.Or( // those with a tag first
			strings.Compare(b.Annotations[ocispec.AnnotationRefName], a.Annotations[ocispec.AnnotationRefName]),
			strings.Compare(a.Digest.String(), b.Digest.String()),
		)
	})
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func readIndex(file string) (index ocispec.Index, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &index)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return index, err
}

// Manifests are the images of the platforms that an index lists.
func Manifests(ctx context.Context, from content.Fetcher, index ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	text, err := content.FetchAll(ctx, from, index)
	if err != nil {
		return nil, err
	}
	var i ocispec.Index
	if err := json.Unmarshal(text, &i); err != nil {
		return nil, fmt.Errorf("index %s: %w", index.Digest, err)
	}
	return i.Manifests, nil
}

type packing struct {
	*Image
	store *oci.Store
	dir   string
}

// layer is a layer that the store has.
type layer struct {
	ocispec.Descriptor
	diffID digest.Digest
}

func (p *packing) index(ctx context.Context) (ocispec.Descriptor, error) {
	system, err := p.layer(ctx, p.system)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	manifests := make([]ocispec.Descriptor, len(p.Programs))
	all, ctx := errgroup.WithContext(ctx)
	for n, program := range p.Programs {
		all.Go(func() error {
			var err error
			manifests[n], err = p.manifest(ctx, program, system)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return ocispec.Descriptor{}, err
	}
	return p.push(ctx, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests, Annotations: p.labels(),
	})
}

func (p *packing) labels() map[string]string {
	return map[string]string{
		ocispec.AnnotationTitle:       path.Base(p.repository()),
		ocispec.AnnotationDescription: p.Description,
		ocispec.AnnotationSource:      "https://github.com/pluralsh/plural",
		ocispec.AnnotationLicenses:    "Apache-2.0",
		ocispec.AnnotationVersion:     p.version(),
		ocispec.AnnotationRevision:    p.Revision,
		ocispec.AnnotationCreated:     p.Created.UTC().Format(time.RFC3339),
	}
}

// manifest is the image of one platform.
func (p *packing) manifest(ctx context.Context, program Program, system layer) (ocispec.Descriptor, error) {
	entry := "/usr/local/bin/" + path.Base(p.repository())
	own, err := p.layer(ctx, func(to *tar.Writer) error { return p.program(to, program.File, entry) })
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	platform := ocispec.Platform{OS: program.OS, Architecture: program.Arch}
	created := p.Created.UTC()
	config, err := p.push(ctx, ocispec.MediaTypeImageConfig, ocispec.Image{
		Created: &created, Platform: platform,
		Config: ocispec.ImageConfig{
			User: User, Entrypoint: []string{entry}, WorkingDir: "/", Labels: p.labels(),
			Env: []string{"PATH=/usr/local/bin", "HOME=/tmp"},
		},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{system.diffID, own.diffID}},
		History: []ocispec.History{
			{Created: &created, CreatedBy: "certificates of public authorities, a user"}, {Created: &created, CreatedBy: entry},
		},
	})
	if err != nil {
		return config, err
	}
	manifest, err := p.push(ctx, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config,
		Layers: []ocispec.Descriptor{system.Descriptor, own.Descriptor},
	})
	manifest.Platform = &platform
	return manifest, err
}

// push puts what is written as JSON into the store.
func (p *packing) push(ctx context.Context, mediaType string, value any) (ocispec.Descriptor, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	d := content.NewDescriptorFromBytes(mediaType, text)
	return d, there(p.store.Push(ctx, d, bytes.NewReader(text)))
}

// there is no error when the store has it already.
func there(err error) error {
	if errors.Is(err, errdef.ErrAlreadyExists) {
		return nil
	}
	return err
}

// layer packs what write writes. It is packed beside the store first, since a store asks for the digest of what it gets.
func (p *packing) layer(ctx context.Context, write func(*tar.Writer) error) (l layer, err error) {
	file, err := os.CreateTemp(p.dir, ".layer-*")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	packed, plain := digest.SHA256.Digester(), digest.SHA256.Digester()
	zip, err := gzip.NewWriterLevel(io.MultiWriter(file, packed.Hash()), gzip.DefaultCompression)
	if err != nil {
		return l, err
	}
	to := tar.NewWriter(io.MultiWriter(zip, plain.Hash()))
	for _, step := range []func() error{func() error { return write(to) }, to.Close, zip.Close} {
		if err := step(); err != nil {
			return l, err
		}
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return l, err
	}
	l.Descriptor = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: packed.Digest(), Size: size}
	l.diffID = plain.Digest()
	return l, there(p.store.Push(ctx, l.Descriptor, file))
}

// system is what programs need of a system: who they are, whom they trust, and where to put what does not stay.
func (p *packing) system(to *tar.Writer) error {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil { // a file of certificates cannot say that a root counts for some certificates only
			continue
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name string
		mode fs.FileMode
		text string
	}{
		{"etc/", 0o755, ""},
		{"etc/group", 0o644, "root:x:0:\nnonroot:x:65532:\n"},
		{"etc/passwd", 0o644, "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"},
		{"etc/ssl/", 0o755, ""},
		{"etc/ssl/certs/", 0o755, ""},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots.String()},
		{"tmp/", 0o1777, ""},
		{"usr/", 0o755, ""},
		{"usr/local/", 0o755, ""},
		{"usr/local/bin/", 0o755, ""},
	} {
		if err := p.entry(to, f.name, int64(f.mode), int64(len(f.text)), strings.NewReader(f.text)); err != nil {
			return err
		}
	}
	return nil
}

func (p *packing) program(to *tar.Writer, from, entry string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return p.entry(to, strings.TrimPrefix(entry, "/"), 0o755, info.Size(), file)
}

// entry writes a file, or a folder where the name ends so. All are root's, and as old as the commit.
func (p *packing) entry(to *tar.Writer, name string, mode, size int64, from io.Reader) error {
	header := &tar.Header{
		Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: p.Created.UTC().Truncate(time.Second),
	}
	if strings.HasSuffix(name, "/") {
		header.Typeflag = tar.TypeDir
	}
	if err := to.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(to, from)
	return err
}

// Archive writes the layout at dir as one tar, as containerd, k3s, kind, podman and skopeo read it.
func Archive(dir, file string, created time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	to := tar.NewWriter(out)
	p := &packing{Image: &Image{Created: created}}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil, name == ".":
			return err
		case d.IsDir():
			return p.entry(to, name+"/", 0o755, 0, strings.NewReader(""))
		case !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") || name == "ingest":
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		from, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer from.Close()
		return p.entry(to, name, 0o644, info.Size(), from)
	})
	if err != nil {
		return err
	}
	return to.Close()
}
