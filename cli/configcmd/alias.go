package configcmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/ui"
)

// NewCmdAlias is `plural alias`. taken says which words are commands: an alias never stands for one of these.
func NewCmdAlias(f *cmdutil.Factory, taken func(root *cobra.Command) func(name string) bool) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "alias",
		Short:   "Give command lines names of your own",
		GroupID: cmdutil.GroupTool,
		Long: `Give command lines names of your own. They lie with your settings.

In a line $1, $2 and so on are the arguments after the name; those that it does
not name come behind it. Words are parted at spaces, without quotes. A line that
begins with ! is one for sh, where quotes and pipes are as in any script. A
command or a plugin of the same name goes first.`,
		Example: cmdutil.Example("plural alias set ill 'status --filter health:degraded'", "plural ill"),
	}, newCmdAliasSet(f, taken), newCmdAliasList(f), newCmdAliasDelete(f))
}

func newCmdAliasSet(f *cmdutil.Factory, taken func(root *cobra.Command) func(name string) bool) *cobra.Command {
	return &cobra.Command{
		Use:   "set WORD LINE",
		Short: "Have a word stand for a command line",
		Example: cmdutil.Example("plural alias set on 'status --filter cluster:$1'",
			"plural alias set names '!plural service list -o name | cut -d / -f 2'"),
		Args: cmdutil.Exactly("WORD", "LINE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, line := args[0], args[1]
			isTaken, words := taken(cmd.Root()), strings.Fields(line)
			switch {
			case name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n/."):
				return &ui.Err{Msg: fmt.Sprintf("%q is no name for a command", name), Fix: "one word of letters and digits", Doc: ui.DocUsage}
			case isTaken(name):
				return &ui.Err{Msg: fmt.Sprintf("plural %s is a command already", name), Fix: "take another name", Doc: ui.DocExists}
			case len(words) == 0 || !strings.HasPrefix(line, "!") && !isTaken(words[0]):
				return &ui.Err{
					Msg: fmt.Sprintf("%q does not begin with a command of plural",
						line), Fix: "plural --help lists them; before a line for sh stands an exclamation mark", Doc: ui.DocUsage,
				}
			}
			return change(f, func(text []byte) ([]byte, error) { return settings.SetAlias(text, name, line) })
		},
	}
}

func newCmdAliasList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the names with their lines",
		Example: cmdutil.Example("plural alias list", "plural alias list -o json"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			set, err := settings.Load(f.ConfigDir())
			if err != nil {
				return Explain(err)
			}
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			lines := set.Aliases()
			view := ui.View{Value: lines, Columns: []ui.Column{{Name: "NAME"}, {Name: "LINE"}}}
			for _, name := range slices.Sorted(maps.Keys(lines)) {
				view.Names = append(view.Names, "alias/"+name)
				view.Rows = append(view.Rows, []string{name, lines[name]})
			}
			if len(lines) == 0 {
				view.Note = "no alias; plural alias set WORD LINE makes one"
			}
			return f.Print(printer, view)
		},
	}
}

func newCmdAliasDelete(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "delete WORD",
		Short:   "Forget a name",
		Example: cmdutil.Example("plural alias delete ill", "plural alias delete on"),
		Args:    cmdutil.Exactly("WORD"),
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := settings.Load(f.ConfigDir())
			if _, there := set.Aliases()[args[0]]; err == nil && !there {
				return &ui.Err{Msg: fmt.Sprintf("there is no alias %q", args[0]), Fix: "plural alias list", Doc: ui.DocNotFound}
			}
			return change(f, func(text []byte) ([]byte, error) { return settings.UnsetAlias(text, args[0]) })
		},
	}
}
