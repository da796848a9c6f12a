package diff

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/internal/budget"
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

// budgets are the removals of whole services that will not happen unasked: those beyond what one commit may take away from the
// fleet, and from a cluster.
func (s *sides) budgets(found *pairs) []compare.Hold {
	limit, err := budget.Parse(s.after.Fleet.Workspace.Spec.DeletionBudget)
	if err != nil {
		return nil // the fleet is refused for it
	}
	const fix = "raise spec.deletionBudget in plural.yaml, or agree once it is so: plural service ack "
	var holds []compare.Hold
	gone := 0
	for i := range s.before.Fleet.Services {
		if _, ok := s.after.Fleet.Service(s.before.Fleet.Services[i].Metadata.Name); !ok {
			gone++
		}
	}
	if all := len(s.before.Fleet.Services); !limit.Allows(gone, all) {
		holds = append(holds, compare.Hold{Message: fmt.Sprintf("the commit takes away %d of %d services, and the deletion budget of %s allows %d",
			gone, all, limit, limit.Allowed(all)), Fix: fix + "--commit"})
	}
	over := map[string][]string{}
	for _, cluster := range slices.Sorted(maps.Keys(found.leaves)) {
		if r := found.leaves[cluster]; !limit.Allows(r.some, r.all) {
			message := fmt.Sprintf("%d of %d services leave, and the deletion budget of %s allows %d", r.some, r.all, limit, limit.Allowed(r.all))
			over[message] = append(over[message], cluster)
		}
	}
	for _, message := range slices.Sorted(maps.Keys(over)) {
		holds = append(holds, compare.Hold{Clusters: over[message], Message: message, Fix: fix + "--cluster-removals " + over[message][0]})
	}
	return holds
}
