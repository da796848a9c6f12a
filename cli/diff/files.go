package diff

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// runFiles compares the files themselves.
func (o options) runFiles(repo *workspace.Repo) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	list, err := changes(repo, o.commit)
	if err != nil {
		return err
	}
	if len(list) == 0 && printer.Human() {
		o.f.Say("the work tree is what %s is", ui.Clean(o.commit))
	}
	view := ui.View{Value: map[string]any{"items": list}, Names: names(list), Screen: func(w io.Writer) error { return o.screen(w, list) }}
	if err := printer.Print(view); err != nil {
		return err
	}
	if o.exitCode && len(list) > 0 {
		return ui.Silent(ui.ExitDiffers)
	}
	return nil
}

// Files are the paths at which a repo's work tree differs from a commit. A sealed file that holds the same, in clear or sealed
// anew, does not.
func Files(repo *workspace.Repo, commit string) ([]string, error) {
	list, err := changes(repo, commit)
	return names(list), err
}

// changes compares the work tree with the commit.
func changes(repo *workspace.Repo, commit string) ([]change, error) {
	before, err := snapshot.Open(repo.Root(), commit)
	if err != nil {
		return nil, err
	}
	after, err := snapshot.Worktree(repo.Root())
	if err != nil {
		return nil, err
	}
	pairs, err := differing(before, after)
	if err != nil {
		return nil, err
	}
	v, err := openVault(repo)
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	d := describer{before: before.FS(), after: after.FS(), vault: v, key: key}
	list := []change{}
	for _, p := range pairs {
		c, differs, err := d.describe(p)
		if err != nil {
			return nil, err
		}
		if differs {
			list = append(list, c)
		}
	}
	return list, nil
}

func names(list []change) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = c.File
	}
	return out
}

// screen prints the changes one below the other. A terminal gets no control characters of a file.
func (o options) screen(w io.Writer, list []change) error {
	for _, c := range list {
		head := c.Action + " " + ui.Clean(c.File)
		if c.Note != "" {
			head += ": " + ui.Clean(c.Note)
		}
		if _, err := fmt.Fprintln(w, o.f.IO.Paint(ui.Bold, head)); err != nil {
			return err
		}
		for line := range strings.Lines(c.Diff) {
			if _, err := io.WriteString(w, o.paint(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o options) paint(line string) string {
	if !o.f.IO.OutTTY {
		return line
	}
	parts := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
	for i, part := range parts {
		parts[i] = ui.Clean(part)
	}
	style := map[byte]ui.Style{'+': ui.Green, '-': ui.Red, '@': ui.Faint}[line[0]]
	return o.f.IO.Paint(style, strings.Join(parts, "\t")) + "\n"
}
