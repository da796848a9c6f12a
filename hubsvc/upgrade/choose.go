package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
	"github.com/pluralsh/plural/workspace/solve"
	"github.com/pluralsh/plural/workspace/versions"
)

// mostTries bounds how often versions are left out that need what is not installed.
const mostTries = 50

// choose picks the version that each installation should be at, as far as policies let the hub go.
func (d *decision) choose() {
	for _, s := range d.list {
		d.judgeVersions(s)
	}
	for range mostTries {
		solution, err := solve.Solve(d.wants(nil), d.universe(), d.locked(nil))
		if err != nil {
			d.unsolved(err)
			return
		}
		if d.newcomers(solution) {
			continue
		}
		for i := range solution.Picks {
			p := &solution.Picks[i]
			if s := d.by[p.As]; s != nil {
				if s.satisfies = p.Satisfies; p.Version != s.entry.Version {
					s.pick = p.Version
				}
			}
		}
		break
	}
	for _, s := range d.list {
		d.explain(s)
	}
}

// unsolved says of everything that might move why nothing does.
func (d *decision) unsolved(err error) {
	for _, s := range d.list {
		if newest := s.newest(); newest != "" {
			s.because(v1.ReasonUnfit, firstLines(err), "plural package upgrade "+s.name()+" --to "+newest)
		}
	}
}

// judgeVersions leaves out what the policy does not take by itself, with the reasons.
func (d *decision) judgeVersions(s *installationState) {
	now := versions.Parse(s.entry.Version)
	for i := range s.entries {
		e := &s.entries[i]
		if !s.eligible(e) {
			continue
		}
		if s.out.Newest == "" {
			s.out.Newest = e.Version
		}
		if reason := s.refuses(now, versions.Parse(e.Version), e); reason != nil {
			reason.Version = e.Version
			s.excluded[e.Version] = *reason
		}
	}
}

func sameCore(a, b *semver.Version) bool {
	return a.Major() == b.Major() && a.Minor() == b.Minor() && a.Patch() == b.Patch()
}

// newest is the newest version that the installation's range admits, if it is another one.
func (s *installationState) newest() string { return s.out.Newest }

// refuses says why the hub does not go to a version by itself, if it does not.
func (s *installationState) refuses(now, v *semver.Version, e *catalog.Entry) *v1.UpgradeReason {
	take := "plural package upgrade " + s.name() + " --to " + e.Version
	if slices.Contains(s.Spec.Upgrade.Skip, e.Version) {
		if s.reverted != nil && s.reverted.Version == e.Version {
			return s.reverted
		}
		return &v1.UpgradeReason{
			Code: v1.ReasonSkipped, Message: e.Version + " is skipped, as packages/" + s.name() + "/package.yaml says",
			Fix: "take it out of spec.upgrade.skip there",
		}
	}
	if a := pkgupgrade.NeedsAgreement(e.Package, s.name(), s.entry.Version, s.Spec.Approved); a != nil {
		r := &v1.UpgradeReason{Code: v1.ReasonApproval, Message: e.Version + " wants somebody's agreement", Fix: "approve it: " + take}
		if len(a.Breaking) > 0 {
			r.Message = "breaking since " + a.Breaking[0].Since + ": " + strings.Join(strings.Fields(a.Breaking[0].Note), " ")
		}
		return r
	}
	switch policy := s.out.Policy; {
	case policy == fleet.UpgradeManual:
		return &v1.UpgradeReason{Code: v1.ReasonManual, Message: "its policy leaves upgrades to people", Fix: take}
	case v.Major() != now.Major(), policy == fleet.UpgradePatch && v.Minor() != now.Minor():
		return &v1.UpgradeReason{
			Code: v1.ReasonPolicy, Message: fmt.Sprintf("its policy, %s, does not go from %s to %s", policy, s.entry.Version, e.Version),
			Fix: take,
		}
	}
	return nil
}

// wants are all installations as solve is asked for them: those that may move to the newest of their candidates, the others as
// they are. force is a version that one of them is to have, whatever its policy.
func (d *decision) wants(force map[string]string) []solve.Want {
	var wants []solve.Want
	for _, s := range d.list {
		w := solve.Want{
			Name: s.entry.Package, As: s.name(), Catalog: s.entry.Catalog, Range: "=" + s.entry.Version,
			By: "packages/" + s.name() + "/package.yaml",
		}
		if version := force[s.name()]; version != "" {
			w.Range = "=" + version
		} else if text, ok := s.candidates(); ok {
			w.Range = text
		}
		wants = append(wants, w)
	}
	return wants
}

