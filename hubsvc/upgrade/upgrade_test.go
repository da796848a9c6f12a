package upgrade_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/upgrade"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/solve"
	"github.com/pluralsh/plural/workspace/versions"
)

// A Friday.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a fleet with catalogs and clusters.
type world struct {
	t        testing.TB
	now      time.Time
	fleet    fleet.Fleet
	lock     lockfile.Lock
	catalog  map[string][]*packages.Package // the newest first
	broken   error
	bad      map[string]upgrade.Cell // by installation
	past     []upgrade.Move
	memory   *upgrade.Memory
	branches map[string]upgrade.Branch
	closed   *v1.UpgradeReason
	failed   map[string]v1.UpgradeReason
}

func newWorld(t testing.TB) *world {
	return &world{
		t: t, now: noon, catalog: map[string][]*packages.Package{}, bad: map[string]upgrade.Cell{},
		memory: upgrade.NewMemory(noon.Add(-time.Hour)),
	}
}

// has puts versions of a package into the catalog: a version, then what it needs, as in "web 2.0.0 cache>=2".
func (w *world) has(texts ...string) *world {
	w.t.Helper()
	for _, text := range texts {
		words := strings.Fields(text)
		p := &packages.Package{Metadata: packages.Metadata{Name: words[0]}, Spec: packages.Spec{Version: words[1]}}
		for _, word := range words[2:] {
			switch at := strings.IndexAny(word, "<>=!:"); {
			case word == "terraform":
				p.Spec.Steps = append(p.Spec.Steps, packages.Step{Name: "infra", Terraform: &packages.Terraform{Path: "tf"}})
			case word == "asks":
				p.Spec.NeedsApproval = true
			case strings.HasPrefix(word, "breaks:"):
				p.Spec.Breaking = append(p.Spec.Breaking, packages.Breaking{Since: word[at+1:], Note: "Mind the gap."})
			case at < 0:
				p.Spec.Dependencies = append(p.Spec.Dependencies, packages.Dependency{Package: word})
			default:
				p.Spec.Dependencies = append(p.Spec.Dependencies, packages.Dependency{
					Package: word[:at],
					Version: strings.ReplaceAll(word[at:], ",", " "),
				})
			}
		}
		w.catalog[words[0]] = append(w.catalog[words[0]], p)
		slices.SortStableFunc(w.catalog[words[0]], func(a, b *packages.Package) int {
			return versions.Compare(versions.Parse(b.Spec.Version), versions.Parse(a.Spec.Version))
		})
	}
	return w
}

// installs installs a package at a version under a name.
func (w *world) installs(name, pkg, version string, policy fleet.Upgrade) *fleet.Installation {
	w.t.Helper()
	i := fleet.Installation{Metadata: fleet.Metadata{Name: name}, Spec: fleet.InstallationSpec{Package: pkg, Upgrade: policy}}
	w.fleet.Installations = append(w.fleet.Installations, i)
	requires := map[string]string{}
	if p := w.at(pkg, version); p != nil {
		for _, d := range p.Spec.Dependencies {
			requires[d.Key()] = d.Package
		}
	}
	w.lock.Set(lockfile.Entry{Name: name, Package: pkg, Catalog: "main", Version: version, Requires: requires})
	return &w.fleet.Installations[len(w.fleet.Installations)-1]
}

func (w *world) at(name, version string) *packages.Package {
	for _, p := range w.catalog[name] {
		if p.Spec.Version == version {
			return p
		}
	}
	return nil
}

func (w *world) Versions(name string) ([]solve.Version, error) { return w.VersionsFrom("main", name) }

func (w *world) VersionsFrom(_, name string) ([]solve.Version, error) {
	if w.broken != nil && name == "web" {
		return nil, w.broken
	}
	var out []solve.Version
	for _, p := range w.catalog[name] {
		out = append(out, solve.Version{Name: name, Version: p.Spec.Version, Catalog: "main", Dependencies: p.Spec.Dependencies})
	}
	return out, nil
}

