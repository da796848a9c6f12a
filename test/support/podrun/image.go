package podrun

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// image is the one for this machine's platform in an OCI layout.
type image struct {
	layout   string
	manifest ocispec.Manifest
	config   ocispec.ImageConfig
}

func openImage(layout string) (*image, error) {
	i := &image{layout: layout}
	var index ocispec.Index
	if err := readJSON(filepath.Join(layout, ocispec.ImageIndexFile), &index); err != nil {
		return nil, err
	}
	for len(index.Manifests) > 0 {
		found := index.Manifests[0] // layouts of ours have one image
		for _, m := range index.Manifests {
			if m.Platform != nil && m.Platform.Architecture == runtime.GOARCH && m.Platform.OS == runtime.GOOS {
				found = m
			}
		}
		index = ocispec.Index{}
		if found.MediaType == ocispec.MediaTypeImageIndex {
			if err := readJSON(i.blob(found.Digest), &index); err != nil {
				return nil, err
			}
			continue
		}
		var config ocispec.Image
		if err := errors.Join(readJSON(i.blob(found.Digest), &i.manifest), readJSON(i.blob(i.manifest.Config.Digest), &config)); err != nil {
			return nil, err
		}
		i.config = config.Config
		return i, nil
	}
	return nil, fmt.Errorf("%s: no image for %s/%s", layout, runtime.GOOS, runtime.GOARCH)
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func (i *image) blob(d digest.Digest) string {
	return filepath.Join(i.layout, ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

// unpack writes the files of the image's layers into a new folder.
func (i *image) unpack(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, layer := range i.manifest.Layers {
		if err := unpackLayer(i.blob(layer.Digest), root); err != nil {
			return fmt.Errorf("layer %s: %w", layer.Digest, err)
		}
	}
	return nil
}

// unpackLayer knows what layers of ours are made of: folders and files of root's.
func unpackLayer(blob string, root *os.Root) error {
	file, err := os.Open(blob)
	if err != nil {
		return err
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for from := tar.NewReader(zip); ; {
		header, err := from.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		name := strings.TrimSuffix(header.Name, "/")
		switch header.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeReg:
			err = unpackFile(root, name, from)
		default:
			err = errors.New("neither a folder nor a file")
		}
		if err == nil { // apart from what umask leaves
			err = root.Chmod(name, header.FileInfo().Mode()&(fs.ModePerm|fs.ModeSticky))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func unpackFile(root *os.Root, name string, from io.Reader) (err error) {
	to, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	_, err = io.Copy(to, from)
	return err
}
