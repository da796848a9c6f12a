// Package upgrader owns the commits that upgrade installations, and that take upgrades back.
//
// Every replica decides, from the same facts, so that each can show where all stands; the one that publishes acts. What is decided is
// the business of package upgrade.
package upgrader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/planner"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/hubsvc/upgrade"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/poll"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
)

// Options are what an Upgrader works with. All must be set.
type Options struct {
	// Plan is the one in force.
	Plan      func() *planner.Plan
	Sources   *sources.Set
	Mirrors   *gitpoller.Set
	Committer *committer.Committer
	View      *view.View
	// Acts says whether this replica is the one that acts now.
	Acts func() bool
	// Hint has the installation repo looked at now.
	Hint func()
	// Announce tells people what happened.
	Announce func(v1.Event)
	// Interval is the wait between two looks at repositories.
	Interval  time.Duration
	JetStream jetstream.JetStream
	// Replicas is how many copies what was seen is kept in.
	Replicas int
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// Upgrader decides, and acts.
type Upgrader struct {
	Options
	catalogs catalogs
	memory   *upgrade.Memory
	kept     soakStore
	wake     chan struct{}
	shown    atomic.Pointer[[]v1.Upgrade]
	commits  *prometheus.CounterVec

	// Only the goroutine of Run touches what follows.
	installed installed
	history   history
	branches  proposals
	failed    map[string]failure
}

// failure is why an action was not carried out. It is tried again, since what keeps it may end without a trace here.
type failure struct {
	reason v1.UpgradeReason
	until  time.Time
}

// How long an action rests that cannot be put together, and one that could not be pushed.
const (
	restUnfit = 10 * time.Minute
	restAway  = time.Minute
)

// New makes an Upgrader.
func New(o Options) *Upgrader {
	u := &Upgrader{
		Options: o, catalogs: catalogs{mirrors: o.Mirrors, sources: o.Sources}, memory: upgrade.NewMemory(time.Now()),
		kept: soakStore{js: o.JetStream, replicas: o.Replicas, log: o.Log},
		wake: make(chan struct{}, 1), failed: map[string]failure{},
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_upgrade_commits_total", Help: "Commits that move installations of packages, by what they do.",
		}, []string{"action", "outcome"}),
	}
	u.shown.Store(new([]v1.Upgrade))
	o.Metrics.MustRegister(u.commits, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plural_hub_upgrades_stuck", Help: "Installations whose upgrade waits for a person, or was taken back.",
	}, u.stuck))
	return u
}

// List is all installations, with where they stand.
func (u *Upgrader) List() []v1.Upgrade { return *u.shown.Load() }

func (u *Upgrader) stuck() float64 {
	n := 0
	for _, each := range u.List() {
		if each.State == v1.UpgradeBlocked || each.State == v1.UpgradeReverted {
			n++
		}
	}
	return float64(n)
}

// lookAgain is the wait between two looks when nothing has changed that the hub is told of: clocks go on, and so do registries.
const lookAgain = 15 * time.Second

