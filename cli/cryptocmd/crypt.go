package cryptocmd

import (
	"bytes"
	"context"
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
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/workspace"
)

// stdin is the argument that means standard input.
const stdin = "-"

type cryptOptions struct {
	f       *cmdutil.Factory
	files   []string
	path    string
	anyPath bool
}

func newCmdEncrypt(f *cmdutil.Factory) *cobra.Command {
	o := &cryptOptions{f: f}
	cmd := &cobra.Command{
		Use:   "encrypt FILE...|-",
		Short: "Seal files in place, or standard input",
		Long: "Seal files in place, or standard input.\n\n" +
			"In an unlocked clone git does this by itself; here a file becomes on disk what git keeps of it. With - the sealed form of standard input goes to standard output, bound to --path. It is all or nothing.",
		Example: cmdutil.Example("plural crypto encrypt secrets/db.yaml", "plural crypto encrypt - --path secrets/db.yaml > sealed.age"),
		Args:    someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = args
			return o.encrypt(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.path, "path", "", "the `PATH` in the repository that standard input is sealed for")
	return cmd
}

func newCmdDecrypt(f *cmdutil.Factory) *cobra.Command {
	o := &cryptOptions{f: f}
	cmd := &cobra.Command{
		Use:   "decrypt FILE...|-",
		Short: "Print what sealed files hold",
		Long: "Print what sealed files hold.\n\n" +
			"Nothing is printed unless every file opens to its last byte, and is bound to this repository and its own path. --any-path opens files that were moved, copied, sealed for an identity that was retired, or made by other tools.",
		Example: cmdutil.Example("plural crypto decrypt secrets/db.yaml", "plural crypto decrypt - --path secrets/db.yaml", "plural crypto decrypt old.age --any-path"),
		Args:    someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			o.files = args
			return o.decrypt()
		},
	}
	cmd.Flags().StringVar(&o.path, "path", "", "the `PATH` in the repository that standard input was sealed for")
	cmd.Flags().BoolVar(&o.anyPath, "any-path", false, "open files whatever they are bound to")
	return cmd
}

// someFiles takes one file or more, or standard input alone.
func someFiles(cmd *cobra.Command, args []string) error {
	for _, arg := range args {
		if arg == stdin && len(args) > 1 {
			return &ui.Err{Msg: "standard input goes alone", Fix: cmd.UseLine()}
		}
	}
	if len(args) == 0 {
		return cmdutil.Exactly("FILE")(cmd, args)
	}
	return nil
}

func (o *cryptOptions) encrypt(ctx context.Context) error {
	repo, v, err := o.open()
	if err != nil {
		return err
	}
	sealed := make([][]byte, len(o.files))
	paths := make([]string, len(o.files))
	for i, file := range o.files {
		content, err := o.read(file)
		if err != nil {
			return err
		}
		if paths[i], err = o.pathOf(repo, file); err != nil {
			return err
		}
		if err := o.meant(ctx, v, paths[i], content); err != nil {
			return err
		}
		if sealed[i], err = sealNew(v, paths[i], content); err != nil {
			return err
		}
	}
	if o.files[0] == stdin {
		_, err := o.f.IO.Out.Write(sealed[0])
		return err
	}
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	for i, path := range paths {
		if err := put(root, path, sealed[i]); err != nil {
			return err
		}
	}
	o.f.Say("%s sealed; next  git add %s", count(len(paths), "file is", "files are"), strings.Join(o.files, " "))
	return nil
}

// meant asks about a file that was sealed for others, elsewhere: it may be somebody else who put it here, to read it.
func (o *cryptOptions) meant(ctx context.Context, v *sealer.Vault, path string, content []byte) error {
	bound, err := seal.Inspect(content)
	if err != nil || bound == nil || bound.Path == path {
		return nil // plaintext, or in its place; what is damaged does not open
	}
	widened, err := widens(v, path, bound)
	if err != nil || !widened {
		return err
	}
	return agree(ctx, o.f, fmt.Sprintf("%s was sealed at %s, for other readers. Seal it for those who read %s?", ui.Clean(path), ui.Clean(bound.Path), ui.Clean(path)))
}

