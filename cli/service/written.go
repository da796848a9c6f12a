package service

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// written are the flags that say what a service's file says.
type written struct {
	source, path, ref          string
	renderer, namespace, chart string
	valuesFiles, values        []string
	exclude                    []string
	clusters                   []string
	tags                       map[string]string
}

func (w *written) flags(flags *pflag.FlagSet) {
	flags.StringVar(&w.source, "source", "", "the `SOURCE` that the files come from (default: this repository)")
	flags.StringVar(&w.path, "path", "", "the `FOLDER` that is rendered")
	flags.StringArrayVar(&w.exclude, "exclude", nil, "leave out what fits this `PATTERN`, as in a .gitignore in the folder; may be repeated")
	flags.StringVar(&w.ref, "ref", "", "a branch, tag or commit of git, or a `VERSION` or range")
	flags.StringVar(&w.renderer, "renderer", "", "`NAME`: raw, kustomize, helm or a plugin (default: told by the files)")
	flags.StringVar(&w.namespace, "namespace", "", "where objects go that name no `NAMESPACE`")
	flags.StringVar(&w.chart, "chart", "", "the `CHART`, where the source is a Helm repository")
	flags.StringArrayVar(&w.valuesFiles, "values-file", nil, "a `FILE` of Helm values, from the repository's root; may be repeated")
	flags.StringArrayVar(&w.values, "value", nil, "a Helm value, `PATH=VALUE`, or PATH- to take it away; may be repeated")
	flags.StringArrayVar(&w.clusters, "cluster", nil, "run it on this `CLUSTER`; may be repeated")
	flags.StringToStringVarP(&w.tags, "selector", "l", nil, "run it on clusters with these `TAGS`, such as env=prod,region=eu")
}

// spec is a new service as the flags say.
func (w *written) spec() fleet.ServiceSpec {
	spec := fleet.ServiceSpec{
		Source:   fleet.SourceRef{Name: w.source, Ref: w.ref, Path: w.path},
		Renderer: w.renderer, Namespace: w.namespace, Exclude: w.exclude,
		Clusters: fleet.Selector{Names: w.clusters, MatchLabels: w.tags},
	}
	if w.chart != "" || len(w.valuesFiles) > 0 {
		spec.Helm = &fleet.Helm{Chart: w.chart, ValuesFiles: w.valuesFiles}
	}
	return spec
}

// fields are what those flags say that were given. An empty text takes its field away.
func (w *written) fields(flags *pflag.FlagSet) []yamledit.Field {
	fields := document.Given(flags, []document.Flag{
		{Name: "source", Key: "spec.source.name", Value: w.source},
		{Name: "ref", Key: "spec.source.ref", Value: w.ref},
		{Name: "path", Key: "spec.source.path", Value: w.path},
		{Name: "renderer", Key: "spec.renderer", Value: w.renderer},
		{Name: "namespace", Key: "spec.namespace", Value: w.namespace},
		{Name: "chart", Key: "spec.helm.chart", Value: w.chart},
	})
	if flags.Changed("values-file") {
		fields = append(fields, yamledit.Field{Key: "spec.helm.valuesFiles", Value: items(w.valuesFiles)})
	}
	if flags.Changed("exclude") {
		fields = append(fields, yamledit.Field{Key: "spec.exclude", Value: items(w.exclude)})
	}
	if selector := w.selector(); len(selector) > 0 {
		fields = append(fields, yamledit.Field{Key: "spec.clusters", Value: selector})
	}
	return fields
}

// selector is where the service runs, instead of where it runs now.
func (w *written) selector() map[string]any {
	out := map[string]any{}
	if len(w.clusters) > 0 {
		out["names"] = items(w.clusters)
	}
	if len(w.tags) > 0 {
		tags := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(w.tags)) {
			tags[key] = w.tags[key]
		}
		out["matchLabels"] = tags
	}
	return out
}

func items(texts []string) []any {
	out := make([]any, 0, len(texts))
	for _, text := range texts {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

// hasFolder wants the folder that a service of this repository is made of: in the work tree and, where the change is committed,
// in the commit before it. Without it the hub would refuse the commit.
func hasFolder(name string, committed func() bool) func(*workspace.Repo, *fleet.Fleet) error {
	return func(repo *workspace.Repo, after *fleet.Fleet) error {
		s, ok := after.Service(name)
		if !ok || s.Spec.Source.Name != "" {
			return nil
		}
		folder := path.Clean(cmp.Or(s.Spec.Source.Path, "."))
		at := s.Place("spec.source.path").String()
		root, err := os.OpenRoot(repo.Root())
		if err != nil {
			return fmt.Errorf("open installation repo: %w", err)
		}
		defer root.Close()
		if info, err := root.Stat(folder); err != nil || !info.IsDir() {
			return &ui.Err{
				Msg: fmt.Sprintf("service %q would be made of nothing", name), Fix: "give --path FOLDER, or --source SOURCE for another repository",
				Problems: []ui.Problem{{Where: at, Message: fmt.Sprintf("this repository has no folder %q", folder)}},
				Doc:      ui.DocNotCommitted,
			}
		}
		if !committed() {
			return nil
		}
		head, err := snapshot.Open(repo.Root(), "HEAD")
		if err != nil {
			return err
		}
		if _, _, err := head.Hash(folder); errors.Is(err, fs.ErrNotExist) {
			return &ui.Err{
				Msg: fmt.Sprintf("service %q would be made of nothing", name), Fix: fmt.Sprintf("git add %s && git commit", folder),
				Problems: []ui.Problem{{Where: at, Message: fmt.Sprintf("the folder %q is not committed", folder)}},
				Doc:      ui.DocNotCommitted,
			}
		} else if err != nil {
			return err
		}
		return nil
	}
}
