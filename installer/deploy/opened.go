package deploy

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/vault"
)

// opened is a file system with sealed files opened, as far as the person's keys go. The others stay sealed: whoever needs one
// says so.
type opened struct {
	base  fs.FS
	vault *vault.Vault
}

// Open implements fs.FS.
func (o *opened) Open(name string) (fs.File, error) {
	if o.vault == nil {
		return o.base.Open(name)
	}
	must, err := o.vault.Must(name)
	if err != nil || !must {
		return o.base.Open(name)
	}
	content, err := o.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &clear{Reader: bytes.NewReader(content), name: path.Base(name), size: int64(len(content))}, nil
}

// ReadFile implements fs.ReadFileFS.
func (o *opened) ReadFile(name string) ([]byte, error) {
	content, err := fs.ReadFile(o.base, name)
	if err != nil || o.vault == nil || !seal.IsSealed(content) {
		return content, err
	}
	text, err := o.vault.Open(name, content)
	if locked := new(vault.LockedError); errors.As(err, &locked) {
		return content, nil
	}
	return text, err
}

// ReadDir implements fs.ReadDirFS.
func (o *opened) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(o.base, name) }

// Stat implements fs.StatFS. The size is that of the sealed file.
func (o *opened) Stat(name string) (fs.FileInfo, error) { return fs.Stat(o.base, name) }

// clear is one opened file.
type clear struct {
	*bytes.Reader
	name string
	size int64
}

func (c *clear) Stat() (fs.FileInfo, error) { return c, nil }
func (c *clear) Close() error               { return nil }
func (c *clear) Name() string               { return c.name }
func (c *clear) Size() int64                { return c.size }
func (c *clear) Mode() fs.FileMode          { return 0o600 }
func (c *clear) ModTime() time.Time         { return time.Time{} }
func (c *clear) IsDir() bool                { return false }
func (c *clear) Sys() any                   { return nil }
