package access

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/workspace/fleet"
)

// who is somebody who may do what was asked.
type who struct {
	// Subject is user/NAME or group/NAME.
	Subject string `json:"subject"`
	// Users are the users of the fleet in a group.
	Users []string `json:"users,omitempty"`
	grant
}

type whoCanOptions struct {
	factory            *cmdutil.Factory
	cluster, namespace string
}

func newCmdWhoCan(f *cmdutil.Factory) *cobra.Command {
	o := &whoCanOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "who-can VERB RESOURCE",
		Short: "List who may do something",
		Long: "List who may do something, by the roles and bindings of the installation repo's work tree.\n\n" +
			"RESOURCE is as in RBAC: pods, pods/exec, deployments.apps, certificates.cert-manager.io; a path such as /metrics; or\n" +
			"fleet, of which VERB is view, sync, edit, admin, metrics or hint. What opens a connection into a pod (exec, attach,\n" +
			"portforward, proxy) is asked as create. Without --namespace, rules for some namespaces count too, and NAMESPACES says\n" +
			"which. The cluster's own RBAC still has the last word, and whoever holds the hub's own token may do everything.",
		Example: cmdutil.Example("plural access who-can create pods/exec", "plural access who-can delete deployments --cluster edge-1 -n web",
			"plural access who-can admin fleet -o wide"),
		Args: cmdutil.Exactly("VERB", "RESOURCE"),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.cluster, "cluster", "", "on this `CLUSTER` (default: on any)")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "in this `NAMESPACE` (default: in any)")
	return cmd
}

func (o *whoCanOptions) run(verb, resource string) error {
	f := o.factory
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	asked, err := ask(verb, resource, o.namespace)
	if err != nil {
		return err
	}
	if asked.verb != "" && o.cluster != "" {
		return &ui.Err{Msg: "verbs of the fleet are for the whole fleet", Fix: "leave out --cluster", Doc: ui.DocUsage}
	}
	p, err := load(f)
	if err != nil {
		return err
	}
	if err := p.checkCluster(o.cluster); err != nil {
		return err
	}
	list := p.whoCan(asked, o.cluster)
	view := ui.View{Value: list, Columns: []ui.Column{
		{Name: "SUBJECT"},
		{Name: "USERS"},
		{Name: "ROLE"},
		{Name: "BINDING"},
		{Name: "CLUSTERS"},
		{Name: "NAMESPACES"},
		{Name: "FILE"},
		{Name: "RULE", Wide: true},
		{Name: "MEMBERS", Wide: true},
	}}
	groups := false
	for i := range list {
		w := &list[i]
		users := "-"
		if strings.HasPrefix(w.Subject, "group/") {
			users, groups = strconv.Itoa(len(w.Users)), true
		}
		view.Names = append(view.Names, w.Subject)
		view.Rows = append(view.Rows, []string{
			w.Subject, users, w.Role, w.Binding, listed(w.Clusters), listed(w.Namespaces), w.File, w.Rule,
			cmdutil.OrDash(strings.Join(w.Users, ", ")),
		})
	}
	view.Names = slices.Compact(view.Names)
	if len(list) == 0 {
		view.Note = "no role lets anybody " + asked.describe(o.cluster)
	}
	if err := f.Print(printer, view); err != nil {
		return err
	}
	if groups {
		f.Say("%s", elsewhereNote)
	}
	return nil
}

const elsewhereNote = "note: members of groups that come from identity providers are not in the installation repo"

// whoCan are the users and groups whom a binding lets do it, users first.
func (p *policy) whoCan(asked *question, cluster string) []who {
	list := []who{}
	answers := map[*fleet.Role][]answer{} // many bindings give few roles
	for _, g := range p.rules.Grants() {
		by, known := answers[g.Role]
		if !known {
			by = asked.by(g, cluster)
			answers[g.Role] = by
		}
		for _, a := range by {
			if one, some := shown(g, a, cluster); some {
				list = p.append(list, g, one)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b who) int {
		users := func(w who) int { return cmp.Compare(0, strings.Index(w.Subject, "user/")+1) }
		return cmp.Or(cmp.Compare(users(a), users(b)), cmp.Compare(a.Subject, b.Subject))
	})
	return list
}

// shown is a rule that allows what was asked, with where it does; false when its selector picks no cluster.
func shown(g *access.Grant, a answer, cluster string) (grant, bool) {
	one := grantOf(access.Held{Grant: g}, a.rule)
	if a.namespaces != nil {
		one.Namespaces = a.namespaces
	}
	if cluster != "" {
		one.Clusters = []string{cluster}
	}
	return one, a.rule < 0 || len(one.Clusters) > 0
}

// append adds a row for each name of a binding.
func (p *policy) append(list []who, g *access.Grant, one grant) []who {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(g.Binding.Spec.Users))) {
		list = append(list, who{Subject: "user/" + name, grant: one})
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(g.Binding.Spec.Groups))) {
		list = append(list, who{Subject: "group/" + name, Users: p.members[name], grant: one})
	}
	return list
}
