// Package editor owns the editing of a text in a person's editor.
//
// It refuses to know what the text is, and writes it nowhere but into a private copy. Open makes that copy, in memory where the
// system has such a place; Edit lets the person work on it, as often as it takes; Text reads what has become of it; and Wipe
// overwrites it.
package editor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/ui"
)

// Draft is a private copy of a text, in a folder of its own.
type Draft struct {
	f         *cmdutil.Factory
	dir, name string
}

// Open makes a draft in a file named base, where only this user gets at it. In volatile memory if there is such a place.
func Open(f *cmdutil.Factory, base string, text []byte) (*Draft, error) {
	var dir string
	var err error
	for _, parent := range []string{f.Getenv("XDG_RUNTIME_DIR"), "/dev/shm", os.TempDir()} {
		if parent == "" {
			continue
		}
		if dir, err = os.MkdirTemp(parent, "plural-edit-"); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make a private folder: %w", err)
	}
	d := &Draft{f: f, dir: dir, name: filepath.Join(dir, filepath.Base(base))}
	if err := os.WriteFile(d.name, text, 0o600); err != nil {
		d.Wipe()
		return nil, fmt.Errorf("write a private copy: %w", err)
	}
	return d, nil
}

// Name is where the draft lies.
func (d *Draft) Name() string { return d.name }

// Edit runs the person's editor until it ends. Its setting may be several words, as git's.
func (d *Draft) Edit(ctx context.Context) error {
	command := cmp.Or(d.f.Setting(settings.Editor), d.f.Getenv("VISUAL"), d.f.Getenv("EDITOR"))
	if command == "" {
		if !d.f.Prompter().Able() {
			return &ui.Err{
				Msg: "nothing says which editor is meant, and nobody is at a terminal", Doc: ui.DocEditor,
				Fix: "set EDITOR to a program that changes the file it is given",
			}
		}
		command = "vi"
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command+` "$@"`, "sh", d.name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.f.IO.In, d.f.IO.ErrOut, d.f.IO.ErrOut
	if d.f.IO.OutTTY {
		cmd.Stdout = d.f.IO.Out
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &ui.Err{
			Msg: fmt.Sprintf("the editor %q failed, and nothing is changed", command), Cause: err.Error(), Fix: "set VISUAL or EDITOR",
			Doc: ui.DocEditor, Err: err,
		}
	}
	return nil
}

// Text is the draft as it is now, if it is at most so long.
func (d *Draft) Text(most int64) ([]byte, error) {
	file, err := os.Open(d.name)
	if err != nil {
		return nil, fmt.Errorf("read what was edited: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("read what was edited: %w", err)
	}
	if int64(len(text)) > most {
		return nil, &ui.Err{Msg: fmt.Sprintf("what was edited is larger than %d bytes", most), Fix: "it is in " + d.name}
	}
	return text, nil
}

// Wipe overwrites whatever lies in the draft's folder, what the editor left beside the file too, and removes it.
func (d *Draft) Wipe() {
	entries, _ := os.ReadDir(d.dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			overwrite(filepath.Join(d.dir, entry.Name()), info.Size())
		}
	}
	_ = os.RemoveAll(d.dir) // what is left is empty
}

func overwrite(name string, size int64) {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if _, err := file.Write(make([]byte, size)); err == nil {
		_ = file.Sync() // best effort: the file goes away in any case
	}
}
