package cmdutil

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/ui"
)

// The groups of the first help screen.
const (
	GroupStart   = "start"
	GroupFleet   = "fleet"
	GroupCatalog = "catalog"
	GroupSecrets = "secrets"
	GroupAccess  = "access"
	GroupTool    = "tool"
)

// Example joins the lines of a command's examples.
func Example(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }

// Noun makes cmd a command that only holds others: alone it prints its help, with an unknown word after it it fails.
func Noun(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args)
		}
		return cmd.Help()
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// UnknownCommandError has the words of a command line that names no command, those of the command before them too.
type UnknownCommandError struct{ Words []string }

// Error names them.
func (e *UnknownCommandError) Error() string {
	return "unknown command " + strconv.Quote(strings.Join(e.Words, " "))
}

// UnknownCommand is the error for words of which the first is no command below cmd, with the nearest one that is.
func UnknownCommand(cmd *cobra.Command, words []string) error {
	fix := cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(words[0]); len(near) > 0 {
		fix = "did you mean: " + cmd.CommandPath() + " " + near[0]
	}
	var path []string
	for c := cmd; c.HasParent(); c = c.Parent() {
		path = append([]string{c.Name()}, path...)
	}
	return &ui.Err{
		Msg: fmt.Sprintf("unknown command %q for %q", words[0], cmd.CommandPath()), Fix: fix, Doc: ui.DocUsage,
		Err: &UnknownCommandError{append(path, words...)},
	}
}

// FlagError is the error for flags that cannot be read, with the nearest one that can.
func FlagError(cmd *cobra.Command, err error) error {
	told := &ui.Err{Msg: err.Error(), Fix: cmd.CommandPath() + " --help", Doc: ui.DocUsage, Err: err}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		told.Msg = fmt.Sprintf("--%s cannot be %q", invalid.GetFlag().Name, invalid.GetValue())
		told.Cause = invalid.Unwrap().Error()
		var number *strconv.NumError
		if errors.As(err, &number) {
			told.Cause = "it takes a number"
		}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			told.Fix = "did you mean: --" + near
		}
		if unknown.GetSpecifiedName() == "version" && !cmd.HasParent() {
			told.Fix = "plural version"
		}
	}
	return told
}

// nearestFlag is the flag that differs from name the least, if that is little.
func nearestFlag(cmd *cobra.Command, name string) string {
	best, near := 3, ""
	visit := func(f *pflag.Flag) {
		if d := levenshtein.Distance(name, f.Name, nil); d < best && d < len(name) && !f.Hidden {
			best, near = d, f.Name
		}
	}
	cmd.Flags().VisitAll(visit)
	cmd.InheritedFlags().VisitAll(visit)
	return near
}

// Exactly takes just these arguments, named as in the command's use line.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return &ui.Err{Msg: fmt.Sprintf("%s is missing", names[len(args)]), Fix: cmd.UseLine(), Doc: ui.DocUsage}
		case len(args) > len(names):
			return &ui.Err{Msg: fmt.Sprintf("unexpected argument %q", args[len(names)]), Fix: cmd.UseLine(), Doc: ui.DocUsage}
		}
		return nil
	}
}

// AtMost takes up to n arguments.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return &ui.Err{Msg: fmt.Sprintf("unexpected argument %q", args[n]), Fix: cmd.UseLine(), Doc: ui.DocUsage}
		}
		return nil
	}
}