// locked are the versions that stay as long as they fit.
func (d *decision) locked(force map[string]string) map[string]string {
	locked := map[string]string{}
	for _, s := range d.list {
		if _, moves := s.candidates(); !moves && force[s.name()] == "" {
			locked[s.name()] = s.entry.Version
		}
	}
	return locked
}

// candidates is the range of what the installation may go to, or stay at; false: it stays.
func (s *installationState) candidates() (string, bool) {
	if s.rolling || s.pkg == nil {
		return "", false
	}
	text, any := "="+s.entry.Version, false
	for i := range s.entries {
		e := &s.entries[i]
		_, out := s.excluded[e.Version]
		if !out && s.eligible(e) {
			text += " || =" + e.Version
			any = true
		}
		if len(text) > 200 { // what a range may measure: the newest count
			break
		}
	}
	return text, any
}

// eligible says whether a version is newer, and in the installation's own range.
func (s *installationState) eligible(e *catalog.Entry) bool {
	now, v := versions.Parse(s.entry.Version), versions.Parse(e.Version)
	wanted, err := versions.ParseRange(s.Spec.Version)
	if now == nil || v == nil || err != nil || e.Problem != nil {
		return false
	}
	return now.LessThan(v) && wanted.Has(v, now.Prerelease() != "" && sameCore(now, v))
}

// newcomers leaves out the versions that need a package which is not installed, and says whether there were any: adding one is
// for a person, who answers its questions.
func (d *decision) newcomers(solution *solve.Solution) bool {
	versionOf := map[string]string{}
	for i := range solution.Picks {
		versionOf[solution.Picks[i].As] = solution.Picks[i].Version
	}
	found := false
	for i := range solution.Picks {
		p := &solution.Picks[i]
		s := d.by[p.As]
		if s == nil || p.Version == s.entry.Version {
			continue
		}
		for _, as := range p.Satisfies {
			if d.by[as] == nil {
				found = true
				s.excluded[p.Version] = v1.UpgradeReason{
					Code: v1.ReasonNewPackage, Version: p.Version, Message: fmt.Sprintf("%s needs %s, which is not installed", p.Version, as),
					Fix: "plural package upgrade " + s.name() + " --to " + p.Version,
				}
				break
			}
		}
	}
	return found
}

// explain says why an installation does not go to the newest version that there is.
func (d *decision) explain(s *installationState) {
	s.out.Target = s.pick
	newest := s.newest()
	if newest == "" || newest == s.pick || s.rolling {
		return
	}
	if reason, ok := s.excluded[newest]; ok {
		s.out.Reasons = append(s.out.Reasons, reason)
		return
	}
	force := map[string]string{s.name(): newest}
	_, err := solve.Solve(d.wants(force), d.universe(), d.locked(force))
	if err == nil {
		err = errors.New("others could not be at their best with it")
	}
	s.because(v1.ReasonUnfit, newest+" does not fit: "+firstLines(err), "").Version = newest
}

// mostLines bounds what is repeated of why versions do not fit together.
const mostLines = 8

func firstLines(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines[:min(len(lines), mostLines)], " ")
}

// universe is what there is. Where a catalog cannot be read, what is installed stays possible, so that one that is away keeps
// only its own packages from moving.
func (d *decision) universe() solve.Choosing { return forgiving{d.Universe, d} }

type forgiving struct {
	solve.Choosing
	d *decision
}

// Versions implements solve.Universe.
func (f forgiving) Versions(name string) ([]solve.Version, error) {
	if list, err := f.Choosing.Versions(name); err == nil {
		return list, nil
	}
	return f.installed("", name), nil
}

// VersionsFrom implements solve.Choosing.
func (f forgiving) VersionsFrom(catalog, name string) ([]solve.Version, error) {
	if list, err := f.Choosing.VersionsFrom(catalog, name); err == nil {
		return list, nil
	}
	return f.installed(catalog, name), nil
}

func (f forgiving) installed(catalog, name string) []solve.Version {
	var list []solve.Version
	for _, s := range f.d.list {
		if s.pkg == nil || s.entry.Package != name || catalog != "" && s.entry.Catalog != catalog {
			continue
		}
		if !slices.ContainsFunc(list, func(v solve.Version) bool { return v.Version == s.entry.Version }) {
			list = append(list, solve.Version{
				Name: name, Version: s.entry.Version, Catalog: s.entry.Catalog,
				Provides: s.pkg.Spec.Provides, Dependencies: s.pkg.Spec.Dependencies,
			})
		}
	}
	slices.SortFunc(list, func(a, b solve.Version) int {
		return versions.Compare(versions.Parse(b.Version), versions.Parse(a.Version))
	})
	return list
}
