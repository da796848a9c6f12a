package apiproxy

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/yamlerror"
)

// Modes of a Policy.
const (
	// Full leaves everything to RBAC. An empty mode means the same.
	Full = "full"
	// ReadOnly lets people look, and ask what they may do. Opening a connection into a pod is not looking.
	ReadOnly = "read-only"
	Off      = "off"
)

// Policy is what a cluster lets people ask that come by the hub. It is kept in the cluster: the hub cannot widen it, and RBAC
// may narrow it.
type Policy struct {
	Mode string
	// Rules, if there are any, name all that is let through; discovery is besides.
	Rules []Rule
}

// Rule lets some people ask some things.
type Rule struct {
	// Users and Groups are as the cluster sees them: "plural:ana". Neither: everybody.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	kubeaccess.Rule
}

// PolicyError says what cannot be read of a policy.
type PolicyError struct {
	// Key is the ConfigMap's.
	Key        string
	Cause, Fix string
}

// Error has place, cause and fix.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("ConfigMap %s/%s, key %q: %s: %s", Namespace, ConfigMap, e.Key, e.Cause, e.Fix)
}

// ParsePolicy reads the data of a ConfigMap, whose keys are mode and rules, a list in YAML. What is unknown is an error, which is a
// *PolicyError: what was meant to narrow must not be overlooked.
func ParsePolicy(data map[string]string) (Policy, error) {
	for key := range data {
		if key != "mode" && key != "rules" {
			return Policy{}, &PolicyError{key, "there is no such key", "write mode or rules"}
		}
	}
	p := Policy{Mode: strings.TrimSpace(data["mode"])}
	switch p.Mode {
	case "":
		p.Mode = Full
	case Full, ReadOnly, Off:
	default:
		return Policy{}, &PolicyError{"mode", fmt.Sprintf("%.40q is no mode", p.Mode), "write full, read-only or off"}
	}
	if err := yaml.UnmarshalStrict([]byte(data["rules"]), &p.Rules); err != nil {
		return Policy{}, &PolicyError{"rules", yamlerror.Plain(err.Error()), "write a list of rules with users, groups, verbs and resources"}
	}
	if written := strings.TrimSpace(data["rules"]); written != "" && len(p.Rules) == 0 {
		return Policy{}, &PolicyError{"rules", "there are none", "write mode off to let nothing through"}
	}
	for i, rule := range p.Rules {
		if cause := rule.empty(); cause != "" {
			return Policy{}, &PolicyError{"rules", fmt.Sprintf("rule %d %s", i+1, cause), "write at least one"}
		}
	}
	return p, nil
}

func (r *Rule) empty() string {
	switch {
	case len(r.Verbs) == 0:
		return "has no verbs"
	case len(r.Resources) == 0 && len(r.NonResourceURLs) == 0:
		return "has neither resources nor nonResourceURLs"
	}
	return ""
}

// forbids says why the policy does not let a request through; empty: it does.
func (p Policy) forbids(who *tunnelapi.Identity, q kubeaccess.Request) string {
	said := fmt.Sprintf("the cluster's ConfigMap %s/%s", Namespace, ConfigMap)
	switch {
	case p.Mode == Off:
		return said + " lets nobody in; its administrator can change that"
	case kubeaccess.Discovery(q):
		return ""
	case p.Mode == ReadOnly && !reads(q):
		return said + " says " + ReadOnly
	case p.Mode != "" && p.Mode != Full && p.Mode != ReadOnly:
		return said + " cannot be read"
	case len(p.Rules) > 0 && !slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.isFor(who) && r.Allows(&q) }):
		return said + " has no rule that lets it through"
	}
	return ""
}

// Shows says whether people may be shown the objects of one kind, in one namespace or, where that is empty, in all: what the
// hub asks for on its own account, without saying for whom. What the policy lets nobody list is not shown.
func (p Policy) Shows(group, resource, namespace string) bool {
	if p.Mode != "" && p.Mode != Full && p.Mode != ReadOnly {
		return false
	}
	q := kubeaccess.Request{Verb: "list", Resource: true, Group: group, Kind: resource, Namespace: namespace}
	return len(p.Rules) == 0 || slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Allows(&q) })
}

// reads relies on kubeaccess, for which whatever opens a connection is no reading.
func reads(q kubeaccess.Request) bool {
	switch q.Verb {
	case "get", "list", "watch", "head", "options":
		return true
	}
	return false
}

func (r *Rule) isFor(who *tunnelapi.Identity) bool {
	return len(r.Users) == 0 && len(r.Groups) == 0 || slices.Contains(r.Users, who.GetUser()) ||
		slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(who.GetGroups(), g) })
}
