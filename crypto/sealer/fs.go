package sealer

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/pluralsh/plural/crypto/seal"
)

// FS is a view of base, a state of the repository, in which sealed files are open as far as the person's keys go. Those that they
// do not open stay sealed: whoever needs one says so. Sizes that listings tell are those of sealed files.
func (v *Vault) FS(base fs.FS) fs.FS { return &opened{base, v} }

type opened struct {
	base  fs.FS
	vault *Vault
}

// Open implements fs.FS.
func (o *opened) Open(name string) (fs.File, error) {
	must, err := o.vault.Must(name)
	if err != nil || !must {
		return o.base.Open(name)
	}
	if info, err := fs.Stat(o.base, name); err != nil || !info.Mode().IsRegular() {
		return o.base.Open(name)
	}
	content, err := o.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &openedFile{bytes.NewReader(content), path.Base(name), int64(len(content))}, nil
}

// ReadFile implements fs.ReadFileFS.
func (o *opened) ReadFile(name string) ([]byte, error) {
	content, err := fs.ReadFile(o.base, name)
	if err != nil || !seal.IsSealed(content) {
		return content, err
	}
	text, err := o.vault.Open(name, content)
	if locked := new(LockedError); errors.As(err, &locked) {
		return content, nil
	}
	return text, err
}

// ReadDir implements fs.ReadDirFS.
func (o *opened) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(o.base, name) }

// Stat implements fs.StatFS.
func (o *opened) Stat(name string) (fs.FileInfo, error) { return fs.Stat(o.base, name) }

// openedFile is one sealed file, open.
type openedFile struct {
	*bytes.Reader
	name string
	size int64
}

func (f *openedFile) Stat() (fs.FileInfo, error) { return openedInfo{f}, nil }
func (f *openedFile) Close() error               { return nil }

type openedInfo struct{ file *openedFile }

func (i openedInfo) Name() string       { return i.file.name }
func (i openedInfo) Size() int64        { return i.file.size }
func (i openedInfo) Mode() fs.FileMode  { return 0o600 }
func (i openedInfo) ModTime() time.Time { return time.Time{} }
func (i openedInfo) IsDir() bool        { return false }
func (i openedInfo) Sys() any           { return nil }
