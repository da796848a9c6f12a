package diff

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/pluralsh/plural/cli/patch"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
)

// runFiles compares the files themselves.
func (o options) runFiles(ctx context.Context, repo *workspace.Repo) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	list, err := patch.Worktree(ctx, repo, o.commit)
	if err != nil {
		return err
	}
	if len(list) == 0 && printer.Human() {
		o.f.Say("the work tree is what %s is", ui.Clean(o.commit))
	}
	view := ui.View{
		Value: map[string]any{"items": list}, Names: patch.Names(list),
		Screen:   func(w io.Writer) error { return o.screen(w, list) },
		Markdown: func(w io.Writer) error { return commentOnFiles(o.commit, list).write(w) },
	}
	if err := printer.Print(view); err != nil {
		return err
	}
	if o.exitCode && len(list) > 0 {
		return ui.Silent(ui.ExitDiffers)
	}
	return nil
}

// screen prints the changes one below the other. A terminal gets no control characters of a file.
func (o options) screen(w io.Writer, list []patch.Change) error {
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
