package manual

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/internal/replace"
)

// NewCmdMan is `plural man`.
func NewCmdMan(f *cmdutil.Factory) *cobra.Command {
	return newCmd(f, "man", "Write the manual's pages into a folder", func(root *cobra.Command) []Page { return Man(root, f.Version) })
}

// NewCmdDocs is `plural docs`.
func NewCmdDocs(f *cmdutil.Factory) *cobra.Command {
	return newCmd(f, "docs", "Write the reference in Markdown into a folder", Reference)
}

func newCmd(f *cmdutil.Factory, name, short string, pages func(root *cobra.Command) []Page) *cobra.Command {
	return &cobra.Command{
		Use:     name + " DIR",
		Short:   short,
		Hidden:  true,
		Example: cmdutil.Example("plural "+name+" ./"+name, "plural "+name+" /tmp/"+name),
		Args:    cmdutil.Exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list := pages(cmd.Root())
			if err := write(args[0], list); err != nil {
				return err
			}
			f.Say("wrote %d pages into %s", len(list), args[0])
			return nil
		},
	}
}

func write(dir string, pages []Page) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write pages: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write pages: %w", err)
	}
	defer root.Close()
	for _, p := range pages {
		if err := replace.File(root, p.Name, p.Text, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", p.Name, err)
		}
	}
	return nil
}
