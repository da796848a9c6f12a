package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/versions"
)

// order makes commits of what was picked, each of which leaves a fleet whose packages fit together, and says of each what it
// waits for.
func (d *decision) order() {
	done := map[string]bool{}
	for _, s := range d.list {
		if s.pick == "" || done[s.name()] {
			continue
		}
		unit, first := d.unit(s)
		if first != nil {
			r := s.because(v1.ReasonOrder, fmt.Sprintf("waits for %s %s, which goes first", first.name(), first.pick), "")
			r.Installation, r.Version = first.name(), first.pick
			continue
		}
		for _, each := range unit {
			done[each.name()] = true
		}
		d.propose(unit)
	}
}

// unit are the installations that have to move with one, by name; or the one that has to go before it.
func (d *decision) unit(s *installationState) (unit []*installationState, first *installationState) {
	all := d.closure(s)
	for _, other := range all {
		if other != s && !slices.Contains(d.closure(other), s) {
			return nil, other
		}
	}
	return all, nil
}

// closure is the smallest set around an installation that can move by itself, as far as there is one.
func (d *decision) closure(s *installationState) []*installationState {
	set := []*installationState{s}
	for {
		grown := false
		for _, edge := range d.broken(set) {
			for _, side := range edge {
				if side.pick != "" && !slices.Contains(set, side) {
					set, grown = append(set, side), true
				}
			}
		}
		if !grown {
			slices.SortFunc(set, func(a, b *installationState) int { return strings.Compare(a.name(), b.name()) })
			return set
		}
	}
}

// broken are the dependencies that do not hold when a set has moved and nothing else.
func (d *decision) broken(set []*installationState) [][2]*installationState {
	var edges [][2]*installationState
	for _, s := range d.list {
		moved := slices.Contains(set, s)
		pkg, requires := s.pkg, s.entry.Requires
		if moved {
			pkg, requires = s.at(s.pick), s.satisfies
		}
		if pkg == nil {
			continue
		}
		for i := range pkg.Spec.Dependencies {
			dep := &pkg.Spec.Dependencies[i]
			on := d.by[requires[dep.Key()]]
			if on == nil {
				continue
			}
			other, version := on.pkg, on.entry.Version
			if slices.Contains(set, on) {
				other, version = on.at(on.pick), on.pick
			}
			if other != nil && !satisfied(dep, other, version) {
				edges = append(edges, [2]*installationState{s, on})
			}
		}
	}
	return edges
}

// at is the package at one of its versions; nil when there is none.
func (s *installationState) at(version string) *packages.Package {
	for i := range s.entries {
		if s.entries[i].Version == version {
			return s.entries[i].Package
		}
	}
	return nil
}

// satisfied says whether a package at a version is what a dependency asks for.
func satisfied(dep *packages.Dependency, p *packages.Package, version string) bool {
	for _, choice := range dep.Choices() {
		has := ""
		if choice.Package == p.Metadata.Name {
			has = version
		}
		for _, provided := range p.Spec.Provides {
			if provided.Name == choice.Package && has == "" {
				if has = provided.Version; has == "" {
					has = version
				}
			}
		}
		v := versions.Parse(has)
		wanted, err := versions.ParseRange(choice.Version)
		if v != nil && err == nil && wanted.Has(v, v.Prerelease() != "") {
			return true
		}
	}
	return false
}

// propose makes an action of a unit, unless something keeps it.
func (d *decision) propose(unit []*installationState) {
	var a Action
	for _, s := range unit {
		a.Changes = append(a.Changes, Change{s.name(), s.entry.Version, s.pick, s.satisfies})
		if len(unit) > 1 {
			for _, other := range unit {
				if other != s {
					s.out.With = append(s.out.With, other.name())
				}
			}
		}
		if s.Spec.Upgrade.Propose == fleet.ProposePullRequest {
			a.Branch = branch(unit)
		}
	}
	reasons := d.waits(unit, &a)
	for _, s := range unit {
		s.out.Reasons = append(slices.Clone(reasons), s.out.Reasons...)
		if len(reasons) == 0 {
			s.out.State = v1.UpgradeReady
		}
	}
	if len(reasons) == 0 {
		d.actions = append(d.actions, a)
	}
}

