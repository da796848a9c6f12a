// Package sideload owns images that are brought onto nodes without a registry: what a folder of them holds, and which nodes lack them.
//
// It refuses to know which packages run them, and brings nothing anywhere: it names the commands that do.
package sideload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// nameAnnotation says what containerd calls the image when it is imported.
const nameAnnotation = "io.containerd.image.name"

// maxIndex bounds what is read of a layout's indexes, in bytes.
const maxIndex = 1 << 20

// Image is one of a folder, as make images writes it: an OCI layout DIR/NAME and an archive DIR/NAME.tar.
type Image struct {
	// Repository and Tag are what it is called on the nodes that have it.
	Repository, Tag string
	// Archive is the file that nodes import.
	Archive string
	// platforms are those that it is for, OS/ARCH.
	platforms []string
}

// Name is the image as a pod names it.
func (i *Image) Name() string { return i.Repository + ":" + i.Tag }

// FolderError says that a folder holds no image that can be used.
type FolderError struct {
	File, Problem string
	Err           error
}

// Error names the file.
func (e *FolderError) Error() string { return e.File + ": " + e.Problem }

// Unwrap is the cause, or nil.
func (e *FolderError) Unwrap() error { return e.Err }

// Open reads what the image of a name in a folder is called.
func Open(dir, name string) (*Image, error) {
	layout := filepath.Join(dir, name)
	i := &Image{Archive: layout + ".tar"}
	file := filepath.Join(layout, ocispec.ImageIndexFile)
	index, err := readIndex(file)
	if err != nil {
		return nil, err
	}
	if len(index.Manifests) != 1 {
		return nil, &FolderError{File: file, Problem: fmt.Sprintf("it lists %d images, want one", len(index.Manifests))}
	}
	called := index.Manifests[0].Annotations[nameAnnotation]
	colon := strings.LastIndex(called, ":")
	if colon <= strings.LastIndex(called, "/") || strings.ContainsAny(called, "@ \t\n") {
		return nil, &FolderError{File: file, Problem: fmt.Sprintf("the annotation %s is %q, want REPOSITORY:TAG", nameAnnotation, called)}
	}
	i.Repository, i.Tag = called[:colon], called[colon+1:]
	if info, err := os.Stat(i.Archive); err != nil || !info.Mode().IsRegular() {
		return nil, &FolderError{File: i.Archive, Problem: "nodes import this file, and it is not there", Err: err}
	}
	return i, i.readPlatforms(layout, index.Manifests[0])
}

// readPlatforms reads what the image is for; nothing where it is for one platform and does not say which.
func (i *Image) readPlatforms(layout string, image ocispec.Descriptor) error {
	manifests := []ocispec.Descriptor{image}
	if image.MediaType == ocispec.MediaTypeImageIndex {
		if err := image.Digest.Validate(); err != nil { // it becomes a path
			return &FolderError{File: filepath.Join(layout, ocispec.ImageIndexFile), Problem: err.Error(), Err: err}
		}
		file := filepath.Join(layout, ocispec.ImageBlobsDir, image.Digest.Algorithm().String(), image.Digest.Encoded())
		index, err := readIndex(file)
		if err != nil {
			return err
		}
		manifests = index.Manifests
	}
	for _, m := range manifests {
		if m.Platform != nil {
			i.platforms = append(i.platforms, m.Platform.OS+"/"+m.Platform.Architecture)
		}
	}
	slices.Sort(i.platforms)
	return nil
}

func readIndex(name string) (index ocispec.Index, err error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return index, &FolderError{File: name, Problem: "there is no image", Err: err}
	}
	if err != nil {
		return index, &FolderError{File: filepath.Dir(name), Problem: err.Error(), Err: err}
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxIndex+1))
	if err == nil && len(text) > maxIndex {
		err = fmt.Errorf("it is larger than %d MiB", maxIndex>>20)
	}
	if err == nil {
		err = json.Unmarshal(text, &index)
	}
	if err != nil {
		return index, &FolderError{File: name, Problem: err.Error(), Err: err}
	}
	return index, nil
}
