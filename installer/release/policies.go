package release

import (
	"strings"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// What a fleet says, in the words of the engine: exactly what reaches an agent by way of its hub.

// Policies are a deployment's, as the engine takes them.
func Policies(d *resolve.Deployment) apply.Policies {
	p := apply.Policies{
		Conflicts: apply.Policy(d.Conflicts), Recreate: d.Recreate, Account: d.ServiceAccount,
		Namespaces: d.AllowedNamespaces, Orphan: d.OnDelete == "orphan",
	}
	for _, rule := range d.Fields {
		kind, group, _ := strings.Cut(rule.Kind, ".")
		p.Fields = append(p.Fields, apply.FieldRule{
			Group: group, Kind: kind, Namespace: rule.Namespace, Name: rule.Name,
			Pointer: rule.Pointer, Policy: apply.Policy(rule.Policy),
		})
	}
	return p
}

// request is all of a deployment's but the render.
func request(d *resolve.Deployment) apply.Request {
	return apply.Request{
		Service: d.Service, Namespace: d.Namespace, OwnRepository: d.OwnRepository, Revision: d.Key, Heal: d.SelfHeal, Prune: d.Prune,
		Budget: d.DeletionBudget, Acknowledged: d.Acknowledged, Policies: Policies(d),
	}
}

func healthRules(list []fleet.HealthRule) []health.Rule {
	var rules []health.Rule
	for _, r := range list {
		kind, group, _ := strings.Cut(r.Kind, ".")
		rules = append(rules, health.Rule{
			Group: group, Kind: kind, Healthy: r.Healthy, Degraded: r.Degraded, Progressing: r.Progressing,
			Message: r.Message, Lua: r.Lua,
		})
	}
	return rules
}
