package access

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/gitexec"
)

// changes are the commits that changed the files of access/ last, of those that hold one user and nothing else: which document of a
// file changed is not said by one walk of git's log. Without git there are none.
func changes(ctx context.Context, f *cmdutil.Factory, p *policy) map[string]string {
	single := p.single()
	if len(single) == 0 {
		return nil
	}
	log := gitexec.Call{Dir: p.root, Args: []string{
		"log", "--format=%x01%h %cs", "--name-only", "--no-renames", "--relative", "-z", "--", "access",
	}}
	said, err := log.Run(ctx)
	if err != nil {
		f.Say("note: commits are left out: %s", ui.Clean(err.Error()))
		return nil
	}
	commits, commit := map[string]string{}, ""
	for word := range strings.SplitSeq(string(said), "\x00") {
		if of, ok := strings.CutPrefix(word, "\x01"); ok {
			commit = of
			continue
		}
		name := strings.TrimPrefix(word, "\n")
		if _, known := commits[name]; !known && single[name] {
			commits[name] = commit
		}
	}
	return commits
}

// single are files that hold one user and nothing else.
func (p *policy) single() map[string]bool {
	documents := map[string]int{}
	for i := range p.fleet.Users {
		documents[p.fleet.Users[i].Position.File]++
	}
	for i := range p.fleet.Roles {
		documents[p.fleet.Roles[i].Position.File]++
	}
	for i := range p.fleet.RoleBindings {
		documents[p.fleet.RoleBindings[i].Position.File]++
	}
	for i := range p.fleet.Providers {
		documents[p.fleet.Providers[i].Position.File]++
	}
	for i := range p.fleet.Federations {
		documents[p.fleet.Federations[i].Position.File]++
	}
	for i := range p.fleet.Applications {
		documents[p.fleet.Applications[i].Position.File]++
	}
	alone := map[string]bool{}
	for name, count := range documents {
		alone[name] = count == 1
	}
	maps.DeleteFunc(alone, func(_ string, one bool) bool { return !one })
	return alone
}

// boundGroups are the groups that a binding or an application names, sorted.
func (p *policy) boundGroups() []string {
	all := map[string]bool{}
	for _, g := range p.rules.Grants() {
		for _, group := range g.Binding.Spec.Groups {
			all[group] = true
		}
	}
	for i := range p.fleet.Applications {
		for _, group := range p.fleet.Applications[i].Spec.Allow.Groups {
			all[group] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
