package cli

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/plugin"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/ui"
)

// isTaken says which words are commands, ours or other programs'.
func isTaken(f *cmdutil.Factory) func(root *cobra.Command) func(name string) bool {
	return func(root *cobra.Command) func(name string) bool {
		ours := plugin.Taken(root)
		return func(name string) bool {
			_, found := plugin.Find(f.Getenv("PATH"), name)
			return ours(name) || found
		}
	}
}

// expanded is a command line with what an alias stands for in its place. A line for a shell does not return.
func expanded(f *cmdutil.Factory, root *cobra.Command, args []string) ([]string, error) {
	flags := pflag.NewFlagSet(root.Name(), pflag.ContinueOnError)
	flags.AddFlagSet(root.PersistentFlags())
	flags.SetInterspersed(false)
	flags.Usage = func() {}
	if flags.Parse(args) != nil || flags.NArg() == 0 || isTaken(f)(root)(flags.Arg(0)) {
		return args, nil
	}
	set, err := settings.Load(f.ConfigDir())
	line, known := set.Aliases()[flags.Arg(0)]
	if err != nil || !known { // a mistake in the file is told when the command is prepared
		return args, nil
	}
	before, given := args[:len(args)-flags.NArg()], flags.Args()[1:]
	if script, ok := strings.CutPrefix(line, "!"); ok {
		shell, err := exec.LookPath("sh")
		if err != nil {
			return nil, &ui.Err{
				Msg: "there is no sh to run the alias " + flags.Arg(0), Cause: err.Error(), Fix: "install one",
				Doc: ui.DocProgram, Err: err,
			}
		}
		return nil, plugin.Plugin{Path: shell}.Exec(append([]string{"-c", script, "plural"}, given...), pluginEnvironment(f))
	}
	words, err := filled(line, given)
	return append(slices.Clone(before), words...), err
}

// filled are the words of a line with the arguments in the place of $1, $2 and so on, and behind it those that it does not name.
func filled(line string, given []string) ([]string, error) {
	words, used := strings.Fields(line), 0
	var places []string
	for n := 1; n <= 9; n++ {
		place := "$" + strconv.Itoa(n)
		if strings.Contains(line, place) {
			used = n
		}
		if n <= len(given) {
			places = append(places, place, given[n-1])
		}
	}
	if used > len(given) {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("the alias takes %d arguments, and there are %d", used, len(given)), Fix: "it is " + line,
			Doc: ui.DocUsage,
		}
	}
	for i, word := range words {
		words[i] = strings.NewReplacer(places...).Replace(word)
	}
	return append(words, given[used:]...), nil
}
