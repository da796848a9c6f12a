package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/plugin"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/completions"
)

// complete gives every command below root that does not complete its arguments by itself what their names in its usage line say:
// CLUSTER is a cluster, and NAME what the noun is about. Flags are completed the same way, by what help calls their values.
func complete(root *cobra.Command, f *cmdutil.Factory) {
	root.ValidArgsFunction = completePlugins(f)
	own := ownArguments(f)
	below(root, func(cmd *cobra.Command) {
		if cmd.ValidArgsFunction == nil && cmd.HasParent() {
			cmd.ValidArgsFunction = own[cmd.CommandPath()]
		}
		if cmd.ValidArgsFunction == nil && cmd.HasParent() && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction, _ = arguments(cmd, f)
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if _, done := cmd.GetFlagCompletionFunc(flag.Name); done || cmd.InheritedFlags().Lookup(flag.Name) != nil {
				return
			}
			if fn := flagValues(cmd, flag, f); fn != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag.Name, fn) // the flag is there, and has none
			}
		})
	})
}

// below visits a command and all below it.
func below(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		below(c, visit)
	}
}

// kinds are what values are that help calls so.
func kinds() map[string]completions.Kind {
	return map[string]completions.Kind{
		"CLUSTER": completions.Clusters, "CLUSTERS": completions.Clusters,
		"SERVICE": completions.Services, "SOURCE": completions.Sources, "PACKAGE": completions.Packages,
		"GROUP": completions.Groups, "MEMBER": completions.Members, "WHO": completions.Members, "USER": completions.Users,
		"COMMIT": completions.Commits, "REVISION": completions.Commits, "CONTEXT": completions.Contexts,
		"FILE": completions.Files, "FILES": completions.Files, "DIR": completions.Folders, "FOLDER": completions.Folders,
		"KEY": completions.Nothing, "VALUE": completions.Nothing, "WORD": completions.Nothing, "LINE": completions.Nothing,
	}
}

// ownArguments are those whose usage line does not say enough, by the command's path.
func ownArguments(f *cmdutil.Factory) map[string]cobra.CompletionFunc {
	deployments := map[string]completions.Kind{"svc/": completions.Services, "cl/": completions.Clusters, "": completions.Commits}
	targets := map[string]completions.Kind{"service/": completions.Services, "cluster/": completions.Clusters}
	logs := map[string]completions.Kind{"agent/": completions.Clusters, "svc/": completions.Services, "": completions.Services}
	nothing := cmdutil.Complete(f)
	return map[string]cobra.CompletionFunc{
		"plural diff":           cmdutil.CompletePrefixed(f, deployments),
		"plural logs":           one(either(cobra.FixedCompletions([]cobra.Completion{"hub"}, cobra.ShellCompDirectiveNoFileComp), cmdutil.CompletePrefixed(f, logs))),
		"plural wait":           cmdutil.CompletePrefixed(f, targets),
		"plural why":            cmdutil.Complete(f, completions.Services),
		"plural kube run":       thenFiles(cmdutil.Complete(f, completions.Clusters)),
		"plural kubectl":        thenFiles(cmdutil.Complete(f, completions.Clusters)),
		"plural up":             cmdutil.Complete(f, completions.Folders),
		"plural cluster create": nothing,
		"plural package new":    nothing,
		"plural source add":     nothing,
		"plural service create": nothing,
		"plural crypto share":   cmdutil.Complete(f, completions.Members),
		"plural crypto revoke":  cmdutil.Complete(f, completions.Members),
		"plural local stop":     cmdutil.Complete(f, completions.Processes),
		"plural local start":    cmdutil.Complete(f, completions.Processes),
		"plural tui": one(cobra.FixedCompletions([]cobra.Completion{
			"fleet", "clusters", "services", "sources", "packages", "events",
		}, cobra.ShellCompDirectiveNoFileComp)),
		"plural package publish": cmdutil.Complete(f, completions.Folders, completions.Nothing),
		"plural package search":  nothing,
		"plural package show":    nothing,
		"plural package add":     nothing,
		"plural crypto hook":     nothing,
		"plural config get":      completeSettings,
		"plural config unset":    completeSettings,
		"plural config set":      completeSettings,
		"plural access who-can":  nothing,
		// Applications are few, and plural application list has them.
		"plural application create": nothing,
		"plural application delete": nothing,
		"plural application rotate": nothing,
		"plural access explain":     cmdutil.Complete(f, completions.Users, completions.Nothing, completions.Nothing),
		// A token's name is known to the hub alone, which is asked by plural auth token list.
		"plural auth token delete":    cmdutil.Complete(f, completions.Users, completions.Nothing),
		"plural crypto groups create": nothing,
		"plural crypto merge":         cmdutil.CompleteEach(f, completions.Files),
	}
}

// argument is a word of a usage line that stands for an argument: NAME, [NAME...], FILE...|-, PARAMETER=VALUE.
var argument = regexp.MustCompile(`^[\[(]*([A-Z]{2,})([@=].*)?[\])]*(\.\.\.)?(\|-)?[\])]*(\.\.\.)?[\])]*$`)

