package resolve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/versions"
)

// Operation is how what was rendered is applied, judged and tried. None of it is part of a deployment's key. Its lists may be
// the fleet's own: do not change them.
type Operation struct {
	// DependsOn are the services that must be there first, on the same cluster.
	DependsOn []fleet.Dependency
	// Prune, SelfHeal, DeletionBudget, OnDelete, Conflicts, Fields and Recreate are those of fleet.Sync, with the workspace's
	// defaults filled in.
	Prune, SelfHeal bool
	DeletionBudget  string
	OnDelete        string
	Conflicts       string
	Fields          []fleet.FieldRule
	Recreate        []string
	// Acknowledged are tokens of deletions that a person has agreed to for the cluster.
	Acknowledged []string
	// Suspended services are left as they are.
	Suspended bool
	// ServiceAccount is NAMESPACE/NAME, or empty.
	ServiceAccount    string
	AllowedNamespaces []string
	// Health are the service's own rules.
	Health []fleet.HealthRule
	// Tests are filled in for the cluster.
	Tests []fleet.Test
}

// operation is what a service's file and the workspace's defaults say, for a service in the given namespace. Tests are
// filled in later.
func operation(f *fleet.Fleet, s *fleet.Service, namespace string) Operation {
	own, general := s.Spec.Sync, f.Workspace.Spec.Defaults.Sync
	o := Operation{
		DependsOn:      s.Spec.DependsOn,
		Prune:          f.Prunes(s),
		SelfHeal:       switchedOn(own.SelfHeal, general.SelfHeal),
		DeletionBudget: cmp.Or(own.DeletionBudget, general.DeletionBudget, budget.Default),
		OnDelete:       cmp.Or(own.OnDelete, general.OnDelete),
		Conflicts:      cmp.Or(own.Conflicts, general.Conflicts),
		Fields:         slices.Concat(own.Fields, general.Fields),
		Recreate:       own.Recreate, Acknowledged: own.Acknowledged,
		Suspended:      s.Spec.Suspend,
		ServiceAccount: s.Spec.ServiceAccount, AllowedNamespaces: s.Spec.AllowedNamespaces, Health: s.Spec.Health,
	}
	if own.Recreate == nil {
		o.Recreate = general.Recreate
	}
	if account := o.ServiceAccount; account != "" && !strings.Contains(account, "/") {
		o.ServiceAccount = namespace + "/" + account
	}
	return o
}

// switchedOn is the first switch that is set, else true.
func switchedOn(switches ...*bool) bool {
	for _, s := range switches {
		if s != nil {
			return *s
		}
	}
	return true
}

// versionOf is what a source calls the state that was taken of it. A ref that is a version is its own word for it.
func versionOf(src Sources, source, ref string) string {
	if source == "" {
		return ""
	}
	if v, ok := src.(interface {
		Version(source, ref string) string
	}); ok {
		if version := v.Version(source, ref); version != "" {
			return version
		}
	}
	if _, exact, chart := strings.Cut(ref, "@"); chart {
		ref = exact
	}
	if ref = strings.TrimPrefix(ref, "refs/tags/"); versions.Is(ref) {
		return ref
	}
	return ""
}
