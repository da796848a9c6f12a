package act

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/apiproxy"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/workspace/offline"
)

// manager is the field manager of what agents apply.
const manager = "plural"

// patience is how long a cluster may take to say how an object is now.
const patience = 5 * time.Second

// inspected says how an object is now that something is to be done to. It may not be known: the person may not see it.
type inspected struct {
	action  *Action
	subject pane.Subject
	live    map[string]any
	// parameter is the service's that says how many replicas there are; empty: none is known.
	parameter string
}

// inspect looks at an object before the person is asked about it.
func (d *Desk) inspect(a *Action, s pane.Subject) tea.Cmd {
	looking := later(d, func() inspected {
		ctx, cancel := context.WithTimeout(d.ctx, patience)
		defer cancel()
		o := s.Object
		at := v1.ObjectRef{Group: o.Group, Version: o.Version, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
		tokens := apiproxy.NewTokens(d.world.Hub, s.Cluster, apiproxy.TokenDir(), d.world.Now)
		live, _ := apiproxy.Object(ctx, tokens, at) // without it nothing is offered, and the cluster decides
		return inspected{a, s, live, d.parameter(s.Service, live)}
	})
	return tea.Batch(told(false, "asking cluster %s about %s ...", s.Cluster, resource(s.Object)), looking)
}

// inspected asks the person for what the action needs.
func (d *Desk) inspected(m inspected) tea.Cmd {
	n := m.action.Needs(m.subject.Object, m.live)
	if n.Ask == "" {
		return tea.Batch(told(false, ""), d.answered(m, n, ""))
	}
	return pane.Ask(pane.Question{
		Mark: n.Ask + ": ", Value: n.Value, Words: n.Words, Then: func(said string) tea.Cmd { return d.answered(m, n, strings.TrimSpace(said)) },
	})
}

// answered has what the person said be a plan.
func (d *Desk) answered(m inspected, n need, said string) tea.Cmd {
	words, err := n.Command(said)
	if err != nil {
		return told(true, "%s: %v", m.action.Binding.Help().Desc, err)
	}
	args, err := kubectl(&m.subject, words...)
	if err != nil {
		return told(true, "%s: %v", m.action.Binding.Help().Desc, err)
	}
	all := []pane.Subject{m.subject}
	p := d.plan(m.action, all, [][]string{args})
	if m.action.Heals && owned(m.live, "f:spec", "f:replicas") {
		p.notes = []string{fmt.Sprintf("How many replicas there are is written in git, for service %s: its agent puts that back.",
			m.subject.Service)}
		if m.parameter != "" {
			p.instead = d.setting(m.subject.Service, m.parameter+"="+said)
			p.notes = append(p.notes, "To keep it: ctrl+g does this instead: "+p.instead.runner.Line(p.instead.commands[0]))
		} else {
			p.notes = append(p.notes, "To keep it, change it there: plural service edit "+m.subject.Service)
		}
	}
	return d.propose(p, nil)
}

// setting is the commit that says it for good.
func (d *Desk) setting(service, parameter string) *plan {
	action := &Action{Name: "set " + parameter + " of", Verb: verbEdit, Writes: true, Care: Look}
	return &plan{
		action: action, targets: Targets{"services", []string{service}}, runner: d.runner, care: Look,
		commands: [][]string{{"service", "set", service, parameter, unwatched}},
	}
}

// owned says whether a field of an object is one that agents apply.
func owned(live map[string]any, path ...string) bool {
	for _, m := range list(live, "metadata", "managedFields") {
		if field(m, "manager") == manager && field(m, append([]string{"fieldsV1"}, path...)...) != nil {
			return true
		}
	}
	return false
}

// parameter is the one of a service that says how many replicas an object has: its value is that number, and it is named for it.
func (d *Desk) parameter(service string, live map[string]any) string {
	now, ok := field(live, "spec", "replicas").(float64)
	if !ok || d.world.Repo == nil || service == "" {
		return ""
	}
	state, err := offline.Open(d.world.Repo, "")
	if err != nil {
		return ""
	}
	s, ok := state.Fleet.Service(service)
	if !ok {
		return ""
	}
	var found []string
	for name, value := range s.Spec.Parameters {
		if strings.Contains(strings.ToLower(name), "replica") && value == strconv.Itoa(int(now)) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// madeAgain warns that what is deleted comes back, because git asks for it.
func madeAgain(all []pane.Subject) []string {
	var names []string
	for i := range all {
		if o := all[i].Object; o.Applied {
			names = append(names, o.Kind+"/"+o.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{
		strings.Join(names, ", ") + ": git asks for it, and its agent makes it again.",
		"To be rid of it, take it out of the service's manifests: plural service edit " + all[0].Service,
	}
}
