package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/workspace/fleet"
)

// grant is one rule that somebody has, as it is shown.
type grant struct {
	Role    string `json:"role"`
	Binding string `json:"binding"`
	// Through is group/NAME by which it is had; empty: the binding names the user.
	Through string `json:"through,omitempty"`
	// Clusters and Namespaces are names, or "*" for all, also for those to come. The fleet's verbs have none.
	Clusters   []string `json:"clusters,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	Verbs      []string `json:"verbs"`
	Resources  []string `json:"resources"`
	// File is where the binding stands, Rule where that which it gives does.
	File string `json:"file"`
	Rule string `json:"rule"`
}

// grantsOf are all rules of what somebody has.
func grantsOf(held []access.Held) []grant {
	var all []grant
	for _, h := range held {
		if len(h.Role.Spec.Fleet) > 0 {
			all = append(all, grantOf(h, -1))
		}
		for i := range h.Role.Spec.Kubernetes {
			all = append(all, grantOf(h, i))
		}
	}
	return all
}

// grantOf is the rule of spec.kubernetes at an index; -1: spec.fleet.
func grantOf(h access.Held, rule int) grant {
	g := grant{
		Role: h.Role.Metadata.Name, Binding: h.Binding.Metadata.Name, File: place(h.Binding.Position), Rule: rulePlace(h.Role, rule),
		Verbs: h.Role.Spec.Fleet, Resources: []string{fleetResource},
	}
	if h.Group != "" {
		g.Through = "group/" + h.Group
	}
	if rule < 0 {
		return g
	}
	written := &h.Role.Spec.Kubernetes[rule]
	g.Verbs, g.Resources = written.Verbs, resources(written)
	g.Clusters = clustersOf(h.Grant, rule)
	if len(written.Resources) > 0 {
		g.Namespaces = written.Namespaces
		if len(g.Namespaces) == 0 || slices.Contains(g.Namespaces, "*") {
			g.Namespaces = []string{"*"}
		}
	}
	return g
}

// clustersOf are the clusters that a rule is about, or "*".
func clustersOf(g *access.Grant, rule int) []string {
	names, all := g.Clusters(rule)
	if all {
		return []string{"*"}
	}
	return names
}

// rulePlace is where a rule is written.
func rulePlace(r *fleet.Role, rule int) string {
	field := "spec.fleet"
	if rule >= 0 {
		field = fmt.Sprintf("spec.kubernetes[%d]", rule)
	}
	return place(r.Place(field))
}

// resources are those of a rule with their groups behind them, or its paths.
func resources(r *fleet.KubernetesRule) []string {
	if len(r.NonResourceURLs) > 0 {
		return r.NonResourceURLs
	}
	if len(r.APIGroups) == 0 || slices.Contains(r.APIGroups, "*") {
		return r.Resources
	}
	var all []string
	for _, group := range r.APIGroups {
		for _, name := range r.Resources {
			if kind, subresource, below := strings.Cut(name, "/"); group != "" && below {
				name = kind + "." + group + "/" + subresource
			} else if group != "" {
				name += "." + group
			}
			all = append(all, name)
		}
	}
	return all
}
