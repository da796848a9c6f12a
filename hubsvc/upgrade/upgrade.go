// Package upgrade owns the decision which installation is upgraded to which version now.
//
// It refuses to know how catalogs are read, commits are made and clusters report: all of that comes in as [Facts], and what
// comes out is where each installation stands, and what to do next. The same facts give the same decision, on every replica;
// nothing is remembered but for how long what is healthy has been so ([Memory]), which is handed on to the next process.
//
// [Decide] goes through its input in this order: what came of the last moves, which versions are candidates by policy, which of
// those fit together (workspace/solve, over everything that is installed), in which order they can go one commit after the other,
// and what each of them has to wait for. What was done before is read back from the trailers of commits ([Past]).
package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/solve"
)

// Cell is one service of an installation on one cluster.
type Cell struct {
	Service, Cluster string
	Phase            v1.Phase
	// Quarantined says that what is wanted there failed a test that gates.
	Quarantined bool
	Message     string
}

// Facts are what a decision is made of.
type Facts struct {
	Now time.Time
	// Fleet and Lock are those of the commit that is served.
	Fleet *fleet.Fleet
	Lock  *lockfile.Lock
	// Installed is the package that an installation has now.
	Installed func(installation string) (*packages.Package, error)
	// Versions are those of a package, the newest first, and Universe what solve asks: it knows what is installed, too.
	Versions func(catalog, name string) ([]catalog.Entry, error)
	Universe solve.Choosing
	// Cells are what an installation has on clusters.
	Cells func(installation string) []Cell
	// Past are the hub's own moves, the newest first.
	Past []Move
	// Memory is what was seen before.
	Memory *Memory
	// Branch tells of a branch whether it is there; nil: none is.
	Branch func(name string) (Branch, bool)
	// Closed is why nothing is committed at all, if nothing is.
	Closed *v1.UpgradeReason
	// Failed are why moves could not be put together, by Action.Key.
	Failed map[string]v1.UpgradeReason
}

// Branch is one that has a proposal's name.
type Branch struct {
	// URL is the address of its pull request, as far as that is known.
	URL string
	// Own says that the hub made its newest commit: whoever may push branches can call one so.
	Own bool
	// Unread says that nobody knows now who made it.
	Unread bool
}

// Change is one installation's move.
type Change struct {
	Installation, From, To string
	// Requires says which installation stands for each dependency then; nil in moves of the past.
	Requires map[string]string
}

// Action is what to do next.
type Action struct {
	// Changes are made by one commit.
	Changes []Change
	// Revert is the commit that is taken back; empty: the changes go forward.
	Revert string
	// Why is why it is taken back.
	Why string
	// Branch is where a proposal goes; empty: the commit is made on the branch that is served.
	Branch string
}

// Key names what an action does.
func (a *Action) Key() string {
	parts := []string{a.Revert}
	for _, c := range a.Changes {
		parts = append(parts, c.Installation, c.From, c.To)
	}
	return strings.Join(parts, " ")
}

// Decision is where all stands.
type Decision struct {
	// Upgrades are sorted by installation.
	Upgrades []v1.Upgrade
	// Actions are what can be done now, in order; all of them are about the commit that the facts are of.
	Actions []Action
}

// Decide decides.
func Decide(f *Facts) *Decision {
	d := &decision{Facts: f, by: map[string]*installationState{}}
	for i := range f.Fleet.Installations {
		d.add(&f.Fleet.Installations[i])
	}
	d.lookBack()
	d.choose()
	d.order()
	return d.result()
}

// decision is one in the making.
type decision struct {
	*Facts
	list    []*installationState // by name
	by      map[string]*installationState
	actions []Action
}

// installationState is one installation.
type installationState struct {
	*fleet.Installation
	entry *lockfile.Entry
	pkg   *packages.Package
	// entries are the versions that there are, the newest first.
	entries []catalog.Entry
	out     v1.Upgrade
	// excluded are versions that it cannot go to now, with the reason.
	excluded map[string]v1.UpgradeReason
	// pick is what solve chose, if it is another version; satisfies goes with it.
	pick      string
	satisfies map[string]string
	rolling   bool
	// reverted is why a version was taken back, if that was the last move.
	reverted *v1.UpgradeReason
}

func (s *installationState) name() string { return s.Metadata.Name }

func (d *decision) add(i *fleet.Installation) {
	entry, ok := d.Lock.Entry(i.Metadata.Name)
	if !ok {
		return // nobody has resolved it yet
	}
	s := &installationState{Installation: i, entry: entry, excluded: map[string]v1.UpgradeReason{}}
	s.out = v1.Upgrade{
		Installation: s.name(), Package: entry.Package, Catalog: entry.Catalog, Version: entry.Version,
		Policy: cmp.Or(i.Spec.Upgrade.Policy, fleet.UpgradeManual),
	}
	d.list, d.by[s.name()] = append(d.list, s), s
	var err error
	if s.pkg, err = d.Installed(s.name()); err != nil {
		payload := "packages/" + s.name() + "/payload"
		s.because(v1.ReasonPlan, "the package in "+payload+" cannot be read: "+err.Error(), "plural package lint "+payload)
		return
	}
	if s.entries, err = d.Versions(entry.Catalog, entry.Package); err != nil {
		s.entries = nil
		s.because(v1.ReasonCatalog, fmt.Sprintf("catalog %s cannot be read: %v", entry.Catalog, err), "")
	}
}

// because adds a reason.
func (s *installationState) because(code v1.UpgradeCode, message, fix string) *v1.UpgradeReason {
	s.out.Reasons = append(s.out.Reasons, v1.UpgradeReason{Code: code, Message: message, Fix: fix})
	return &s.out.Reasons[len(s.out.Reasons)-1]
}

func (d *decision) result() *Decision {
	out := &Decision{Actions: d.actions}
	for _, s := range d.list {
		if s.out.State == "" {
			s.out.State = s.state()
		}
		out.Upgrades = append(out.Upgrades, s.out)
	}
	slices.SortFunc(out.Upgrades, func(a, b v1.Upgrade) int { return strings.Compare(a.Installation, b.Installation) })
	return out
}

// state follows from the reasons where nothing else has been said.
func (s *installationState) state() v1.UpgradeState {
	if len(s.out.Reasons) == 0 {
		return v1.UpgradeCurrent
	}
	switch s.out.Reasons[0].Code {
	case v1.ReasonManual, v1.ReasonPolicy, v1.ReasonApproval, v1.ReasonSkipped:
		return v1.UpgradeAvailable
	case v1.ReasonWindow, v1.ReasonOrder, v1.ReasonUnhealthy, v1.ReasonCanary, v1.ReasonSoak, v1.ReasonBehind, v1.ReasonRolling,
		v1.ReasonCatalog:
		return v1.UpgradeWaiting
	case v1.ReasonReview:
		return v1.UpgradeProposed
	case v1.ReasonReverted:
		return v1.UpgradeReverted
	case v1.ReasonUnfit, v1.ReasonNewPackage, v1.ReasonDeploy, v1.ReasonConflict, v1.ReasonPlan, v1.ReasonReadOnly:
	}
	return v1.UpgradeBlocked
}