// Run decides, and acts, until ctx ends.
func (u *Upgrader) Run(ctx context.Context) error {
	follower, err := u.View.Follow("", []v1.ChangeKind{v1.ChangedDeployments}, func(v1.ChangeKind) string { return "" })
	if err != nil {
		return err
	}
	interval := min(lookAgain, max(u.Interval, 100*time.Millisecond))
	err = poll.Loop{Interval: interval, Jitter: 0.1, MaxBackoff: time.Minute}.Run(ctx, u.wake, func(ctx context.Context) error {
		for changed := true; changed; { // what they are is read from the view
			select {
			case <-follower.Wait():
				follower.Next()
			default:
				changed = false
			}
		}
		return u.turn(ctx)
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Look has the next turn come now.
func (u *Upgrader) Look() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// turn decides once and carries out what can be done now. One commit is made of what is served; what comes after it is decided when
// that is.
func (u *Upgrader) turn(ctx context.Context) error {
	now := u.candidate()
	if now == nil || len(now.Fleet.Installations) == 0 {
		u.show(nil)
		return nil
	}
	facts, set, err := u.facts(ctx, now)
	if err != nil {
		u.Log.Warn("upgrades cannot be decided; they stay where they are", "error", err)
		return err
	}
	u.kept.recall(ctx, u.memory)
	u.memory.Note(facts)
	if u.Acts() { // of all that see the same, one writes it down
		u.kept.keep(ctx, u.memory.Remember())
	}
	decision := upgrade.Decide(facts)
	u.show(decision.Upgrades)
	if u.Committer.Edits == nil || !u.Acts() {
		return nil
	}
	for i := range decision.Actions {
		a := &decision.Actions[i]
		committed, err := u.act(ctx, now, set, a)
		if err != nil {
			return err
		}
		if committed && a.Branch == "" {
			return nil
		}
	}
	return nil
}

// candidate is the commit that is served, as far as it is here.
func (u *Upgrader) candidate() *sources.Commit {
	plan := u.Plan()
	if plan.Desired.Served.ID == "" {
		return nil
	}
	snap, err := u.Mirrors.At(u.Sources.Own().ID, plan.Desired.Served.ID)
	if err != nil {
		return nil
	}
	return &sources.Commit{Fleet: &plan.Desired.Fleet, Snapshot: snap}
}

// facts are what is decided on.
func (u *Upgrader) facts(ctx context.Context, now *sources.Commit) (*upgrade.Facts, *catalog.Set, error) {
	files := now.Snapshot.FS()
	lock, err := lockfile.Load(files)
	if err != nil {
		return nil, nil, err
	}
	set := u.catalogs.of(now)
	universe, err := pkgupgrade.Known(&compose.World{Fleet: now.Fleet, Repo: files, Lock: lock}, set.Universe(ctx))
	if err != nil {
		return nil, nil, err
	}
	f := &upgrade.Facts{
		Now: time.Now(), Fleet: now.Fleet, Lock: lock, Universe: universe, Memory: u.memory, Closed: u.closed(), Failed: u.failures(),
		Installed: func(installation string) (*packages.Package, error) { return u.installed.read(now, installation) },
		Versions: func(from, name string) ([]catalog.Entry, error) {
			entries, _, err := set.Versions(ctx, from, name)
			return entries, err
		},
		Cells: u.cells(now.Fleet),
	}
	if u.Committer.Edits == nil || !moves(now.Fleet) {
		return f, set, nil
	}
	if f.Closed == nil {
		if err := u.history.read(ctx, &u.Options, now.ID()); err != nil {
			if !errors.Is(err, errMoved) {
				u.Log.Warn("what was moved before cannot be read; upgrades wait for that", "commit", now.ID(), "error", err)
			}
			f.Closed = &v1.UpgradeReason{Code: v1.ReasonBehind, Message: "waits for the history of the installation repo: " + people(err)}
		}
	}
	f.Past = u.history.past
	f.Branch = u.branches.of(ctx, &u.Options, now.Fleet)
	return f, set, nil
}

// installed are the packages of one commit, each read once.
type installed struct {
	commit string
	known  map[string]*packages.Package
}

func (i *installed) read(now *sources.Commit, installation string) (*packages.Package, error) {
	if i.commit != now.ID() {
		i.commit, i.known = now.ID(), map[string]*packages.Package{}
	}
	if p, ok := i.known[installation]; ok {
		return p, nil
	}
	text, err := fs.ReadFile(now.Snapshot.FS(), compose.Payload(installation)+"/"+packages.File)
	if err != nil {
		return nil, err
	}
	p, err := packages.Parse(text)
	if err == nil {
		i.known[installation] = p
	}
	return p, err
}

// people is an error as far as it is for people: the rest is for the log.
func people(err error) string {
	if errors.Is(err, errMoved) {
		return errMoved.Error()
	}
	return committer.ErrNoCommit.Error()
}

// moves says whether the hub moves any installation by itself.
func moves(f *fleet.Fleet) bool {
	return slices.ContainsFunc(f.Installations, func(i fleet.Installation) bool {
		return i.Spec.Upgrade.Policy != "" && i.Spec.Upgrade.Policy != fleet.UpgradeManual
	})
}

// closed is why the hub commits nothing now, if it does not.
func (u *Upgrader) closed() *v1.UpgradeReason {
	if len(u.Committer.Keys) > 0 { // what packages bring is more than the hub's key covers
		return &v1.UpgradeReason{
			Code: v1.ReasonReadOnly, Message: "this hub believes packages that people sign alone",
			Fix: "plural package upgrade, in a clone",
		}
	}
	err := u.Committer.Refusal("start the hub with --edits, or: plural package upgrade, in a clone")
	if refused := new(api.Refused); errors.As(err, &refused) {
		return &v1.UpgradeReason{Code: v1.ReasonReadOnly, Message: refused.Message, Fix: refused.Fix}
	}
	desired := &u.Plan().Desired
	switch {
	case len(desired.Refused) > 0:
		return &v1.UpgradeReason{
			Code: v1.ReasonBehind, Message: "the newest commit of the installation repo is refused", Fix: "mend it: plural status",
		}
	case desired.Head.ID != desired.Served.ID:
		return &v1.UpgradeReason{Code: v1.ReasonBehind, Message: "the newest commit of the installation repo is not served yet"}
	}
	return nil
}

func (u *Upgrader) failures() map[string]v1.UpgradeReason {
	out := map[string]v1.UpgradeReason{}
	for key, f := range u.failed {
		if time.Now().After(f.until) {
			delete(u.failed, key)
			continue
		}
		out[key] = f.reason
	}
	return out
}

// cells gives what installations have on clusters, as the view has it.
func (u *Upgrader) cells(f *fleet.Fleet) func(string) []upgrade.Cell {
	services := map[string][]string{}
	for i := range f.Services {
		s := &f.Services[i]
		if rest, ok := strings.CutPrefix(s.Position.File, "packages/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			services[name] = append(services[name], s.Metadata.Name)
		}
	}
	known := map[string][]upgrade.Cell{}
	return func(installation string) []upgrade.Cell {
		if cells, ok := known[installation]; ok {
			return cells
		}
		var cells []upgrade.Cell
		for _, service := range services[installation] {
			for _, s := range u.View.Stands(service) {
				cells = append(cells, upgrade.Cell{
					Service: service, Cluster: s.Cluster, Phase: s.Phase, Quarantined: s.Quarantined, Message: s.Message,
				})
			}
		}
		known[installation] = cells
		return cells
	}
}

// show lets people see where all stands, and tells them of what has changed.
func (u *Upgrader) show(list []v1.Upgrade) {
	before := map[string]v1.Upgrade{}
	for _, each := range u.List() {
		before[each.Installation] = each
	}
	if list == nil {
		list = []v1.Upgrade{}
	}
	u.shown.Store(&list)
	for i := range list {
		was, known := before[list[i].Installation]
		if event, ok := told(&was, &list[i]); known && ok {
			u.Announce(event)
		}
	}
}

// told is what happened between two states of an installation, for people.
func told(was, is *v1.Upgrade) (v1.Event, bool) {
	e := v1.Event{Time: time.Now(), Service: is.Installation}
	why := ""
	if len(is.Reasons) > 0 {
		why = is.Reasons[0].Message
	}
	switch {
	case was.State == is.State && was.Version == is.Version:
		return e, false
	case is.State == v1.UpgradeRolling:
		e.Reason, e.Message = "UpgradeBegun", fmt.Sprintf("%s %s -> %s", is.Installation, is.From, is.Version)
	case was.State == v1.UpgradeRolling && was.Version == is.Version:
		e.Reason, e.Message = "UpgradeDone", is.Installation+" "+is.Version+" is healthy"
	case is.State == v1.UpgradeReverted:
		e.Reason, e.Warning, e.Message = "UpgradeTakenBack", true, is.Installation+": "+why
	case is.State == v1.UpgradeProposed:
		e.Reason, e.Message = "UpgradeProposed", is.Installation+" "+is.Target+": "+why
	case is.State == v1.UpgradeBlocked:
		e.Reason, e.Warning, e.Message = "UpgradeBlocked", true, is.Installation+" "+is.Newest+": "+why
	case is.State == v1.UpgradeWaiting && was.State != v1.UpgradeReady:
		e.Reason, e.Message = "UpgradeWaits", is.Installation+" "+is.Target+": "+why
	default:
		return e, false
	}
	return e, true
}
