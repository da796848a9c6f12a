package diff

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/workspace/fleet"
)

// setting is a change of how a service is applied.
type setting struct {
	Service string `json:"service"`
	// Where is the place of the service in the work tree.
	Where  string          `json:"where"`
	Fields []compare.Field `json:"fields"`
}

// rendering are the fields of a service's spec that show in what it renders to, or in where it does.
func rendering() []string {
	return []string{
		"source", "renderer", "helm", "namespace", "clusters", "parameters", "secrets", "include", "mounts",
	}
}

// settings are the changes in what is said of services that are on both sides. What shows in their objects is left out, unless
// the objects cannot be shown.
func (s *sides) settings(o options, found *pairs) []setting {
	var list []setting
	for i := range s.after.Fleet.Services {
		now := &s.after.Fleet.Services[i]
		name := now.Metadata.Name
		old, ok := s.before.Fleet.Service(name)
		if !ok || len(o.services) > 0 && !slices.Contains(o.services, name) {
			continue
		}
		before, after := generic(old.Spec), generic(now.Spec)
		hidden := func(p problem) bool { return p.Service == name && p.Elsewhere }
		if !slices.ContainsFunc(found.problems, hidden) {
			for _, field := range rendering() {
				delete(before, field)
				delete(after, field)
			}
		}
		if fields := compare.Values("spec", before, after); len(fields) > 0 {
			list = append(list, setting{name, now.Position.String(), fields})
		}
	}
	return list
}

// generic is a value as its JSON reads.
func generic(value any) map[string]any {
	plain := map[string]any{}
	if text, err := json.Marshal(value); err == nil {
		_ = json.Unmarshal(text, &plain) // it was an object
	}
	return plain
}

// budgets are the removals of whole services that will not happen unasked: those for which the hub refuses the commit or, where it
// takes it, those beyond what may leave a cluster.
func (s *sides) budgets(o options, found *pairs) []compare.Hold {
	losses, err := fleet.Losses(s.before.Fleet, s.after.Fleet)
	if err != nil {
		return nil // the fleet is refused for it
	}
	var holds []compare.Hold
	for i := range losses {
		back := cmdutil.RestoreCommand(o.commit, losses[i].Files, s.after.Taken().FS())
		holds = append(holds, compare.Hold{Message: losses[i].Message(), Fix: losses[i].Fix(back)})
	}
	if len(holds) > 0 {
		return holds
	}
	return s.leaving(found)
}

// leaving are the removals that clusters will not make unasked.
func (s *sides) leaving(found *pairs) []compare.Hold {
	spec := &s.after.Fleet.Workspace.Spec
	limit, err := budget.Parse(spec.DeletionBudget)
	if err != nil {
		return nil // the fleet is refused for it
	}
	over := map[string][]string{}
	for _, cluster := range slices.Sorted(maps.Keys(found.leaves)) {
		r := found.leaves[cluster]
		names := budget.Unagreed(spec.Acknowledged, r.names)
		all := r.all - len(r.names) + len(names) // what is agreed to counts on neither side, as for agents
		if !limit.Allows(len(names), all) && !budget.Agreed(spec.Acknowledged, names) {
			message := fmt.Sprintf("%d of %d services leave, and the deletion budget of %s allows %d", len(names), all, limit, limit.Allowed(all))
			over[message] = append(over[message], cluster)
		}
	}
	var holds []compare.Hold
	for _, message := range slices.Sorted(maps.Keys(over)) {
		holds = append(holds, compare.Hold{
			Clusters: over[message], Message: message,
			Fix: "raise spec.deletionBudget in plural.yaml, or agree once it is so: plural service ack --cluster-removals " + over[message][0],
		})
	}
	return holds
}