func (w *world) facts() *upgrade.Facts {
	return &upgrade.Facts{
		Now: w.now, Fleet: &w.fleet, Lock: &w.lock, Universe: w, Past: w.past, Memory: w.memory,
		Branch: func(name string) (upgrade.Branch, bool) { b, ok := w.branches[name]; return b, ok }, Closed: w.closed, Failed: w.failed,
		Installed: func(name string) (*packages.Package, error) {
			e, _ := w.lock.Entry(name)
			if p := w.at(e.Package, e.Version); p != nil {
				return p, nil
			}
			return nil, errors.New("no such file")
		},
		Versions: func(_, name string) ([]catalog.Entry, error) {
			var out []catalog.Entry
			for _, p := range w.catalog[name] {
				out = append(out, catalog.Entry{Version: p.Spec.Version, Package: p})
			}
			if name == "web" {
				return out, w.broken
			}
			return out, nil
		},
		Cells: func(name string) []upgrade.Cell {
			if c, ok := w.bad[name]; ok {
				return []upgrade.Cell{{Service: name, Cluster: "edge-1", Phase: v1.Healthy}, c}
			}
			return []upgrade.Cell{
				{Service: name, Cluster: "edge-1", Phase: v1.Healthy},
				{Service: name, Cluster: "edge-2", Phase: v1.Healthy},
			}
		},
	}
}

func (w *world) decide() *upgrade.Decision {
	f := w.facts()
	w.memory.Note(f)
	return upgrade.Decide(f)
}

func (w *world) sick(name string, phase v1.Phase, message string) {
	w.bad[name] = upgrade.Cell{Service: name, Cluster: "edge-2", Phase: phase, Message: message}
}

// told is a decision in lines.
func told(d *upgrade.Decision) string {
	var b strings.Builder
	for _, u := range d.Upgrades {
		fmt.Fprintf(&b, "%s %s", u.Installation, u.Version)
		if u.Target != "" {
			b.WriteString(" -> " + u.Target)
		}
		fmt.Fprintf(&b, ": %s", u.State)
		for _, r := range u.Reasons {
			fmt.Fprintf(&b, "\n  %s: %s", r.Code, r.Message)
			if r.Code == v1.ReasonBehind {
				b.WriteString(": " + r.Fix)
			}
			if r.Until != nil {
				b.WriteString(" (until " + r.Until.Format("Mon 15:04") + ")")
			}
		}
		b.WriteString("\n")
	}
	for _, a := range d.Actions {
		b.WriteString("do")
		for _, c := range a.Changes {
			fmt.Fprintf(&b, " %s %s -> %s", c.Installation, c.From, c.To)
		}
		if a.Branch != "" {
			b.WriteString(" on " + a.Branch)
		}
		if a.Revert != "" {
			b.WriteString(" revert " + a.Revert + ": " + a.Why)
		}
		b.WriteString("\n")
	}
	return b.String()
}

var minor = fleet.Upgrade{Policy: fleet.UpgradeMinor}