// arguments completes what the usage line names. It is false where there is a word in it that no rule is for.
func arguments(cmd *cobra.Command, f *cmdutil.Factory) (cobra.CompletionFunc, bool) {
	var list []completions.Kind
	each := false
	known := kinds()
	for _, word := range strings.Fields(cmd.Use)[1:] {
		m := argument.FindStringSubmatch(word)
		if m == nil {
			return nil, false
		}
		kind, ok := known[m[1]]
		switch {
		case m[1] == "NAME":
			kind, ok = named(cmd)
		case strings.HasPrefix(m[2], "="):
			kind, ok = completions.Nothing, true
		}
		if !ok {
			return nil, false
		}
		list = append(list, kind)
		each = m[3]+m[5] != ""
	}
	if each && len(list) == 1 {
		return cmdutil.CompleteEach(f, list[0]), true
	}
	return cmdutil.Complete(f, list...), true
}

// named is what NAME is, by the noun that the verb belongs to.
func named(cmd *cobra.Command) (completions.Kind, bool) {
	kind, ok := map[string]completions.Kind{
		"cluster": completions.Clusters, "service": completions.Services, "source": completions.Sources,
		"package": completions.Packages, "local": completions.Fleets,
	}[cmd.Parent().Name()]
	return kind, ok
}

// flagValues completes a flag; nil leaves it to the shell, which is for flags without a value.
func flagValues(cmd *cobra.Command, flag *pflag.Flag, f *cmdutil.Factory) cobra.CompletionFunc {
	if flag.NoOptDefVal != "" {
		return nil
	}
	if words := enumerations()[flag.Name]; words != nil {
		return oneOf(words)
	}
	list, listed := completions.Lists()[listOf(cmd)]
	switch {
	case flag.Name == "filter" && listed:
		return cmdutil.CompleteFilter(f, list)
	case flag.Name == "sort" && listed:
		return cmdutil.CompleteSort(list)
	case flag.Name == "selector":
		return cmdutil.CompleteList(f, completions.Tags)
	case flag.Name == "dir":
		return cmdutil.CompleteEach(f, completions.Folders)
	case flag.Name == "cluster" && flag.Usage != "":
		return cmdutil.CompleteList(f, completions.Clusters)
	}
	name, _ := pflag.UnquoteUsage(flag)
	if name == "CLUSTER=CONTEXT" {
		return cmdutil.CompletePairs(f, completions.Clusters, completions.Contexts)
	}
	kind := kinds()[name]
	if strings.HasSuffix(name, "S") || strings.Contains(flag.Value.Type(), "Slice") {
		return cmdutil.CompleteList(f, kind)
	}
	return cmdutil.CompleteEach(f, kind)
}

// listOf is the list that a command's --filter is for; status picks services on clusters.
func listOf(cmd *cobra.Command) string {
	switch {
	case cmd.Name() == "status":
		return "deployments"
	case cmd.Name() == "events":
		return "events"
	case cmd.Name() == "list" && cmd.Parent() != nil:
		return cmd.Parent().Name() + "s"
	}
	return ""
}

// enumerations are flags that have one of some words, wherever they stand.
func enumerations() map[string][]cobra.Completion {
	return map[string][]cobra.Completion{
		"output": {
			"table", "wide\tmore columns", "json", "yaml", "name\tkind/name, a line each", "jsonpath=\tas kubectl has it", "template=\ta Go template",
		},
		"decision":   {"allowed", "denied", "limited"},
		"color":      {"auto\ton terminals", "always", "never"},
		"log-format": {"text", "json"},
		"renderer":   {"raw", "kustomize", "helm"},
		"type":       {"string", "number", "bool", "null"},
		"scenario":   {"steady", "commit", "touch-all", "storm"},
	}
}

// oneOf completes one of some words. What ends in "=" goes on, so that no space is put behind it.
func oneOf(words []cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var fitting []cobra.Completion
		for _, word := range words {
			if strings.HasPrefix(word, typed) {
				fitting = append(fitting, word)
			}
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(fitting) == 1 && strings.HasSuffix(strings.Split(fitting[0], "\t")[0], "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return fitting, directive
	}
}

// completeSettings completes the key of a setting, and the value where there are but some.
func completeSettings(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []cobra.Completion
	switch {
	case len(args) == 0:
		for _, s := range settings.All() {
			words = append(words, cobra.CompletionWithDesc(string(s.Key), s.About))
		}
	case len(args) == 1 && cmd.Name() == "set":
		s, _ := settings.Find(settings.Key(args[0]))
		words = s.Words
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completePlugins are the commands that other programs add.
func completePlugins(f *cmdutil.Factory) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var words []cobra.Completion
		if len(args) == 0 {
			for _, p := range plugin.All(f.Getenv("PATH"), plugin.Taken(cmd.Root())) {
				if p.Shadowed == "" {
					words = append(words, cobra.CompletionWithDesc(p.Name, p.Path))
				}
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// one completes the first argument alone.
func one(fn cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return fn(cmd, args, typed)
	}
}

// thenFiles completes the first argument; those behind it are another program's, for which files are the best guess.
func thenFiles(fn cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return fn(cmd, args, typed)
	}
}

// either is the words of both.
func either(a, b cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		first, one := a(cmd, args, typed)
		second, other := b(cmd, args, typed)
		return append(first, second...), one | other
	}
}
