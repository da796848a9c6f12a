package cmdutil

import (
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/completions"
)

// Complete completes one argument for each kind, in this order: Complete(f, completions.Services, completions.Clusters). Arguments
// after the last kind are not completed.
func Complete(f *Factory, kinds ...completions.Kind) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteEach completes any number of arguments of one kind, each of which is given once.
func CompleteEach(f *Factory, kind completions.Kind) cobra.CompletionFunc {
	return Complete(f, kind)
}

// CompleteFlag completes a flag of cmd, with values of a kind. With commas between them it can have several.
func CompleteFlag(f *Factory, cmd *cobra.Command, flag string, kind completions.Kind) {
	_ = cmd.RegisterFlagCompletionFunc(flag, Complete(f, kind))
}

// CompleteWords completes a flag of cmd with one of these words, such as "auto", or "never\twithout colors".
func CompleteWords(cmd *cobra.Command, flag string, words ...cobra.Completion) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
