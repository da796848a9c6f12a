package cmdutil

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/completions"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace"
)

// Complete completes one argument for each kind, in this order: Complete(f, completions.Services, completions.Clusters). Arguments
// after the last kind are not completed.
func Complete(f *Factory, kinds ...completions.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(kinds) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.words(cmd.Context(), kinds[len(args)], "", typed, nil)
	}
}

// CompleteEach completes any number of arguments of one kind, each of which is given once.
func CompleteEach(f *Factory, kind completions.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.words(cmd.Context(), kind, "", typed, args)
	}
}

// CompleteList completes the value of a flag, which may be several with commas between them.
func CompleteList(f *Factory, kind completions.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		return f.words(cmd.Context(), kind, before, typed[len(before):], strings.Split(before, ","))
	}
}

// CompletePrefixed completes arguments that say before the name which kind it is of, as svc/NAME: kinds by what stands there.
func CompletePrefixed(f *Factory, kinds map[string]completions.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		begun, _, _ := strings.Cut(typed, "/")
		if kind, ok := kinds[begun+"/"]; ok && len(begun) < len(typed) {
			return f.words(cmd.Context(), kind, begun+"/", typed[len(begun)+1:], args)
		}
		var all []cobra.Completion
		directive := cobra.ShellCompDirectiveNoFileComp
		for before, kind := range kinds {
			if !strings.HasPrefix(before, typed) && before != "" {
				continue
			}
			if before == "" {
				words, _ := f.words(cmd.Context(), kind, "", typed, args)
				all = append(all, words...)
				continue
			}
			all, directive = append(all, before), directive|cobra.ShellCompDirectiveNoSpace
		}
		slices.Sort(all)
		return all, directive
	}
}

// CompletePairs completes KEY=VALUE of two kinds.
func CompletePairs(f *Factory, keys, values completions.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		key, value, isValue := strings.Cut(typed, "=")
		if isValue {
			return f.words(cmd.Context(), values, key+"=", value, nil)
		}
		words, directive := f.words(cmd.Context(), keys, "", typed, nil)
		for i, word := range words {
			name, about, _ := strings.Cut(word, "\t")
			words[i] = cobra.CompletionWithDesc(name+"=", about)
		}
		return words, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// CompleteFilter completes --filter of a list.
func CompleteFilter(f *Factory, list completions.List) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before, words, kind := list.Filter(typed)
		if kind != completions.Nothing {
			return f.words(cmd.Context(), kind, before, typed[len(before):], nil)
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(words) > 0 && strings.HasSuffix(words[0].Text, ":") { // a key, whose value comes next
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return put(before, words), directive
	}
}

// CompleteSort completes --sort of a list.
func CompleteSort(list completions.List) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before, words := list.Sort(typed)
		return put(before, words), cobra.ShellCompDirectiveNoFileComp
	}
}

// put is words with a text before each.
func put(before string, words []completions.Word) []cobra.Completion {
	all := make([]cobra.Completion, len(words))
	for i, w := range words {
		all[i] = before + w.Text
	}
	return all
}

// special are characters that mean something to one shell or another. No name that anything takes has one.
const special = " \t$`\"'\\;&|<>(){}"

// words are those of a kind that begin with typed, but for the ones given already; before is put before each.
func (f *Factory) words(ctx context.Context, kind completions.Kind, before, typed string, given []string) (
	[]cobra.Completion, cobra.ShellCompDirective,
) {
	switch kind {
	case completions.Files:
		return nil, cobra.ShellCompDirectiveDefault
	case completions.Folders:
		return nil, cobra.ShellCompDirectiveFilterDirs
	case completions.Nothing:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []cobra.Completion
	for _, w := range f.finder().Find(ctx, kind, typed) {
		if slices.Contains(given, w.Text) || ui.Clean(w.Text) != w.Text || strings.ContainsAny(w.Text, special) ||
			strings.HasPrefix(before+w.Text, "-") {
			continue // no shell could take it as it stands, or the command would read it as a flag
		}
		words = append(words, cobra.CompletionWithDesc(before+w.Text, ui.Clean(w.About)))
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// finder looks in the clone around the working directory, on this machine, and at the hub.
func (f *Factory) finder() *completions.Finder {
	kubeconfigs := filepath.SplitList(f.Getenv("KUBECONFIG"))
	if len(kubeconfigs) == 0 {
		kubeconfigs = []string{filepath.Join(f.Getenv("HOME"), ".kube", "config")}
	}
	finder := &completions.Finder{
		Near: []completions.Lookup{completions.Machine(LocalState(), kubeconfigs)},
		Far:  f.askHub,
	}
	if repo, err := workspace.Find(f.WorkDir()); err == nil {
		finder.Near = append(finder.Near, completions.Clone(repo.Root()))
	}
	if address, err := f.HubAddress(); err == nil {
		dir := cmp.Or(f.Getenv("PLURAL_CACHE_DIR"), filepath.Join(xdg.CacheHome, "plural"))
		finder.Cache = completions.Cache{Dir: filepath.Join(dir, "completions"), Hub: address + "\x00" + f.Repository(), Now: f.Now}
	}
	return finder
}

// askHub is what the hub knows by names: as many as a page has.
func (f *Factory) askHub(ctx context.Context, kind completions.Kind, prefix string) ([]completions.Word, error) {
	hub, err := f.HubClient()
	if err != nil {
		return nil, err
	}
	q := paging.Query{Limit: paging.MaxLimit}
	if prefix != "" {
		q.Filter = "name:" + strconv.Quote(prefix) + "*"
	}
	switch kind {
	case completions.Clusters:
		list, err := hub.ClustersPage(ctx, q)
		return wordsOf(list, err, func(c v1.Cluster) (string, string) { return c.Name, string(c.Phase) })
	case completions.Services:
		list, err := hub.ServicesPage(ctx, q)
		return wordsOf(list, err, func(s v1.Service) (string, string) {
			return s.Name, string(s.Phase) + ", " + Ratio(s.Ready, s.Clusters) + " clusters"
		})
	case completions.Sources:
		list, err := hub.SourcesPage(ctx, q)
		return wordsOf(list, err, func(s v1.Source) (string, string) { return s.Name, s.URL })
	}
	return nil, completions.ErrUnknown
}

func wordsOf[T any](list *v1.List[T], err error, word func(T) (name, about string)) ([]completions.Word, error) {
	if err != nil {
		return nil, err
	}
	words := make([]completions.Word, len(list.Items))
	for i, item := range list.Items {
		words[i].Text, words[i].About = word(item)
	}
	return words, nil
}
