package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/amend"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/unread"
)

// warnUnread warns, before anything is written, of parameters and values that are set and that nothing of the service reads. Who sits
// at a terminal is asked.
func warnUnread(ctx context.Context, f *cmdutil.Factory, name string, fields []amend.Field) func(*workspace.Repo, *fleet.Fleet) error {
	return func(repo *workspace.Repo, after *fleet.Fleet) error {
		files, err := offline.Read(repo, "")
		if err != nil {
			return err
		}
		warned := false
		for _, n := range unreadBy(&offline.State{Fleet: after, Files: *files}, name) {
			if !sets(fields, n.Field) {
				continue
			}
			warned = true
			text := fmt.Sprintf("warning: nothing in service %s reads %s", name, n.Field)
			if n.Nearest != "" {
				text += fmt.Sprintf("; did you mean %s?", n.Nearest)
			}
			f.Say("%s", ui.Clean(text))
		}
		prompter := f.Prompter()
		if !warned || f.Yes || !prompter.Able() {
			return nil
		}
		yes, err := prompter.Confirm(ctx, "Set it all the same?", "--yes")
		if err == nil && !yes {
			err = &ui.Err{Msg: "nothing was changed", Fix: "plural service get " + name + " shows what it sets", Doc: ui.DocUnconfirmed}
		}
		return err
	}
}

// unreadBy is what nothing reads of what a service sets; nothing where it cannot be looked into here.
func unreadBy(state *offline.State, name string) []unread.Name {
	s, ok := state.Fleet.Service(name)
	if !ok {
		return nil
	}
	resolver := resolve.New()
	for i := range state.Fleet.Clusters {
		c := &state.Fleet.Clusters[i]
		if !s.Spec.Clusters.Matches(c) {
			continue
		}
		alone := &fleet.Fleet{
			Workspace: state.Fleet.Workspace, Clusters: []fleet.Cluster{*c}, Services: []fleet.Service{*s}, Sources: state.Fleet.Sources,
		}
		alone.Services[0].Spec.DependsOn = nil
		deployments, err := resolver.For(alone, c.Metadata.Name, state)
		if err != nil || len(deployments) == 0 || deployments[0].Hold != nil {
			return nil // the commit is checked by others
		}
		return unread.Of(&deployments[0], s)
	}
	return nil
}

// sets says whether one of the fields sets a name, something in it, or what holds it.
func sets(fields []amend.Field, name string) bool {
	within := func(inner, outer string) bool { return strings.HasPrefix(inner+".", outer+".") }
	return slices.ContainsFunc(fields, func(f amend.Field) bool {
		return f.Value != nil && (within(f.Key, name) || within(name, f.Key))
	})
}
