// Package diff owns `plural diff`: what the work tree changes against a commit.
//
// It refuses to know formats of files: how a sealed file is shown without its values is crypto/values' affair.
//
// Two snapshots are compared by their hashes. Of what differs, files that are sealed, or must be, are opened with the
// person's identities and masked; where nobody here can open them, only the fact remains. Every change is one value with
// its text in it, printed as a screen or as JSON.
package diff

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/snapshot"
)

type options struct {
	f        *cmdutil.Factory
	commit   string
	exitCode bool
}

// NewCmdDiff is `plural diff`.
func NewCmdDiff(f *cmdutil.Factory) *cobra.Command {
	o := options{f: f}
	cmd := &cobra.Command{
		Use:     "diff [COMMIT]",
		GroupID: cmdutil.GroupStart,
		Short:   "Show what the work tree changes, secrets masked",
		Long: `Show what the work tree changes against a commit, by default the last one.

New files and deleted ones are shown too. Of a sealed file every key is shown
with ***(digits) in the place of its value; the digits differ where the values
do, and are others with every run. Who cannot open a file is told that it
changed.`,
		Example: cmdutil.Example("plural diff", "plural diff HEAD~3", "plural diff --exit-code -o name"),
		Args:    cmdutil.AtMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.commit = "HEAD"
			if len(args) > 0 {
				o.commit = args[0]
			}
			return o.run()
		},
	}
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "end with 2 when there are differences")
	return cmd
}

func (o options) run() error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	list, err := o.changes()
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

// changes compares the work tree with the commit.
func (o options) changes() ([]change, error) {
	repo, err := o.f.Repo()
	if err != nil {
		return nil, err
	}
	before, err := snapshot.Open(repo.Root(), o.commit)
	if err != nil {
		return nil, err
	}
	after, err := snapshot.Worktree(repo.Root())
	if err != nil {
		return nil, err
	}
	pairs, err := compare(before, after)
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
