package apply

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/agent/fieldpath"
	"github.com/pluralsh/plural/agent/object"
)

// Policy is what is done about a field that another manager owns.
type Policy string

const (
	// Own takes the field.
	Own Policy = "own"
	// Yield leaves it to the other.
	Yield Policy = "yield"
	// Fail refuses the object.
	Fail Policy = "fail"
	// Ignore sets the field when the object is made, and leaves it alone from then on.
	Ignore Policy = "ignore"
)

// FieldRule is a policy for one field of some objects. Empty parts fit everything.
type FieldRule struct {
	Group, Kind, Namespace, Name string
	// Pointer is a JSON pointer (RFC 6901); a segment "*" fits every key or item.
	Pointer string
	Policy  Policy
}

func (r FieldRule) fits(id object.ID) bool {
	fit := func(want, have string) bool { return want == "" || want == have }
	return fit(r.Kind, id.Kind) && (r.Kind == "" || fit(r.Group, id.Group) || r.Group == id.Group) &&
		fit(r.Namespace, id.Namespace) && fit(r.Name, id.Name)
}

// essential are the fields that no object can be applied without.
func essential() [][]string {
	return [][]string{
		{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "labels", object.ServiceLabel},
	}
}

// check finds what makes the policies impossible to follow.
func (p *Policies) check() error {
	if !slices.Contains([]Policy{"", Own, Yield, Fail}, p.Conflicts) {
		return fmt.Errorf("conflicts: unknown policy %q: own, yield or fail", p.Conflicts)
	}
	for i, rule := range p.Fields {
		if !strings.HasPrefix(rule.Pointer, "/") || rule.Pointer == "/" {
			return fmt.Errorf("fields[%d]: %q is no JSON pointer: write it like /spec/replicas", i, rule.Pointer)
		}
		if slices.ContainsFunc(essential(), func(path []string) bool { return fieldpath.Covers(rule.Pointer, path) }) {
			return fmt.Errorf("fields[%d]: %q holds what names the object: name a field inside it that does not", i, rule.Pointer)
		}
		if !slices.Contains([]Policy{Own, Yield, Fail, Ignore}, rule.Policy) {
			return fmt.Errorf("fields[%d]: unknown policy %q: own, yield, fail or ignore", i, rule.Policy)
		}
	}
	if p.Account != "" {
		if namespace, name, ok := strings.Cut(p.Account, "/"); !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("service account %q: want it as NAMESPACE/NAME", p.Account)
		}
	}
	return nil
}

// recreates says whether objects of a kind may be made anew: "Job.batch", or "Job" for any group.
func (p *Policies) recreates(id object.ID) bool {
	return slices.ContainsFunc(p.Recreate, func(kind string) bool {
		name, group, qualified := strings.Cut(kind, ".")
		return name == id.Kind && (!qualified || group == id.Group)
	})
}

// allows says whether the service may touch an object.
func (p *Policies) allows(id object.ID) bool {
	if len(p.Namespaces) == 0 {
		return true
	}
	namespace := id.Namespace
	if id.IsNamespace() {
		namespace = id.Name
	}
	return slices.Contains(p.Namespaces, namespace)
}