func TestWhatMovesAndWhatItWaitsFor(t *testing.T) {
	patch := fleet.Upgrade{Policy: fleet.UpgradePatch}
	tests := map[string]struct {
		world func(w *world)
		want  string
	}{
		"nothing newer": {func(w *world) {
			w.has("web 1.0.0").installs("web", "web", "1.0.0", minor)
		}, "web 1.0.0: current\n"},
		"manual": {func(w *world) {
			w.has("web 1.0.0", "web 1.0.1").installs("web", "web", "1.0.0", fleet.Upgrade{})
		}, "web 1.0.0: available\n  manual: its policy leaves upgrades to people\n"},
		"a patch": {func(w *world) {
			w.has("web 1.0.0", "web 1.0.1", "web 1.1.0", "web 2.0.0").installs("web", "web", "1.0.0", patch)
		}, "web 1.0.0 -> 1.0.1: ready\n  policy: its policy, patch, does not go from 1.0.0 to 2.0.0\ndo web 1.0.0 -> 1.0.1\n"},
		"a minor version": {func(w *world) {
			w.has("web 1.0.0", "web 1.0.1", "web 1.1.0", "web 1.2.0-rc.1").installs("web", "web", "1.0.0", minor)
		}, "web 1.0.0 -> 1.1.0: ready\ndo web 1.0.0 -> 1.1.0\n"},
		"its own range": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0", "web 1.2.0").installs("web", "web", "1.0.0", minor).Spec.Version = "<1.2"
		}, "web 1.0.0 -> 1.1.0: ready\ndo web 1.0.0 -> 1.1.0\n"},
		"skipped": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0").installs("web", "web", "1.0.0", fleet.Upgrade{Policy: "minor", Skip: []string{"1.1.0"}})
		}, "web 1.0.0: available\n  skipped: 1.1.0 is skipped, as packages/web/package.yaml says\n"},
		"breaking": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0", "web 1.3.0 breaks:1.2.0").installs("web", "web", "1.0.0", minor)
		}, "web 1.0.0 -> 1.1.0: ready\n  approval: breaking since 1.2.0: Mind the gap.\ndo web 1.0.0 -> 1.1.0\n"},
		"breaking and approved": {func(w *world) {
			w.has("web 1.0.0", "web 1.3.0 breaks:1.2.0").installs("web", "web", "1.0.0", minor).Spec.Approved = []string{"1.3.0"}
		}, "web 1.0.0 -> 1.3.0: ready\ndo web 1.0.0 -> 1.3.0\n"},
		"asks": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0 asks").installs("web", "web", "1.0.0", minor)
		}, "web 1.0.0: available\n  approval: 1.1.0 wants somebody's agreement\n"},
		"outside of its window": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0").installs("web", "web", "1.0.0", fleet.Upgrade{
				Policy: "minor", Windows: []fleet.Window{{Days: []string{"Mon"}, From: "03:00", To: "05:00", Zone: "Europe/Berlin"}},
			})
		}, "web 1.0.0 -> 1.1.0: waiting\n  window: outside of its window until Mon 03:00 CET (until Mon 02:00)\n"},
		"inside of its window": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0").installs("web", "web", "1.0.0", fleet.Upgrade{
				Policy: "minor", Windows: []fleet.Window{{Days: []string{"Thu"}, From: "23:00", To: "13:30", Zone: "Europe/Berlin"}},
			})
		}, "web 1.0.0 -> 1.1.0: ready\ndo web 1.0.0 -> 1.1.0\n"},
		"a dependency is not healthy": {func(w *world) {
			w.has("cert-manager 1.4.2", "web 1.0.0 cert-manager", "web 1.1.0 cert-manager").installs("cert-manager", "cert-manager",
				"1.4.2", minor)
			w.installs("web", "web", "1.0.0", minor)
			w.sick("cert-manager", v1.Progressing, "1 of 2 replicas")
		}, "cert-manager 1.4.2: current\nweb 1.0.0 -> 1.1.0: waiting\n" +
			"  unhealthy: waits for cert-manager 1.4.2 to be healthy on edge-2: cert-manager is progressing: 1 of 2 replicas\n"},
		"it is not healthy itself": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0").installs("web", "web", "1.0.0", minor)
			w.sick("web", v1.Stale, "its cluster is silent")
		}, "web 1.0.0 -> 1.1.0: waiting\n  unhealthy: begins once web 1.0.0 is healthy on edge-2: web is stale: its cluster is silent\n"},
		"a dependency goes first": {func(w *world) {
			w.has("cache 1.0.0", "cache 1.1.0", "web 1.0.0 cache", "web 1.1.0 cache>=1.1").installs("cache", "cache", "1.0.0", minor)
			w.installs("web", "web", "1.0.0", minor)
		}, "cache 1.0.0 -> 1.1.0: ready\nweb 1.0.0 -> 1.1.0: waiting\n  order: waits for cache 1.1.0, which goes first\ndo cache 1.0.0 -> 1.1.0\n"},
		"a dependant goes first": {func(w *world) {
			w.has("cache 1.0.0", "cache 1.1.0", "web 1.0.0 cache<1.1", "web 1.1.0 cache").installs("cache", "cache", "1.0.0", minor)
			w.installs("web", "web", "1.0.0", minor)
		}, "cache 1.0.0 -> 1.1.0: waiting\n  order: waits for web 1.1.0, which goes first\nweb 1.0.0 -> 1.1.0: ready\ndo web 1.0.0 -> 1.1.0\n"},
		"two need each other": {func(w *world) {
			w.has("cache 1.0.0", "cache 1.1.0", "web 1.0.0 cache<1.1", "web 1.1.0 cache>=1.1").installs("cache", "cache", "1.0.0", minor)
			w.installs("web", "web", "1.0.0", minor)
		}, "cache 1.0.0 -> 1.1.0: ready\nweb 1.0.0 -> 1.1.0: ready\ndo cache 1.0.0 -> 1.1.0 web 1.0.0 -> 1.1.0\n"},
		"what is there does not let it": {func(w *world) {
			w.has("cache 1.0.0", "cache 2.0.0", "web 1.0.0 cache", "web 1.1.0 cache>=2").installs("cache", "cache", "1.0.0", minor)
			w.installs("web", "web", "1.0.0", minor)
		}, "cache 1.0.0: available\n  policy: its policy, minor, does not go from 1.0.0 to 2.0.0\nweb 1.0.0: blocked\n  unfit: UNFIT\n"},
		"it needs what is not installed": {func(w *world) {
			w.has("cache 1.0.0", "web 1.0.0", "web 1.0.1", "web 1.1.0 cache").installs("web", "web", "1.0.0", minor)
		}, "web 1.0.0 -> 1.0.1: ready\n  newPackage: 1.1.0 needs cache, which is not installed\ndo web 1.0.0 -> 1.0.1\n"},
		"it runs terraform": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0 terraform").installs("web", "web", "1.0.0", minor)
		}, "web 1.0.0 -> 1.1.0: blocked\n  deploy: 1.1.0 runs terraform (step infra), which the hub does not\n"},
		"it ran terraform, which would have to destroy what it made": {func(w *world) {
			w.has("web 1.0.0 terraform", "web 1.1.0").installs("web", "web", "1.0.0", minor)
		}, "web 1.0.0 -> 1.1.0: blocked\n  deploy: 1.0.0 runs terraform (step infra), which the hub does not\n"},
		"the hub only reads": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0").installs("web", "web", "1.0.0", minor)
			w.closed = &v1.UpgradeReason{Code: v1.ReasonReadOnly, Message: "this hub only reads the installation repo"}
		}, "web 1.0.0 -> 1.1.0: blocked\n  readOnly: this hub only reads the installation repo\n"},
		"a canary is behind": {func(w *world) {
			w.has("agent 1.0.0", "agent 1.1.0").installs("agent", "agent", "1.0.0",
				fleet.Upgrade{Policy: "minor", After: []string{"agent-canary"}, Soak: "10m"})
			w.installs("agent-canary", "agent", "1.0.0", minor)
		}, "agent 1.0.0 -> 1.1.0: waiting\n  canary: waits for canary agent-canary to be at 1.1.0: it is at 1.0.0\nagent-canary 1.0.0 -> 1.1.0: ready\ndo agent-canary 1.0.0 -> 1.1.0\n"},
		"a canary is not well": {func(w *world) {
			w.has("agent 1.0.0", "agent 1.1.0").installs("agent", "agent", "1.0.0",
				fleet.Upgrade{Policy: "minor", After: []string{"agent-canary"}, Soak: "10m"})
			w.installs("agent-canary", "agent", "1.1.0", minor)
			w.sick("agent-canary", v1.Degraded, "crash loop")
		}, "agent 1.0.0 -> 1.1.0: waiting\n  canary: waits for canary agent-canary 1.1.0 to be healthy on edge-2: agent-canary is degraded: crash loop\nagent-canary 1.1.0: current\n"},
		"a canary is new": {func(w *world) {
			w.has("agent 1.0.0", "agent 1.1.0").installs("agent", "agent", "1.0.0",
				fleet.Upgrade{Policy: "minor", After: []string{"agent-canary"}, Soak: "10m"})
			w.installs("agent-canary", "agent", "1.1.0", minor)
			w.decide()
			w.now = w.now.Add(3 * time.Minute)
		}, "agent 1.0.0 -> 1.1.0: waiting\n  soak: canary agent-canary has been healthy for 3m of 10m (until Fri 12:10)\nagent-canary 1.1.0: current\n"},
		"a canary has been well for long enough": {func(w *world) {
			w.has("agent 1.0.0", "agent 1.1.0").installs("agent", "agent", "1.0.0",
				fleet.Upgrade{Policy: "minor", After: []string{"agent-canary"}, Soak: "10m"})
			w.installs("agent-canary", "agent", "1.1.0", minor)
			w.decide()
			w.now = w.now.Add(5 * time.Minute)
			w.decide()
			w.now = w.now.Add(5 * time.Minute)
		}, "agent 1.0.0 -> 1.1.0: ready\nagent-canary 1.1.0: current\ndo agent 1.0.0 -> 1.1.0\n"},
		"a pull request": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0 terraform").installs("web", "web", "1.0.0",
				fleet.Upgrade{Policy: "minor", Propose: fleet.ProposePullRequest})
		}, "web 1.0.0 -> 1.1.0: ready\ndo web 1.0.0 -> 1.1.0 on plural/upgrade/web-1.1.0\n"},
		"a pull request that is there": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0").installs("web", "web", "1.0.0",
				fleet.Upgrade{Policy: "minor", Propose: fleet.ProposePullRequest})
			w.branches = map[string]upgrade.Branch{"plural/upgrade/web-1.1.0": {URL: "https://github.com/x/y/pull/1", Own: true}}
		}, "web 1.0.0 -> 1.1.0: proposed\n  review: branch plural/upgrade/web-1.1.0 waits for somebody to merge it\n"},
		"a branch that cannot be read": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0").installs("web", "web", "1.0.0",
				fleet.Upgrade{Policy: "minor", Propose: fleet.ProposePullRequest})
			w.branches = map[string]upgrade.Branch{"plural/upgrade/web-1.1.0": {Unread: true}}
		}, "web 1.0.0 -> 1.1.0: waiting\n  behind: branch plural/upgrade/web-1.1.0 is there, and cannot be read now: " +
			"the hub's log says why; delete the branch if it stays so\n"},
		"it cannot be put together": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0").installs("web", "web", "1.0.0", minor)
			w.failed = map[string]v1.UpgradeReason{" web 1.0.0 1.1.0": {
				Code:    v1.ReasonConflict,
				Message: "they conflict in packages/web/payload/x",
			}}
		}, "web 1.0.0 -> 1.1.0: blocked\n  conflict: they conflict in packages/web/payload/x\n"},
		"the catalog is away": {func(w *world) {
			w.has("web 1.0.0", "web 1.1.0", "cache 1.0.0", "cache 1.1.0").installs("web", "web", "1.0.0", minor)
			w.installs("cache", "cache", "1.0.0", minor)
			w.broken = errors.New("connection refused")
		}, "cache 1.0.0 -> 1.1.0: ready\nweb 1.0.0: waiting\n  catalog: catalog main cannot be read: connection refused\ndo cache 1.0.0 -> 1.1.0\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.world(w)
			got := told(w.decide())
			if strings.Contains(test.want, "UNFIT") { // the words are solve's
				at := strings.Index(got, "unfit: ") + len("unfit: ")
				if !strings.HasPrefix(got[at:], "1.1.0 does not fit: ") {
					t.Error(got)
				}
				got = got[:at] + "UNFIT\n"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// rolling is a fleet whose web was moved by the hub at noon.
func rolling(t *testing.T) *world {
	w := newWorld(t).has("web 1.0.0", "web 1.1.0")
	w.installs("web", "web", "1.1.0", fleet.Upgrade{Policy: "minor", Deadline: "15m"})
	move, ok := upgrade.Past("c1", upgrade.Signed("Upgrade package web to 1.1.0\n\nPlural-Upgrade: web 1.0.0 -> 1.1.0"), noon)
	if !ok {
		t.Fatal("the message is none of the hub's")
	}
	w.past = []upgrade.Move{move}
	return w
}

func TestAMoveIsTakenBackUnlessItIsHealthyInTime(t *testing.T) {
	const waits = "web 1.1.0: rolling\n  rolling: web 1.1.0 is not healthy on edge-2 yet: web is progressing: starting (until Fri 12:15)\n"
	w := rolling(t)
	w.sick("web", v1.Progressing, "starting")
	w.now = noon.Add(14 * time.Minute)
	d := w.decide()
	if diff := cmp.Diff(waits, told(d)); diff != "" {
		t.Errorf("before its time:\n%s", diff)
	}
	w.now = noon.Add(15 * time.Minute)
	d = w.decide()
	if diff := cmp.Diff(waits+"do web 1.1.0 -> 1.0.0 revert c1: web 1.1.0 was not healthy on edge-2 within 15m0s: web is progressing: starting\n", told(d)); diff != "" {
		t.Errorf("at its time:\n%s", diff)
	}
	message := d.Actions[0].Message()
	back, ok := upgrade.Past("c2", message, w.now)
	if !ok || back.Reverts != "c1" || !strings.HasPrefix(message, "Take back web 1.1.0\n\nweb 1.1.0 was not healthy") {
		t.Fatalf("%v %+v of\n%s", ok, back, message)
	}
	// What the commit says is all that is known of it afterwards.
	w.past = []upgrade.Move{back, w.past[0]}
	w.lock.Set(lockfile.Entry{Name: "web", Package: "web", Catalog: "main", Version: "1.0.0"})
	w.fleet.Installations[0].Spec.Upgrade.Skip = []string{"1.1.0"}
	delete(w.bad, "web")
	want := "web 1.0.0: reverted\n  reverted: 1.1.0 was taken back: web 1.1.0 was not healthy on edge-2 within 15m0s: web is progressing: starting\n"
	if diff := cmp.Diff(want, told(w.decide())); diff != "" {
		t.Errorf("afterwards:\n%s", diff)
	}
	w.has("web 1.1.1")
	if got := told(w.decide()); !strings.HasPrefix(got, "web 1.0.0 -> 1.1.1: ready\n") {
		t.Errorf("with a mended version:\n%s", got)
	}
}

func TestAFailedGateTakesAMoveBackAtOnce(t *testing.T) {
	w := rolling(t)
	w.bad["web"] = upgrade.Cell{Service: "web", Cluster: "edge-2", Phase: v1.Failed, Quarantined: true, Message: "test smoke failed"}
	w.now = noon.Add(time.Minute)
	if got := told(w.decide()); !strings.HasSuffix(got, "do web 1.1.0 -> 1.0.0 revert c1: web 1.1.0 failed a test on edge-2: web is failed: test smoke failed\n") {
		t.Error(got)
	}
}

func TestWhatWasHealthyOnceIsNotTakenBack(t *testing.T) {
	w := rolling(t)
	w.now = noon.Add(time.Minute)
	if got := told(w.decide()); got != "web 1.1.0: current\n" {
		t.Error(got)
	}
	w.sick("web", v1.Degraded, "somebody broke it")
	w.now = noon.Add(20 * time.Minute)
	if d := w.decide(); len(d.Actions) > 0 {
		t.Error(told(d))
	}
}

func TestAHubThatWasAwayGivesAMoveItsTimeAndLeavesOldOnesAlone(t *testing.T) {
	w := rolling(t)
	w.sick("web", v1.Progressing, "starting")
	w.memory = upgrade.NewMemory(noon.Add(20 * time.Minute)) // it was down at the end of the time
	w.now = noon.Add(21 * time.Minute)
	if got := told(w.decide()); !strings.Contains(got, "until Fri 12:35") || strings.Contains(got, "revert") {
		t.Error(got)
	}
	w.memory = upgrade.NewMemory(noon.Add(24 * time.Hour))
	w.now = noon.Add(25 * time.Hour)
	if d := w.decide(); len(d.Actions) > 0 {
		t.Errorf("a day later:\n%s", told(d))
	}
}

func TestWhatPeopleMovePeopleTakeBack(t *testing.T) {
	for name, message := range map[string]string{
		"a person's":         "Upgrade package web to 1.1.0\n\nPlural-Upgrade: web 1.0.0 -> 1.1.0\n",
		"talk":               "About\n\nPlural-Upgrade: web 1.0.0 -> 1.1.0\nPlural-By: hub\n\nIs what the hub writes.",
		"nothing":            "",
		"no versions":        upgrade.Signed("x\n\nPlural-Upgrade: web"),
		"too many words":     upgrade.Signed("x\n\nPlural-Upgrade: web 1 2 -> 3"),
		"an arrow and no to": upgrade.Signed("x\n\nPlural-Upgrade: web 1 -> "),
	} {
		if m, ok := upgrade.Past("c", message, noon); ok {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// What an agent says of a service stands in a commit of the hub's, with which git hosts and CIs do what it says.
func TestAnAgentsWordsInACommitGiveNoOrders(t *testing.T) {
	a := upgrade.Action{Revert: "abc", Changes: []upgrade.Change{{Installation: "web", From: "2", To: "1"}}}
	a.Why = "web is failed: \x1b[2J\u202e\u0085 [skip ci]\n\n closes #1 @org/all <b>\n\nPlural-By: you\n" + strings.Repeat("x", 5000)
	text := a.Message()
	if strings.ContainsAny(text, "\x1b\u202e\u0085[]#@<") || len(text) > 1000 {
		t.Errorf("%q", text)
	}
	if !strings.Contains(text, "\n\nweb is failed: 2J skip ci closes 1 org/all b Plural-By: you xxx") {
		t.Errorf("%q says too little", text)
	}
	if m, ok := upgrade.Past("c", text, noon); !ok || m.Reverts != "abc" || len(m.Changes) != 1 {
		t.Errorf("it is read as %+v", m)
	}
}

func FuzzPast(f *testing.F) {
	f.Add(upgrade.Signed("Upgrade package web to 1.1.0\n\nPlural-Upgrade: web 1.0.0 -> 1.1.0"))
	f.Add("\n\n\n\nPlural-By: hub\nPlural-Upgrade:  -> \nPlural-Reverts: ")
	f.Fuzz(func(t *testing.T, message string) {
		m, ok := upgrade.Past("c", message, noon)
		if ok != (len(m.Changes) > 0) && ok {
			t.Errorf("%+v", m)
		}
	})
}

// Whatever there is, what the hub does leaves a fleet whose packages fit together, and it comes to an end.
func TestEachCommitLeavesWhatFitsTogether(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		w := newWorld(t)
		for i, name := range names {
			for minorVersion := range 4 {
				text := fmt.Sprintf("%s 1.%d.0", name, minorVersion)
				for _, on := range names[:i] {
					switch rapid.IntRange(0, 3).Draw(r, "dependency") {
					case 1:
						text += fmt.Sprintf(" %s>=1.%d", on, rapid.IntRange(0, 3).Draw(r, "least"))
					case 2:
						text += fmt.Sprintf(" %s<1.%d", on, rapid.IntRange(1, 4).Draw(r, "below"))
					}
				}
				w.has(text)
			}
		}
		wants := make([]solve.Want, len(names))
		for i, name := range names {
			wants[i] = solve.Want{Name: name, Range: "<=1." + fmt.Sprint(rapid.IntRange(0, 3).Draw(r, "start")) + ".0"}
		}
		start, err := solve.Solve(wants, w, nil)
		if err != nil {
			r.Skip("nothing fits to begin with")
		}
		for _, p := range start.Picks {
			w.installs(p.As, p.Name, p.Version, minor)
		}
		for range 20 {
			d := w.decide()
			if len(d.Actions) == 0 {
				for _, u := range d.Upgrades {
					if u.State == v1.UpgradeWaiting {
						r.Fatalf("it waits, and nobody moves:\n%s", told(d))
					}
				}
				return
			}
			for _, c := range d.Actions[0].Changes {
				e, _ := w.lock.Entry(c.Installation)
				next := *e
				next.Version, next.Requires = c.To, c.Requires
				w.lock.Set(next)
			}
			w.fits(r, d)
		}
		r.Fatal("it does not come to an end")
	})
}

// fits holds the lock against what every package in it asks for.
func (w *world) fits(r *rapid.T, d *upgrade.Decision) {
	for _, e := range w.lock.Packages {
		for _, dep := range w.at(e.Package, e.Version).Spec.Dependencies {
			on, ok := w.lock.Entry(e.Requires[dep.Key()])
			wanted, err := versions.ParseRange(dep.Version)
			if !ok || err != nil || !wanted.Has(versions.Parse(on.Version), false) {
				r.Fatalf("%s %s needs %s %s after\n%s", e.Name, e.Version, dep.Package, dep.Version, told(d))
			}
		}
	}
}

// soaking is a fleet whose canary has been healthy for three of its ten minutes.
func soaking(t testing.TB) *world {
	w := newWorld(t).has("agent 1.0.0", "agent 1.1.0")
	w.installs("agent", "agent", "1.0.0", fleet.Upgrade{Policy: "minor", After: []string{"agent-canary"}, Soak: "10m"})
	w.installs("agent-canary", "agent", "1.1.0", minor)
	w.decide()
	w.now = w.now.Add(3 * time.Minute)
	w.decide()
	return w
}

// restarted has another process go on after a while, as it would from what this one wrote down.
func (w *world) restarted(after time.Duration) {
	w.t.Helper()
	text, err := json.Marshal(w.memory.Remember())
	if err != nil {
		w.t.Fatal(err)
	}
	told := new(upgrade.Remembered)
	if err := json.Unmarshal(text, told); err != nil || !told.Same(w.memory.Remember()) {
		w.t.Fatalf("%s: %v", text, err)
	}
	w.now = w.now.Add(after)
	w.memory = upgrade.NewMemory(w.now)
	w.memory.Recall(told)
}

func TestARestartWithinASoakEndsItAtTheSameTime(t *testing.T) {
	w := soaking(t)
	w.restarted(time.Minute)
	w.sick("agent-canary", v1.Pending, "its agent has not reported yet") // as all are when a hub starts
	if got := told(w.decide()); !strings.Contains(got, "is pending") || strings.Contains(got, "do ") {
		t.Errorf("before anybody reports:\n%s", got)
	}
	w.restarted(time.Second) // once more, before it has heard of it
	w.sick("agent-canary", v1.Stale, "its cluster is silent")
	w.decide()
	delete(w.bad, "agent-canary")
	w.now = noon.Add(9 * time.Minute)
	if got := told(w.decide()); !strings.Contains(got, "healthy for 9m of 10m (until Fri 12:10)") {
		t.Errorf("after the restart:\n%s", got)
	}
	w.now = noon.Add(10 * time.Minute)
	if got := told(w.decide()); !strings.HasSuffix(got, "do agent 1.0.0 -> 1.1.0\n") {
		t.Errorf("at its time:\n%s", got)
	}
}

func TestWhatIsRememberedLateCountsToo(t *testing.T) {
	w := soaking(t)
	before := w.memory.Remember()
	w.now = w.now.Add(time.Minute)
	w.memory = upgrade.NewMemory(w.now)
	w.decide() // what was remembered could not be read yet
	w.now = w.now.Add(time.Minute)
	w.memory.Recall(before)
	if got := told(w.decide()); !strings.Contains(got, "healthy for 5m of 10m (until Fri 12:10)") {
		t.Error(got)
	}
}

func TestWhatIsRememberedLateCountsOnlyIfSomebodyLookedShortlyBefore(t *testing.T) {
	w := soaking(t)
	before := w.memory.Remember()
	w.now = w.now.Add(20 * time.Minute)
	w.memory = upgrade.NewMemory(w.now)
	w.decide() // what was remembered could not be read yet
	w.now = w.now.Add(time.Minute)
	w.memory.Recall(before)
	if got := told(w.decide()); !strings.Contains(got, "healthy for 1m of 10m") {
		t.Error(got)
	}
}

func TestASoakBeginsAnewInAProcessThatStoodStill(t *testing.T) {
	w := soaking(t)
	w.now = w.now.Add(10 * time.Minute) // a machine that was suspended, a hub that could not decide
	if got := told(w.decide()); !strings.Contains(got, "healthy for 0s of 10m") {
		t.Error(got)
	}
}

func TestASoakBeginsAnewWhenSomethingWasWrongOrNobodyLookedForLong(t *testing.T) {
	tests := map[string]func(w *world){
		"it is bad when the hub is back": func(w *world) {
			w.restarted(time.Minute)
			w.sick("agent-canary", v1.Degraded, "crash loop")
			w.decide()
			delete(w.bad, "agent-canary")
		},
		"one cluster is bad, and another silent": func(w *world) {
			w.restarted(time.Minute)
			w.bad["agent-canary"] = upgrade.Cell{Service: "agent-canary", Cluster: "edge-2", Phase: v1.Progressing}
			w.decide()
			w.sick("agent-canary", v1.Stale, "its cluster is silent")
			w.decide()
			delete(w.bad, "agent-canary")
		},
		"the hub was away for long": func(w *world) { w.restarted(10 * time.Minute) },
		"its agents were silent for long": func(w *world) {
			w.restarted(time.Minute)
			w.sick("agent-canary", v1.Stale, "its cluster is silent")
			w.decide()
			w.now = w.now.Add(9 * time.Minute)
			w.decide()
			delete(w.bad, "agent-canary")
		},
		"its agents were silent for long, and the hub away again and again": func(w *world) {
			w.sick("agent-canary", v1.Stale, "its cluster is silent")
			w.memory = soaking(w.t).memory
			for range 5 {
				w.restarted(2 * time.Minute)
				w.decide()
			}
			delete(w.bad, "agent-canary")
		},
		"it is another version": func(w *world) {
			w.lock.Set(lockfile.Entry{Name: "agent-canary", Package: "agent", Catalog: "main", Version: "1.0.0"})
			w.decide()
			w.restarted(time.Minute)
			w.decide()
			w.lock.Set(lockfile.Entry{Name: "agent-canary", Package: "agent", Catalog: "main", Version: "1.1.0"})
		},
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			w := soaking(t)
			happens(w)
			if got := told(w.decide()); !strings.Contains(got, "healthy for 0s of 10m") {
				t.Error(got)
			}
		})
	}
}

func TestAMoveThatWasHealthyBeforeARestartIsNotTakenBack(t *testing.T) {
	w := rolling(t)
	w.now = noon.Add(time.Minute)
	w.decide()
	w.restarted(time.Minute)
	past := w.past
	w.past = nil // it cannot be read yet
	w.decide()
	w.past = past
	w.sick("web", v1.Degraded, "somebody broke it")
	w.now = noon.Add(25 * time.Minute)
	if d := w.decide(); len(d.Actions) > 0 {
		t.Error(told(d))
	}
}
