package access

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

type explainOptions struct {
	factory            *cmdutil.Factory
	cluster, namespace string
}

func newCmdExplain(f *cmdutil.Factory) *cobra.Command {
	o := &explainOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "explain USER [VERB RESOURCE]",
		Short: "Show what somebody may do, and by which rule",
		Long: "Show what somebody may do, and by which role, binding and group.\n\n" +
			"USER is a user's name, group/NAME, or PROVIDER:SUBJECT of an account with an identity provider. With VERB and RESOURCE,\n" +
			"which are those of plural access who-can, the answer is yes, with each rule that allows it, or no: the exit code is 0\n" +
			"or 1. Without --namespace that is about all namespaces, as with kubectl get --all-namespaces.",
		Example: cmdutil.Example("plural access explain ada", "plural access explain group/staff -o wide", "plural access explain ada view fleet",
			"plural access explain ada create pods/exec --cluster edge-1 -n web"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return cmdutil.Exactly("USER", "VERB", "RESOURCE")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.cluster, "cluster", "", "on this `CLUSTER`")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "in this `NAMESPACE` (default: in all)")
	return cmd
}

func (o *explainOptions) run(args []string) error {
	printer, err := o.factory.Printer("")
	if err != nil {
		return err
	}
	var asked *question
	if len(args) == 1 && o.cluster+o.namespace != "" {
		return &ui.Err{Msg: "VERB is missing", Fix: "plural access explain USER VERB RESOURCE --cluster CLUSTER", Doc: ui.DocUsage}
	}
	if len(args) > 1 {
		if asked, err = ask(args[1], args[2], o.namespace); err != nil {
			return err
		}
		if (asked.verb == "") != (o.cluster != "") {
			return mistakenCluster(asked)
		}
	}
	p, err := load(o.factory)
	if err != nil {
		return err
	}
	who, err := p.subject(args[0])
	if err != nil {
		return err
	}
	if err := p.checkCluster(o.cluster); err != nil {
		return err
	}
	if asked == nil {
		return o.list(p, who, printer)
	}
	return o.decide(p, who, asked, printer)
}

func mistakenCluster(asked *question) error {
	if asked.verb != "" {
		return &ui.Err{Msg: "verbs of the fleet are for the whole fleet", Fix: "leave out --cluster", Doc: ui.DocUsage}
	}
	return &ui.Err{Msg: "nothing says which cluster is meant", Fix: "name it: --cluster CLUSTER", Doc: ui.DocUsage}
}

// explained is what somebody has.
type explained struct {
	Subject string   `json:"subject"`
	Groups  []string `json:"groups"`
	Grants  []grant  `json:"grants"`
	// Applications are those that they may log in to.
	Applications []string `json:"applications,omitempty"`
}

func (o *explainOptions) list(p *policy, who *subject, printer *ui.Printer) error {
	all := explained{who.shown, orEmpty(who.Groups), orEmpty(grantsOf(p.rules.Held(who.Person))), p.applications(&who.Person)}
	view := ui.View{Value: all, Columns: columns()}
	for i := range all.Grants {
		view.Names = append(view.Names, "rolebinding/"+all.Grants[i].Binding)
		view.Rows = append(view.Rows, cells(&all.Grants[i]))
	}
	view.Names = slices.Compact(view.Names)
	if len(all.Grants) == 0 {
		view.Note = "no RoleBinding names " + who.shown + ", or a group of theirs"
	}
	if err := o.factory.Print(printer, view); err != nil {
		return err
	}
	if len(all.Applications) > 0 {
		o.factory.Say("they may log in to %s", ui.Clean(strings.Join(all.Applications, ", ")))
	}
	o.more(who)
	return nil
}

// more says that the repo may not know everything.
func (o *explainOptions) more(who *subject) {
	if who.elsewhere {
		const note = "note: groups that the identity provider says %s is in count too, and are not in the installation repo"
		o.factory.Say(note, ui.Clean(who.shown))
	}
}

func columns() []ui.Column {
	return []ui.Column{
		{Name: "ROLE"},
		{Name: "BINDING"},
		{Name: "THROUGH"},
		{Name: "CLUSTERS"},
		{Name: "NAMESPACES"},
		{Name: "VERBS"},
		{Name: "RESOURCES"},
		{Name: "FILE"},
		{Name: "RULE", Wide: true},
	}
}

func cells(g *grant) []string {
	return []string{
		g.Role, g.Binding, cmdutil.OrDash(g.Through), listed(g.Clusters), listed(g.Namespaces),
		strings.Join(g.Verbs, ", "), listed(g.Resources), g.File, g.Rule,
	}
}

func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// decision is the answer to one question.
type decision struct {
	Subject  string `json:"subject"`
	Question string `json:"question"`
	Allowed  bool   `json:"allowed"`
	// By are the rules that allow it.
	By []grant `json:"by"`
	// Namespaces are those in which it would be allowed, where it is not in all.
	Namespaces []string `json:"namespaces,omitempty"`
}

// decide asks the rules as the hub does; which of them say yes is for people to know.
func (o *explainOptions) decide(p *policy, who *subject, asked *question, printer *ui.Printer) error {
	d := decision{Subject: who.shown, Question: asked.describe(o.cluster), Allowed: p.allows(who, asked, o.cluster), By: []grant{}}
	for _, h := range p.rules.Held(who.Person) {
		for _, a := range asked.by(h.Grant, o.cluster) {
			if a.namespaces == nil {
				d.By = append(d.By, grantOf(h, a.rule))
			} else if !d.Allowed {
				d.Namespaces = append(d.Namespaces, a.namespaces...)
			}
		}
	}
	slices.Sort(d.Namespaces)
	d.Namespaces = slices.Compact(d.Namespaces)
	view := ui.View{Value: d, Names: []string{who.shown}, Screen: func(w io.Writer) error { return o.screen(&d, w) }}
	if err := o.factory.Print(printer, view); err != nil {
		return err
	}
	o.more(who)
	if d.Allowed {
		return nil
	}
	if len(d.Namespaces) > 0 {
		o.factory.Say("note: they may in some namespaces: --namespace %s", ui.Clean(listed(d.Namespaces)))
	}
	rule := "a kubernetes rule for it"
	if asked.verb != "" {
		rule = "fleet: [" + asked.verb + "]"
	}
	o.factory.Say("fix: bind a Role with %s to %s in access/", rule, ui.Clean(who.shown))
	return ui.Silent(ui.ExitFailed)
}

func (p *policy) allows(who *subject, asked *question, cluster string) bool {
	if asked.verb != "" {
		return p.rules.Fleet(who.Person, asked.verb) == nil
	}
	return p.rules.Kubernetes(who.Person, cluster, asked.q) == nil
}

func (o *explainOptions) screen(d *decision, w io.Writer) error {
	if !d.Allowed {
		_, err := fmt.Fprintf(w, "no: %s may not %s\n", ui.Clean(d.Subject), ui.Clean(d.Question))
		return err
	}
	if _, err := fmt.Fprintf(w, "yes: %s may %s\n\n", ui.Clean(d.Subject), ui.Clean(d.Question)); err != nil {
		return err
	}
	var rows [][]string
	for i := range d.By {
		rows = append(rows, cells(&d.By[i]))
	}
	return o.factory.IO.Aligned(w, columns(), rows)
}
