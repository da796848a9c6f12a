package act

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"

	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/tui/usercommands"
)

// Add has a person's own commands be actions too.
func (d *Desk) Add(list []usercommands.Command) { d.own = list }

// owned are the person's own actions. What is on a cluster is run where kubectl finds that cluster, by way of the hub; what is not, by
// itself.
func (d *Desk) owned() []Action {
	var out []Action
	for _, c := range d.own {
		var on, off []pane.Kind
		for _, word := range c.Scope {
			switch kind := pane.Kind(word); kind { //nolint:exhaustive // others are not on a cluster
			case pane.KindCluster, pane.KindDeployment, pane.KindObject:
				on = append(on, kind)
			default:
				off = append(off, kind)
			}
		}
		if len(on) > 0 {
			out = append(out, d.ownAction(c, on, true))
		}
		if len(off) > 0 {
			out = append(out, d.ownAction(c, off, false))
		}
	}
	return out
}

func (d *Desk) ownAction(c usercommands.Command, kinds []pane.Kind, inCluster bool) Action {
	return Action{
		Binding: key.NewBinding(key.WithKeys(c.Key), key.WithHelp(c.Key, c.Name)), Name: d.world.Look.Clean(c.Name),
		Writes: true, Asks: inCluster, Outside: !inCluster, Terminal: c.Terminal,
		Applies: func(all []pane.Subject) bool { return every(all, is(kinds...)) }, About: about,
		Commands: func(all []pane.Subject) ([][]string, error) {
			var out [][]string
			for i := range all {
				args, err := d.script(c, &all[i])
				if err != nil {
					return nil, err
				}
				if inCluster {
					args = slices.Concat([]string{"kube", "run", cluster(all[i]), "--"}, args)
				}
				out = append(out, args)
			}
			return out, nil
		},
	}
}

// script is a person's own command with what it is about, as variables: nothing is ever put into its text. KUBECONFIG comes from
// plural kube run.
func (d *Desk) script(c usercommands.Command, s *pane.Subject) ([]string, error) {
	args := []string{"env"}
	for _, v := range []struct{ name, value string }{
		{"CLUSTER", cluster(*s)}, {"SERVICE", s.Service}, {"NAMESPACE", d.namespace(s)}, {"KIND", kindOf(s)}, {"NAME", nameOf(s)},
	} {
		if !isValue(v.value) {
			return nil, fmt.Errorf("%s would be %q, which is no name", v.name, v.value)
		}
		args = append(args, v.name+"="+v.value)
	}
	return append(args, "sh", "-c", c.Run), nil
}

// isValue says whether a text is a name that scripts may be given: also one of Kubernetes, where some have colons.
func isValue(text string) bool {
	inside := func(r rune) bool { return r == ':' || isName("a"+string(r)) }
	return strings.TrimFunc(text, inside) == "" && !strings.HasPrefix(text, "-") && text != ".." // the folder above, in a path
}

func (d *Desk) namespace(s *pane.Subject) string {
	switch s.Kind { //nolint:exhaustive // others are in none
	case pane.KindObject:
		if s.Object != nil {
			return s.Object.Namespace
		}
	case pane.KindDeployment:
		if row := d.world.Fleet.Deployments.Get(s.Cluster + "/" + s.Service); row != nil {
			return row.Namespace
		}
	case pane.KindService:
		if row := d.world.Fleet.Services.Get(s.Name); row != nil {
			return row.Namespace
		}
	}
	return ""
}

func kindOf(s *pane.Subject) string {
	if s.Kind == pane.KindObject && s.Object != nil {
		return s.Object.Kind
	}
	return string(s.Kind)
}

func nameOf(s *pane.Subject) string {
	switch {
	case s.Kind == pane.KindDeployment:
		return s.Service
	case s.Kind == pane.KindObject && s.Object != nil:
		return s.Object.Name
	}
	return s.Name
}
