package plugin

import (
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// NewCmdPlugin is `plural plugin`.
func NewCmdPlugin(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "plugin",
		Short:   "See the commands that other programs add",
		GroupID: cmdutil.GroupTool,
		Long: "A program plural-NAME on PATH is the command plural NAME. It is given what stands after the name, the environment, and in it " +
			"PLURAL_HUB and PLURAL_REPO, as far as they are known, and PLURAL_PROGRAM, the path of this program. It can never take the " +
			"place of a command that there is, and folders of PATH that are not absolute are not looked into.",
		Example: cmdutil.Example("plural plugin list", "plural plugin list -o json"),
	}, newCmdList(f))
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the programs plural-NAME on PATH",
		Example: cmdutil.Example("plural plugin list", "plural plugin list -o name"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			list := All(f.Getenv("PATH"), Taken(cmd.Root()))
			view := ui.View{Value: list, Columns: []ui.Column{{Name: "NAME"}, {Name: "PROGRAM"}, {Name: "SHADOWED BY"}}}
			for _, p := range list {
				view.Names = append(view.Names, "plugin/"+p.Name)
				view.Rows = append(view.Rows, []string{p.Name, p.Path, cmdutil.OrDash(p.Shadowed)})
			}
			if len(list) == 0 && printer.Human() {
				f.Say("no program on PATH is called plural-NAME")
			}
			return printer.Print(view)
		},
	}
}

// Taken says which words are commands below root, hidden ones and cobra's own too.
func Taken(root *cobra.Command) func(name string) bool {
	return func(name string) bool {
		switch name {
		case "help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
			return true
		}
		for _, c := range root.Commands() {
			if c.Name() == name || c.HasAlias(name) {
				return true
			}
		}
		return false
	}
}