// sealNew seals content for path. What is sealed already stays as it is, unless it was sealed for another place, or for
// others: then it is sealed again.
func sealNew(v *sealer.Vault, path string, content []byte) ([]byte, error) {
	if seal.IsSealed(content) {
		if _, err := v.Open(path, content); err == nil {
			return content, nil
		}
	}
	plaintext, err := plaintextOf(v, path, content)
	if err != nil {
		return nil, err
	}
	return v.Seal(path, plaintext)
}

func (o *cryptOptions) decrypt() error {
	repo, v, err := o.open()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, file := range o.files {
		content, err := o.read(file)
		if err != nil {
			return err
		}
		plaintext, err := o.decryptOne(repo, v, file, content)
		if err != nil {
			return err
		}
		out.Write(plaintext)
	}
	_, err = o.f.IO.Out.Write(out.Bytes())
	return err
}

func (o *cryptOptions) decryptOne(repo *workspace.Repo, v *sealer.Vault, file string, content []byte) ([]byte, error) {
	if !seal.IsSealed(content) {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("%q is not sealed", file), Cause: "it does not begin as an age file does", Fix: "in an unlocked clone files are in clear already: cat " + file, Doc: ui.DocNotSealed,
		}
	}
	if o.anyPath {
		plaintext, _, err := v.Read(file, content)
		return plaintext, err
	}
	path, err := o.pathOf(repo, file)
	if err != nil {
		return nil, err
	}
	plaintext, err := v.Open(path, content)
	var other *seal.BindingError
	if errors.As(err, &other) {
		return nil, &ui.Err{Msg: err.Error(), Fix: "if you know why: --any-path", Doc: ui.DocNotSealed, Err: err}
	}
	return plaintext, err
}

func (o *cryptOptions) open() (*workspace.Repo, *sealer.Vault, error) {
	repo, err := o.f.Repo()
	if err != nil {
		return nil, nil, err
	}
	v, err := repo.Vault(nil)
	return repo, v, err
}

func (o *cryptOptions) read(file string) ([]byte, error) {
	if file != stdin {
		content, err := readBounded(file, seal.MaxFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &ui.Err{
				Msg: fmt.Sprintf("there is no file %q", file), Fix: "see that the name is right: git ls-files", Doc: ui.DocNotFound, Err: err,
			}
		}
		return content, err
	}
	content, err := io.ReadAll(io.LimitReader(o.f.IO.In, seal.MaxFile+1))
	if err == nil && len(content) > seal.MaxFile {
		err = fmt.Errorf("standard input is larger than %d bytes", seal.MaxFile)
	}
	return content, err
}

func (o *cryptOptions) pathOf(repo *workspace.Repo, file string) (string, error) {
	if file == stdin {
		if o.path == "" {
			return "", &ui.Err{Msg: "nothing says which path standard input belongs to", Fix: "--path PATH"}
		}
		return filepath.ToSlash(filepath.Clean(o.path)), nil
	}
	return inRepo(repo.Root(), file)
}

// inRepo is where file lies in the repository, slash-separated.
func inRepo(root, file string) (string, error) {
	abs, err := filepath.Abs(file)
	if err == nil {
		var dir string
		if dir, err = filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			abs = filepath.Join(dir, filepath.Base(abs))
		}
	}
	if err != nil {
		return "", fmt.Errorf("find %q: %w", file, err)
	}
	rel, err := filepath.Rel(root, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return "", &ui.Err{Msg: fmt.Sprintf("%q lies outside the installation repo", file), Fix: "give a file in " + root + ", or -C another repo"}
	}
	return filepath.ToSlash(rel), nil
}

// plaintextOf is what a file holds, which may be in clear although it should not be.
func plaintextOf(v *sealer.Vault, path string, content []byte) ([]byte, error) {
	if !seal.IsSealed(content) {
		return content, nil
	}
	plaintext, _, err := v.Read(path, content)
	return plaintext, err
}

// put puts content in the place of the file at path, which keeps its mode.
func put(root *os.Root, path string, content []byte) error {
	mode := fs.FileMode(0o644)
	info, err := root.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("write %q: it is not a regular file", path)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write %q: %w", path, err)
	}
	if err := replace.File(root, path, content, mode); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	return nil
}
