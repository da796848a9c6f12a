// Package access owns `plural access`: who may what, as the installation repo says it.
//
// It decides nothing itself: the rules are those that the hub makes of the same files (hubsvc/access), and they are asked as the hub
// asks them. Nothing here talks to a hub, so that a change can be judged before it is pushed.
package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

// NewCmdAccess is `plural access`.
func NewCmdAccess(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "access",
		GroupID: cmdutil.GroupAccess,
		Short:   "See who may what, and why",
		Example: cmdutil.Example("plural access who-can create pods/exec", "plural access explain ada", "plural access report -o csv"),
	}, newCmdWhoCan(f), newCmdExplain(f), newCmdReport(f))
}

// policy is what the work tree says of people.
type policy struct {
	root   string
	fleet  *fleet.Fleet
	rules  *access.Rules
	people *auth.Directory
	// members are the users of the fleet by their groups.
	members map[string][]string
}

func load(f *cmdutil.Factory) (*policy, error) {
	repo, written, err := f.Fleet()
	if err != nil {
		return nil, err
	}
	p := &policy{repo.Root(), written, access.New(written), auth.NewDirectory(written), map[string][]string{}}
	for i := range written.Users {
		person, _ := p.people.User(written.Users[i].Metadata.Name)
		for _, group := range person.Groups {
			p.members[group] = append(p.members[group], person.Name)
		}
	}
	return p, nil
}

// checkCluster wants a cluster of the fleet, or none.
func (p *policy) checkCluster(name string) error {
	if _, ok := p.fleet.Cluster(name); ok || name == "" {
		return nil
	}
	known := make([]string, len(p.fleet.Clusters))
	for i := range p.fleet.Clusters {
		known[i] = p.fleet.Clusters[i].Metadata.Name
	}
	fix := cmp.Or(yamlstrict.DidYouMean(name, known, "clusters"), "ls "+p.root+"/clusters")
	return &ui.Err{Msg: fmt.Sprintf("the installation repo has no cluster %q", name), Fix: fix, Doc: ui.DocNotFound}
}

// subject is somebody whose grants are asked for.
type subject struct {
	principal.Person
	// shown is user/NAME, group/NAME or PROVIDER:SUBJECT.
	shown string
	// elsewhere says that an identity provider may know more of their groups than the repo.
	elsewhere bool
}

// subject finds who is meant by a user's name, group/NAME or PROVIDER:SUBJECT.
func (p *policy) subject(written string) (*subject, error) {
	if group, ok := strings.CutPrefix(written, "group/"); ok {

		if p.members[group] == nil && !slices.Contains(p.boundGroups(), group) {
			return nil, &ui.Err{
				Msg: fmt.Sprintf("the installation repo has no group %q", group), Cause: "no RoleBinding names it, and no User is in it",
				Fix: "plural access report lists groups that have a role", Doc: ui.DocNotFound,
			}
		}
		return &subject{principal.Person{Groups: []string{group}}, "group/" + group, false}, nil
	}
	name := strings.TrimPrefix(written, "user/")
	if provider, sub, ok := strings.Cut(name, ":"); ok {
		if _, known := p.people.Providers()[provider]; !known {
			return nil, &ui.Err{
				Msg: fmt.Sprintf("the installation repo has no identity provider %q", provider),
				Fix: "write PROVIDER:SUBJECT with a Provider of access/",
				Doc: ui.DocNotFound,
			}
		}
		user, known := p.people.Identified(fleet.Identity{Provider: provider, Subject: sub})
		if !known { // only groups that the provider says can give them a role
			return &subject{principal.Person{Name: name}, name, true}, nil
		}
		name = user
	}
	person, ok := p.people.User(name)
	if !ok {
		known := make([]string, len(p.fleet.Users))
		for i := range p.fleet.Users {
			known[i] = p.fleet.Users[i].Metadata.Name
		}
		fix := cmp.Or(yamlstrict.DidYouMean(name, known, "users"), "plural access report lists users")
		return nil, &ui.Err{Msg: fmt.Sprintf("the installation repo has no user %q", name), Fix: fix, Doc: ui.DocNotFound}
	}
	user, _ := p.fleet.User(name)
	return &subject{person, "user/" + name, len(user.Spec.Identities) > 0}, nil
}

// applications are those that somebody may log in to, by name.
func (p *policy) applications(who *principal.Person) []string {
	var all []string
	for i := range p.fleet.Applications {
		if a := &p.fleet.Applications[i]; a.Spec.Allows(who.Name, who.Groups) {
			all = append(all, a.Metadata.Name)
		}
	}
	return all
}

// place is FILE:LINE.
func place(at fleet.Position) string {
	at.Column = 0
	return at.String()
}

// listed is a list in a cell, cut to what fits into one.
func listed(list []string) string {
	const most = 5
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return cmdutil.OrDash(strings.Join(list, ", "))
}
