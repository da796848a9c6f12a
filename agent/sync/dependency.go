package sync

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/pluralsh/plural/api"
)

// dependencies are what a deployment waits for. A hub that is older knows names alone.
func dependencies(d *api.Deployment) []*api.Dependency {
	if list := d.GetDependencies(); len(list) > 0 {
		return list
	}
	var list []*api.Dependency
	for _, name := range d.GetDependsOn() {
		list = append(list, &api.Dependency{Service: name})
	}
	return list
}

// blocker is what the service's newest deployment, or its removal, has to wait for, or nothing. What has begun waits for nobody: a dependency
// that falters does not turn a sync around.
func (state *loopState) blocker(svc *service) string {
	if svc.desired == nil {
		return state.dependant(svc)
	}
	if svc.current() || svc.memory.Begun == svc.desired.GetKey() || svc.good.GetKey() == svc.desired.GetKey() {
		return ""
	}
	for _, dep := range dependencies(svc.desired) {
		if why := state.services[dep.GetService()].lacks(dep); why != "" {
			return why
		}
	}
	return ""
}

// dependant is what a service that leaves has to wait for, or nothing: others that leave with it may need it to the end, such as
// the account that their objects are deleted as. Those that need each other wait for nobody.
func (state *loopState) dependant(svc *service) string {
	first := ""
	for name, other := range state.services {
		if other.desired == nil && other != svc && other.needs(svc.name) && !state.leadsTo(svc, name, map[string]bool{}) && (first == "" || name < first) {
			first = name
		}
	}
	if first == "" {
		return ""
	}
	return fmt.Sprintf("goes after %s, which depends on it", first)
}

// needs says whether a service that leaves depended on another.
func (svc *service) needs(name string) bool {
	return slices.ContainsFunc(dependencies(cmp.Or(svc.last, svc.good)), func(d *api.Dependency) bool { return d.GetService() == name })
}

// leadsTo says whether a service that leaves depended on another, or on one that did.
func (state *loopState) leadsTo(svc *service, name string, seen map[string]bool) bool {
	if svc == nil || svc.desired != nil || seen[svc.name] {
		return false
	}
	seen[svc.name] = true
	return slices.ContainsFunc(dependencies(cmp.Or(svc.last, svc.good)), func(d *api.Dependency) bool {
		return d.GetService() == name || state.leadsTo(state.services[d.GetService()], name, seen)
	})
}

// conditionApplied is the condition of a dependency whose health does not matter.
const conditionApplied = "applied"

// lacks says what a dependant of the service still waits for, or nothing.
func (svc *service) lacks(dep *api.Dependency) string {
	name := dep.GetService()
	switch {
	case svc == nil || svc.desired == nil:
		return fmt.Sprintf("waits for %s, which this cluster is not asked to run", name)
	case dep.GetCondition() == conditionApplied && !svc.current():
		return fmt.Sprintf("waits for %s to be applied", name)
	case dep.GetCondition() != conditionApplied && svc.healthy() && !svc.gatesPassed():
		return fmt.Sprintf("waits for the tests of %s", name)
	case dep.GetCondition() != conditionApplied && !svc.settled():
		return fmt.Sprintf("waits for %s to be healthy", name)
	case dep.GetVersion() == "":
		return ""
	}
	want, err := semver.NewConstraint(dep.GetVersion())
	if err != nil {
		return fmt.Sprintf("waits for %s in a version that is no range: %q", name, clip(dep.GetVersion(), shortMessage))
	}
	has, err := semver.NewVersion(svc.applied.GetVersion())
	if err != nil {
		return fmt.Sprintf("waits for %s in version %s, and the version of what runs is unknown", name, dep.GetVersion())
	}
	if !want.Check(has) {
		return fmt.Sprintf("waits for %s in version %s, and %s runs", name, dep.GetVersion(), svc.applied.GetVersion())
	}
	return ""
}

// release makes due what waited for a service that is there now, or that waits for another reason.
func (state *loopState) release(now time.Time) {
	for _, svc := range state.services {
		if svc.blocked != "" && svc.cancel == nil && state.blocker(svc) != svc.blocked {
			svc.wake(now)
		}
	}
}
