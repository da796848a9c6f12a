package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/plugin"
	"github.com/pluralsh/plural/cli/ui"
)

func addGroups(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: cmdutil.GroupStart, Title: "Start"},
		&cobra.Group{ID: cmdutil.GroupFleet, Title: "Fleet"},
		&cobra.Group{ID: cmdutil.GroupCatalog, Title: "Catalog"},
		&cobra.Group{ID: cmdutil.GroupSecrets, Title: "Secrets"},
		&cobra.Group{ID: cmdutil.GroupAccess, Title: "Access"},
		&cobra.Group{ID: cmdutil.GroupTool, Title: "Tool"},
	)
	root.SetCompletionCommandGroupID(cmdutil.GroupTool)
	root.SetHelpCommandGroupID(cmdutil.GroupTool)
}

// setHelp gives every command below root our help in the place of cobra's.
func setHelp(root *cobra.Command, f *cmdutil.Factory) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		f.IO.Pager = f.Pager() // help comes before anything is prepared
		_ = f.Paged(func() error {
			if cmd == root {
				writeFirstScreen(f.IO.Out, root, f)
				return nil
			}
			writeHelp(f.IO.Out, cmd)
			return nil
		})
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		writeHelp(cmd.OutOrStderr(), cmd)
		return nil
	})
}

// refuseUnknownWords has help, and flags that cannot be read, say of a word that is no command that it is none. Help cannot fail: its
// error stands in mistaken once the command has run.
func refuseUnknownWords(root *cobra.Command) (mistaken *error) {
	mistaken = new(error)
	show, explain := root.HelpFunc(), root.FlagErrorFunc()
	unknown := func(cmd *cobra.Command) error {
		if words := cmd.Flags().Args(); len(words) > 0 && cmd.HasSubCommands() {
			return cmdutil.UnknownCommand(cmd, words)
		}
		return nil
	}
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if *mistaken = unknown(cmd); *mistaken == nil {
			show(cmd, args)
		}
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return cmp.Or(unknown(cmd), explain(cmd, err)) })
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.RunE = func(_ *cobra.Command, words []string) error {
		cmd, rest, err := root.Find(words)
		switch {
		case err != nil:
			return err
		case len(rest) > 0 && cmd == root:
			return &ui.Err{
				Msg: fmt.Sprintf("there is no help for %q", strings.Join(words, " ")), Fix: "plural --help lists commands and topics",
				Doc: ui.DocUsage, Code: ui.ExitDiffers, Err: &cmdutil.UnknownCommandError{Words: words},
			}
		case len(rest) > 0 && cmd.HasSubCommands():
			return cmdutil.UnknownCommand(cmd, rest)
		}
		return cmd.Help()
	}
	return mistaken
}

// writeFirstScreen is the help of the program: it fits a terminal of 24 lines with 80 columns.
func writeFirstScreen(w io.Writer, root *cobra.Command, f *cmdutil.Factory) {
	fmt.Fprintf(w, "%s.\n", root.Short)
	for _, group := range root.Groups() {
		if group.ID == cmdutil.GroupTool || group.ID == cmdutil.GroupAccess {
			writeNames(w, root, group)
			continue
		}
		writeCommands(w, root, group)
	}
	writePlugins(w, root, f)
	fmt.Fprintln(w, "More: plural COMMAND --help; plural help environment, filters, keys, git, ...")
}

// writeCommands lists the commands of a group under its title, if there are any.
func writeCommands(w io.Writer, cmd *cobra.Command, group *cobra.Group) {
	title := group.Title
	for _, c := range cmd.Commands() {
		if c.GroupID == group.ID && c.IsAvailableCommand() {
			fmt.Fprintf(w, "%-9s%-12s %s\n", title, c.Name(), c.Short)
			title = ""
		}
	}
}

// writeNames lists a group's commands by their names alone.
func writeNames(w io.Writer, cmd *cobra.Command, group *cobra.Group) {
	var names []string
	for _, c := range cmd.Commands() {
		if c.GroupID == group.ID && c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	fmt.Fprintf(w, "%-9s%s\n", group.Title, strings.Join(names, ", "))
}

// writePlugins names the commands that other programs add, as far as a line holds.
func writePlugins(w io.Writer, root *cobra.Command, f *cmdutil.Factory) {
	var names []string
	for _, p := range plugin.All(f.Getenv("PATH"), plugin.Taken(root)) {
		if p.Shadowed == "" {
			names = append(names, p.Name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintln(w, ansi.Truncate("Plugins  "+strings.Join(names, ", "), columns, "…"))
	}
}

// writeHelp is the help of one command.
func writeHelp(w io.Writer, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintln(w, fill(text))
	if cmd.IsAdditionalHelpTopicCommand() {
		return
	}
	fmt.Fprintf(w, "\nUsage\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w, "\nCommands")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-12s %s\n", c.Name(), c.Short)
			}
		}
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(w, "\nAlso called\n  %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if own := ownFlags(cmd); own.HasAvailableFlags() {
		fmt.Fprintf(w, "\nFlags\n%s", own.FlagUsagesWrapped(columns))
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples\n%s\n", cmd.Example)
	}
	fmt.Fprintln(w, "\nFlags of every command: plural help flags")
}

// columns is how wide help is.
const columns = 80

// fill breaks the paragraphs of text anew at columns. Those with an indented line stand as they are.
func fill(text string) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") {
			const hyphen, unbroken = "-", "\u2011" // a flag does not end behind its first hyphen
			p = strings.NewReplacer("\n", " ", hyphen, unbroken).Replace(p)
			paragraphs[i] = strings.ReplaceAll(lipgloss.Wrap(p, columns, ""), unbroken, hyphen)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// ownFlags are the flags of cmd alone, without help's.
func ownFlags(cmd *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			own.AddFlag(f)
		}
	})
	return own
}
