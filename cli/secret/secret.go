// Package secret owns `plural secret`: single values of sealed files, read and set.
//
// It refuses to know where in a file a key stands, and how a file is sealed: crypto/values and the vault do.
//
// A command names a file; the work tree holds it as people read it or, where the clone is locked, sealed, and both become
// the same text. Set puts the changed text back through workspace.Repo.Commit, the one layer that seals. Values come in
// by stdin or a prompt and leave by `get` alone: no error, message or diff repeats them.
package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/workspace"
)

// maxFile bounds a file that is read, in bytes.
const maxFile = seal.MaxFile + seal.MaxHeader

// NewCmdSecret is `plural secret`.
func NewCmdSecret(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "secret",
		GroupID: cmdutil.GroupSecrets,
		Short:   "Read and set single values of sealed files",
		Example: cmdutil.Example("plural secret list secrets/db.yaml", "plural secret set secrets/db.yaml stringData.password"),
	}, newCmdList(f), newCmdGet(f), newCmdSet(f), newCmdDelete(f))
}

// target is the file that a command is about.
type target struct {
	repo *workspace.Repo
	// vault is nil where nothing is sealed.
	vault *sealer.Vault
	// path is slash-separated, from the repo's root.
	path string
	// content is what the work tree holds, nil when there is no such file; mode is that of the file.
	content []byte
	mode    fs.FileMode
}

// open finds the file that a person named, from where the person is.
func open(f *cmdutil.Factory, name string) (*target, error) {
	repo, err := f.Repo()
	if err != nil {
		return nil, err
	}
	t := &target{repo: repo, mode: 0o644}
	if t.path, err = within(repo.Root(), f.WorkDir(), name); err != nil {
		return nil, err
	}
	if t.vault, err = repo.Vault(nil); err != nil && !errors.Is(err, policy.ErrNone) {
		return nil, err
	}
	return t, t.read()
}

// within is the path of a file, named from dir, inside root.
func within(root, dir, name string) (string, error) {
	outside := &ui.Err{Msg: fmt.Sprintf("%q is not in the installation repo", name), Cause: "the repo is " + root, Fix: "name a file inside it"}
	at := name
	if !filepath.IsAbs(at) {
		at = filepath.Join(dir, at)
	}
	at, err := filepath.Abs(at)
	if err != nil {
		return "", fmt.Errorf("find %q: %w", name, err)
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil { // root has no links in it either
		at = filepath.Join(folder, filepath.Base(at))
	}
	rel, err := filepath.Rel(root, at)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", outside
	}
	return filepath.ToSlash(rel), nil
}

// read reads what the work tree holds.
func (t *target) read() error {
	root, err := os.OpenRoot(t.repo.Root())
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	info, err := root.Lstat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read %q: %w", t.path, err)
	case !info.Mode().IsRegular():
		return &ui.Err{Msg: fmt.Sprintf("%q is not a regular file", t.path), Fix: "name the file itself"}
	}
	file, err := root.Open(t.path)
	if err != nil {
		return fmt.Errorf("read %q: %w", t.path, err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %q: %w", t.path, err)
	case len(content) > maxFile:
		return &ui.Err{Msg: fmt.Sprintf("%q is larger than %d MiB", t.path, maxFile>>20), Fix: "split it: each file is sealed by itself"}
	}
	t.content, t.mode = content, info.Mode().Perm()
	return nil
}

// text is the file as people read it.
func (t *target) text() ([]byte, error) {
	switch {
	case t.content == nil:
		return nil, &ui.Err{Msg: fmt.Sprintf("there is no file %q", t.path), Fix: "plural secret set " + t.path + " KEY makes it"}
	case !seal.IsSealed(t.content):
		return t.content, nil
	case t.vault == nil:
		return nil, &ui.Err{
			Msg: fmt.Sprintf("%q is sealed, and nothing says for whom", t.path), Fix: "restore " + policy.File, Doc: ui.DocNothingSealed,
		}
	}
	text, err := t.vault.Open(t.path, t.content)
	return text, err
}

// mustBeSealed refuses a file that git would keep in clear.
func (t *target) mustBeSealed() error {
	if t.vault == nil {
		return &ui.Err{
			Msg: "nothing is sealed in this repository", Cause: "there is no " + policy.File, Fix: "plural crypto init", Doc: ui.DocNothingSealed,
		}
	}
	must, err := t.vault.Must(t.path)
	if err == nil && !must {
		err = &ui.Err{
			Msg: fmt.Sprintf("%q would not be sealed", t.path), Cause: "no pattern of " + policy.File + " covers it",
			Fix: "choose a file that one covers: " + t.patterns(), Doc: ui.DocNotSealed,
		}
	}
	return err
}

func (t *target) patterns() string {
	var patterns []string
	for _, p := range t.vault.Policy().Paths {
		patterns = append(patterns, p.Pattern)
	}
	return strings.Join(patterns, ", ")
}
