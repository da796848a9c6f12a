package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/lastseen"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// inspectFleet renders the fleet and judges what it renders to.
func inspectFleet(ctx context.Context, f *cmdutil.Factory, state *offline.State, resolver *resolve.Resolver,
	seen *lastseen.Seen,
) (*inspect.Report, error) {
	renderer, err := preview.New(state.Taken(), f.Identities().Load)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	if seen != nil {
		for i := range seen.Clusters {
			versions[seen.Clusters[i].Name] = seen.Clusters[i].KubernetesVersion
		}
	}
	return inspect.Run(ctx, inspect.Inspection{
		Fleet: state.Fleet, Sources: state, Resolver: resolver, Renderer: renderer, Versions: versions,
	})
}

// told are the mistakes of a report.
func told(r *inspect.Report) []ui.Problem {
	var problems []ui.Problem
	for _, failure := range r.Failed {
		about := "service " + failure.Service
		if !failure.Everywhere {
			about += " on " + someOf(failure.Clusters)
		}
		problems = append(problems, cmdutil.RenderProblem(about+": ", failure.Err))
	}
	for _, e := range r.Errors {
		problems = append(problems, ui.Problem{Where: e.Where, Message: e.Message, Fix: e.Fix})
	}
	return problems
}

// sentences are findings, each in one.
func sentences(list []inspect.Finding) []string {
	var out []string
	for _, f := range list {
		text := f.Where + ": " + f.Message
		if f.Fix != "" {
			text += "; " + f.Fix
		}
		out = append(out, text)
	}
	return out
}

// unchecked are the services that were not looked into, with the reason.
func unchecked(r *inspect.Report, elsewhere []string, f *fleet.Fleet) []string {
	reasons := maps.Clone(r.Unchecked)
	for _, name := range elsewhere {
		if _, known := reasons[name]; !known { // no cluster selects it
			reasons[name] = "a source is not on this machine"
			if s, ok := f.Service(name); ok && s.Spec.Source.Name != "" {
				reasons[name] = "source " + s.Spec.Source.Name + " is not on this machine"
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		out = append(out, fmt.Sprintf("%s (%s)", name, reasons[name]))
	}
	return out
}

// versions are minor versions as people call them.
func versions(minors []int) []string {
	var out []string
	for _, minor := range minors {
		out = append(out, fmt.Sprintf("1.%d", minor))
	}
	return out
}

// going are the services that the commit before has, or that the hub was last seen to have, and the fleet has no more: agents delete
// what they are made of.
func going(now, before *fleet.Fleet, seen *lastseen.Seen) []string {
	clusters := map[string][]string{}
	if before != nil {
		for i := range before.Services {
			s := &before.Services[i]
			after, stays := now.Service(s.Metadata.Name)
			for c := range before.Clusters {
				name := before.Clusters[c].Metadata.Name
				still, there := now.Cluster(name)
				if there && s.Spec.Clusters.Matches(&before.Clusters[c]) && !(stays && after.Spec.Clusters.Matches(still)) {
					clusters[s.Metadata.Name] = append(clusters[s.Metadata.Name], name)
				}
			}
		}
	}
	if seen != nil {
		for i := range seen.Clusters {
			at, there := now.Cluster(seen.Clusters[i].Name)
			for _, row := range seen.Clusters[i].Rows {
				s, stays := now.Service(row.Service)
				if there && !(stays && s.Spec.Clusters.Matches(at)) && !slices.Contains(clusters[row.Service], at.Metadata.Name) {
					clusters[row.Service] = append(clusters[row.Service], at.Metadata.Name)
				}
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		out = append(out, fmt.Sprintf("service %s leaves %s: what it has there is deleted, unless its spec.sync.onDelete was orphan",
			name, someOf(clusters[name])))
	}
	return out
}

func someOf(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more clusters", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
