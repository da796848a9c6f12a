package cli

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mendScripts has the commands that print completion scripts put right what is wrong in cobra's. It is called when root's output
// is known.
func mendScripts(root *cobra.Command) {
	var script bytes.Buffer
	out := root.OutOrStdout()
	root.SetOut(&script) // these commands write where root wrote when they were made
	root.InitDefaultCompletionCmd()
	root.SetOut(out)
	at := slices.IndexFunc(root.Commands(), func(cmd *cobra.Command) bool { return cmd.Name() == "completion" })
	if at < 0 {
		return
	}
	for _, cmd := range root.Commands()[at].Commands() {
		write := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := write(cmd, args); err != nil {
				return err
			}
			_, err := mends(cmd.Name()).WriteString(out, script.String())
			return err
		}
	}
}

// mends are what is put in the place of lines in a shell's script. Other versions of cobra may have others: then a line stays as it
// is, and the tests of the shells say what that breaks.
func mends(shell string) *strings.Replacer {
	switch shell {
	case "zsh":
		// A flag's part of a word ends with its first "=": --selector=env=prod. In edge-1=context there is none.
		return strings.NewReplacer(`=~ '-.*='`, `=~ '^-[^=]*='`)
	case "fish":
		return strings.NewReplacer(
			`string match -r -- '-.*=' "$lastArg"`, `string match -r -- "^'?\K-[^=]*=" "$lastArg"`,
			// Where only folders make sense fish would be left to offer files.
			"    if test $filefilter -eq 1; or test $dirfilter -eq 1\n", `    if test $dirfilter -eq 1
        set -l token (commandline -t)
        set -l flag (string match -r -- "^-[^=]*=" "$token")
        set -l folder (string replace -r -- "^-[^=]*=" "" "$token")
        set --global __plural_comp_results "$flag"(__fish_complete_directories "$folder" "")
        return 0
    end
    if test $filefilter -eq 1
`)
	}
	return strings.NewReplacer()
}

// plainUsages takes the quotes out of what flags say of themselves. They mark the name of a flag's value for the help; shells would
// show them.
func plainUsages(root *cobra.Command) {
	below(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { _, flag.Usage = pflag.UnquoteUsage(flag) })
	})
}
