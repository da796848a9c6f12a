package validate

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// inspectFleet renders the fleet and judges what it renders to.
func inspectFleet(ctx context.Context, f *cmdutil.Factory, state *offline.State, resolver *resolve.Resolver,
	seen *fleetcache.Seen,
) (*inspect.Report, error) {
	renderer, err := preview.New(state.Taken(), f.Identities().Load)
	if err != nil {
		return nil, err
	}
	return inspect.Run(ctx, inspect.Inspection{
		Fleet: state.Fleet, Sources: state, Resolver: resolver, Renderer: renderer, Versions: seen.Versions(),
	})
}

// sentences are findings, each in one.
func sentences(list []inspect.Finding) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.Sentence())
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
func versions(list []inspect.Version) []string {
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprintf("1.%d", v.Minor))
	}
	return slices.Compact(out)
}

// whose says of each version which clusters have it. What was seen of them depends on who looks, so it says when that was too.
func (o options) whose(list []inspect.Version, seen *fleetcache.Seen) string {
	var parts []string
	for _, v := range list {
		switch {
		case !v.Assumed:
			parts = append(parts, fmt.Sprintf("1.%d of %s (seen %s)", v.Minor, cmdutil.Few(v.Clusters), cmdutil.Ago(o.f.Now(), &seen.At)))
		case len(list) == 1:
			parts = append(parts, fmt.Sprintf("1.%d, the newest known: no cluster's version was seen yet (plural status sees them)", v.Minor))
		default:
			parts = append(parts, fmt.Sprintf("1.%d, the newest known, for %s, whose version was not seen", v.Minor, cmdutil.Few(v.Clusters)))
		}
	}
	return strings.Join(parts, "; ")
}

// departure is a service that clusters lose.
type departure struct {
	clusters []string
	// files are those that say so; none where the commit before does not have it either.
	files []string
}

// going are the services that the commit before has, or that clusters were last seen to have of a commit that is not known here, and
// the fleet has no more: agents delete what they are made of. Files are those of the fleet.
func (o options) going(now, before *fleet.Fleet, seen *fleetcache.Seen, files fs.FS) []string {
	services := map[string]*departure{}
	of := func(name string) *departure {
		if services[name] == nil {
			services[name] = &departure{}
		}
		return services[name]
	}
	if before != nil {
		for i := range before.Services {
			s := &before.Services[i]
			after, stays := now.Service(s.Metadata.Name)
			for c := range before.Clusters {
				name := before.Clusters[c].Metadata.Name
				still, there := now.Cluster(name)
				if !there || !s.Spec.Clusters.Matches(&before.Clusters[c]) || stays && after.Spec.Clusters.Matches(still) {
					continue
				}
				file := s.Position.File
				if stays && s.Spec.Clusters.Matches(still) { // it is asked for less
					file = after.Position.File
				} else if stays { // the cluster is no more what the service asks for
					file = still.Position.File
				}
				d := of(s.Metadata.Name)
				d.clusters, d.files = append(d.clusters, name), append(d.files, file)
			}
		}
	}
	if seen != nil && len(o.past) == 1 { // what was seen is of no commit of this clone
		for i := range seen.Clusters {
			at, there := now.Cluster(seen.Clusters[i].Name)
			for _, row := range seen.Clusters[i].Rows {
				s, stays := now.Service(row.Service)
				if there && !(stays && s.Spec.Clusters.Matches(at)) && !slices.Contains(of(row.Service).clusters, at.Metadata.Name) {
					of(row.Service).clusters = append(of(row.Service).clusters, at.Metadata.Name)
				}
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(services)) {
		d := services[name]
		if len(d.clusters) == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("service %s leaves %s: what it has there is deleted, unless its spec.sync.onDelete was orphan; "+
			"if that is not meant: %s", name, cmdutil.Few(d.clusters), o.back(name, d.files, files)))
	}
	return out
}

// refused is why the hub would refuse the commit for what it takes away of what it serves, as far as that was seen.
func (o options) refused(now *fleet.Fleet, files fs.FS) []ui.Problem {
	served := o.past[len(o.past)-1]
	if served.fleet == nil {
		return nil
	}
	losses, err := fleet.Losses(served.fleet, now)
	if err != nil {
		return nil // the fleet is refused for it
	}
	var out []ui.Problem
	for i := range losses {
		lost := &losses[i]
		out = append(out, ui.Problem{Where: cmdutil.Few(lost.Files), Message: lost.Message(), Fix: lost.Fix(o.back("", lost.Files, files))})
	}
	return out
}

// back is the command that brings a service back which left by these files.
func (o options) back(service string, from []string, files fs.FS) string {
	switch {
	case len(from) == 0: // an older commit took it away
		return "plural why " + service
	case o.commit != "":
		return "plural undo " + o.commit
	}
	has := func(p past) bool { // the newest that has them is nearest to what was meant
		return p.files != nil && !slices.ContainsFunc(from, func(name string) bool { _, err := fs.Stat(p.files, name); return err != nil })
	}
	return cmdutil.RestoreCommand(o.past[max(slices.IndexFunc(o.past, has), 0)].commit, from, files)
}