// BranchPrefix begins the branches of proposals.
const BranchPrefix = "plural/upgrade/"

// branch is where a unit's proposal goes.
func branch(unit []*installationState) string {
	return BranchPrefix + unit[0].name() + "-" + strings.NewReplacer("+", "-", "~", "-").Replace(unit[0].pick)
}

// waits are what a unit waits for, what a person has to do first.
func (d *decision) waits(unit []*installationState, a *Action) []v1.UpgradeReason {
	if a.Branch != "" && d.Branch != nil {
		branch, there := d.Branch(a.Branch)
		if branch.Unread {
			return []v1.UpgradeReason{{
				Code: v1.ReasonBehind, Message: "branch " + a.Branch + " is there, and cannot be read now",
				Fix: "the hub's log says why; delete the branch if it stays so",
			}}
		}
		if there && !branch.Own {
			return []v1.UpgradeReason{{
				Code: v1.ReasonPlan, Message: "branch " + a.Branch + " is there, and its newest commit is not the hub's",
				Fix: "look at what it changes; merge it, or delete it, and the hub proposes anew",
			}}
		}
		if there {
			for _, s := range unit {
				s.out.Branch, s.out.URL = a.Branch, branch.URL
			}
			return []v1.UpgradeReason{{
				Code: v1.ReasonReview, Message: "branch " + a.Branch + " waits for somebody to merge it", Fix: "review it, and merge it",
			}}
		}
	}
	if reason, failed := d.Failed[a.Key()]; failed {
		return []v1.UpgradeReason{reason}
	}
	if d.Closed != nil {
		return []v1.UpgradeReason{*d.Closed}
	}
	var reasons []v1.UpgradeReason
	for _, s := range unit {
		if r := s.deploys(a); r != nil {
			reasons = append(reasons, *r)
		}
	}
	for _, s := range unit {
		reasons = append(reasons, d.canaries(s)...)
		reasons = append(reasons, d.dependencies(s, unit)...)
		if bad := unhealthy(d.Cells(s.name())); bad != nil {
			reasons = append(reasons, sick(s, bad, "begins once %s %s is healthy on %s"))
		}
		if r := d.window(s); r != nil {
			reasons = append(reasons, *r)
		}
	}
	return reasons
}

func sick(s *installationState, bad *Cell, sentence string) v1.UpgradeReason {
	return v1.UpgradeReason{
		Code: v1.ReasonUnhealthy, Message: fmt.Sprintf(sentence, s.name(), s.entry.Version, bad.Cluster) + ": " + bad.said(),
		Installation: s.name(), Version: s.entry.Version, Service: bad.Service, Cluster: bad.Cluster,
	}
}

// deploys says that a version, or the one before it, has steps that only people run: a step that is gone wants to be taken down.
// A branch is for people anyway.
func (s *installationState) deploys(a *Action) *v1.UpgradeReason {
	if a.Branch != "" {
		return nil
	}
	for _, p := range []*packages.Package{s.at(s.pick), s.pkg} {
		if p == nil {
			continue
		}
		for i := range p.Spec.Steps {
			if p.Spec.Steps[i].Terraform != nil {
				return &v1.UpgradeReason{
					Code: v1.ReasonDeploy, Message: p.Spec.Version + " runs terraform (step " + p.Spec.Steps[i].Name + "), which the hub does not",
					Version: s.pick,
					Fix:     "plural package upgrade " + s.name() + " --to " + s.pick + " && plural deploy",
				}
			}
		}
	}
	return nil
}

