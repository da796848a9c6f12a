package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/treediff"
)

// Change is what is told of one file.
type Change struct {
	File string `json:"file"`
	// Action is added, changed or deleted.
	Action string `json:"action"`
	// Sealed says that values are masked.
	Sealed bool `json:"sealed"`
	// Note is what Diff does not say.
	Note string `json:"note,omitempty"`
	// Diff is in the unified format, empty when there is nothing that can be shown.
	Diff string `json:"diff,omitempty"`
}

// describer tells what changed in a file.
type describer struct {
	before, after fs.FS
	// vault is nil where nothing is sealed.
	vault *sealer.Vault
	// key masks values.
	key []byte
}

// openVault is what the person can open in repo; nil where nothing is sealed.
func openVault(repo *workspace.Repo) (*sealer.Vault, error) {
	v, err := repo.Vault(nil)
	if errors.Is(err, policy.ErrNone) {
		return nil, nil
	}
	return v, err
}

// describe tells what changed in a file; not differs is a file that only has another form in git than in the work tree.
func (d describer) describe(p treediff.Change) (c Change, differs bool, err error) {
	c = Change{File: p.Path, Action: "changed", Note: modes(p)}
	switch {
	case !p.Before.Exists():
		c.Action = "added"
	case !p.After.Exists():
		c.Action = "deleted"
	}
	if p.Before.Hash == p.After.Hash || !readable(p.Before) || !readable(p.After) {
		return c, true, nil
	}
	before, err := read(d.before, p.Path, p.Before)
	if err == nil {
		var after []byte
		if after, err = read(d.after, p.Path, p.After); err == nil {
			return d.contents(c, before, after)
		}
	}
	var limit *snapshot.LimitError
	if errors.As(err, &limit) {
		c.note("too large to show")
		return c, true, nil
	}
	return c, false, err
}

// readable says whether f is a plain file, or none.
func readable(f treediff.File) bool { return !f.Exists() || f.Plain() }

func modes(p treediff.Change) string {
	switch {
	case p.Before.Mode == filemode.Symlink || p.After.Mode == filemode.Symlink:
		return "symbolic link"
	case p.Before.Mode == filemode.Submodule || p.After.Mode == filemode.Submodule:
		return "submodule"
	case !p.Before.Exists() || !p.After.Exists() || p.Before.Mode == p.After.Mode:
		return ""
	case p.After.Mode == filemode.Executable:
		return "now executable"
	}
	return "no longer executable"
}

// note adds to what is told.
func (c *Change) note(text string) {
	if c.Note != "" {
		c.Note += ", "
	}
	c.Note += text
}

// read is a file's content, nil when it is not there.
func read(files fs.FS, name string, f treediff.File) ([]byte, error) {
	if !f.Exists() {
		return nil, nil
	}
	content, err := fs.ReadFile(files, name)
	if content == nil {
		content = []byte{}
	}
	return content, err
}

func (d describer) contents(c Change, before, after []byte) (Change, bool, error) {
	must := false
	if d.vault != nil {
		var err error
		if must, err = d.vault.Must(c.File); err != nil {
			return c, false, err
		}
	}
	c.Sealed = must || seal.IsSealed(before) || seal.IsSealed(after)
	if c.Sealed {
		return d.sealed(c, before, after)
	}
	if !isText(before) || !isText(after) {
		c.note("not text")
		return c, true, nil
	}
	c.Diff = unified(c.File, before, after, before, after)
	return c, true, nil
}

func isText(content []byte) bool { return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 }

// sealed describes a file whose values nobody is to see.
func (d describer) sealed(c Change, before, after []byte) (Change, bool, error) {
	old, errOld := d.open(c.File, before)
	text, errNew := d.open(c.File, after)
	switch {
	case errOld != nil || errNew != nil:
		c.note("sealed, " + c.Action + why(errors.Join(errOld, errNew)))
	case before == nil || after == nil || !bytes.Equal(old, text):
		c.Diff = unified(c.File, before, after, values.Mask(c.File, old, d.key), values.Mask(c.File, text, d.key))
		if c.Diff == "" {
			c.note("sealed, only blanks or comments differ")
		}
	case seal.IsSealed(before) && seal.IsSealed(after):
		c.note("sealed again, with the same values")
	case seal.IsSealed(after):
		c.note("sealed now")
	case c.Note == "":
		return c, false, nil
	}
	return c, true, nil
}

// open is a file as people read it.
func (d describer) open(name string, content []byte) ([]byte, error) {
	if !seal.IsSealed(content) {
		return content, nil
	}
	if d.vault == nil {
		return nil, &sealer.LockedError{Path: name}
	}
	plaintext, _, err := d.vault.Read(name, content)
	return plaintext, err
}

// why says what keeps a file from being opened, when it is not just that the person is no member.
func why(err error) string {
	var locked *sealer.LockedError
	if errors.As(err, &locked) {
		return ""
	}
	return fmt.Sprintf(" (%v)", err)
}

// unified is the difference between two texts that stand for before and after, which are nil when there is no file.
func unified(name string, before, after, from, to []byte) string {
	labels := [2]string{"a/" + name, "b/" + name}
	for i, content := range [][]byte{before, after} {
		if content == nil {
			labels[i] = "/dev/null"
		}
	}
	return udiff.Unified(labels[0], labels[1], string(from), string(to))
}