// dependencies have to be healthy at their versions wherever they run.
func (d *decision) dependencies(s *installationState, unit []*installationState) []v1.UpgradeReason {
	var reasons []v1.UpgradeReason
	seen := map[string]bool{}
	for _, requires := range []map[string]string{s.entry.Requires, s.satisfies} {
		for _, name := range sortedValues(requires) {
			on := d.by[name]
			if on == nil || seen[name] || slices.Contains(unit, on) {
				continue
			}
			seen[name] = true
			if bad := unhealthy(d.Cells(name)); bad != nil {
				reasons = append(reasons, sick(on, bad, "waits for %s %s to be healthy on %s"))
			}
		}
	}
	return reasons
}

func sortedValues(m map[string]string) []string {
	list := make([]string, 0, len(m))
	for _, value := range m {
		list = append(list, value)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// canaries have to have been healthy at the version for a while.
func (d *decision) canaries(s *installationState) []v1.UpgradeReason {
	var reasons []v1.UpgradeReason
	soak := s.Spec.Upgrade.SoakTime()
	for _, name := range s.Spec.Upgrade.After {
		canary := d.by[name]
		if canary == nil {
			reasons = append(reasons, v1.UpgradeReason{
				Code: v1.ReasonCanary, Installation: name, Version: s.pick, Message: "waits for canary " + name + ", which is not in plural.lock",
				Fix: "plural package upgrade " + name,
			})
			continue
		}
		r := v1.UpgradeReason{Code: v1.ReasonCanary, Installation: name, Version: s.pick}
		since, healthy := d.Memory.Healthy(name, s.pick)
		switch bad := unhealthy(d.Cells(name)); {
		case canary.entry.Version != s.pick:
			r.Message = fmt.Sprintf("waits for canary %s to be at %s: it is at %s", name, s.pick, canary.entry.Version)
			if canary.pick != s.pick {
				r.Fix = "plural package upgrade " + name + " --to " + s.pick
			}
		case bad != nil:
			r.Service, r.Cluster = bad.Service, bad.Cluster
			r.Message = fmt.Sprintf("waits for canary %s %s to be healthy on %s: %s", name, s.pick, bad.Cluster, bad.said())
		case !healthy || d.Now.Sub(since) < soak:
			if !healthy {
				since = d.Now
			}
			until := since.Add(soak).UTC()
			r.Code, r.Until = v1.ReasonSoak, &until
			r.Message = fmt.Sprintf("canary %s has been healthy for %s of %s", name, short(d.Now.Sub(since)), short(soak))
		default:
			continue
		}
		reasons = append(reasons, r)
	}
	return reasons
}

// short is a duration without its zeros: 3m of 10m.
func short(d time.Duration) string {
	text := d.Truncate(time.Second).String()
	text = strings.Replace(text, "m0s", "m", 1)
	if text != "0s" && strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// window says until when an installation is outside of its windows, if it is.
func (d *decision) window(s *installationState) *v1.UpgradeReason {
	policy := &s.Spec.Upgrade
	if policy.Open(d.Now) {
		return nil
	}
	r := &v1.UpgradeReason{Code: v1.ReasonWindow, Message: "outside of its window"}
	if at, ok := nextOpening(policy, d.Now); ok {
		until := at.UTC()
		r.Until = &until
		r.Message += " until " + at.Format("Mon 15:04 MST")
	}
	return r
}

// nextOpening is when the next window begins, in the zone that it is written in.
func nextOpening(u *fleet.Upgrade, now time.Time) (next time.Time, ok bool) {
	for i := range u.Windows {
		w := &u.Windows[i]
		zone, err := time.LoadLocation(w.Zone)
		from, parseErr := time.Parse("15:04", w.From)
		if err != nil || parseErr != nil {
			continue // the fleet's reader has refused it
		}
		here := now.In(zone)
		for day := range 9 { // a week, and a day whose hour is left out by the change of clocks
			at := time.Date(here.Year(), here.Month(), here.Day()+day, from.Hour(), from.Minute(), 0, 0, zone)
			if at.After(now) && w.Contains(at) {
				if !ok || at.Before(next) {
					next, ok = at, true
				}
				break
			}
		}
	}
	return next, ok
}
