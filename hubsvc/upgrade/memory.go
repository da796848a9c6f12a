package upgrade

import (
	"slices"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Memory is what was seen while somebody looked: this process, and as far as it has been told ([Memory.Recall]) those before it. It
// is not safe for concurrent use.
type Memory struct {
	// since is when it began to look, last when it looked last.
	since, last time.Time
	// settled are commits of moves that were healthy once.
	settled map[string]bool
	// healthy is since when an installation has been healthy at a version.
	healthy map[at]time.Time
	// before is the same of those that looked before, as long as nothing says otherwise; until is how long that is believed.
	before map[at]time.Time
	until  time.Time
}

type at struct{ installation, version string }

// unwatched is how long nobody may have looked at what was healthy, and is healthy again, for it to count as healthy all the time:
// a restart of the hub with the time that agents take to come back. It is short, since nobody knows what was in between.
const unwatched = 10 * time.Minute

// NewMemory is one that begins to look now.
func NewMemory(now time.Time) *Memory {
	return &Memory{since: now, settled: map[string]bool{}, healthy: map[at]time.Time{}}
}

// Remembered is a memory for whoever looks after this process.
type Remembered struct {
	// Seen is when it looked last.
	Seen time.Time `json:"seen"`
	// Healthy are sorted.
	Healthy []Healthy `json:"healthy,omitempty"`
	// Settled are the commits of moves that were healthy once, sorted.
	Settled []string `json:"settled,omitempty"`
}

// Healthy says since when an installation has been healthy at a version.
type Healthy struct {
	Installation string    `json:"installation"`
	Version      string    `json:"version"`
	Since        time.Time `json:"since"`
}

// Same says whether two have the same in them, whenever they looked last.
func (r *Remembered) Same(o *Remembered) bool {
	equal := func(a, b Healthy) bool {
		return a.Installation == b.Installation && a.Version == b.Version && a.Since.Equal(b.Since)
	}
	return slices.EqualFunc(r.Healthy, o.Healthy, equal) && slices.Equal(r.Settled, o.Settled)
}

// Remember is what the next process is to be told.
func (m *Memory) Remember() *Remembered {
	out := &Remembered{Seen: m.last.UTC()}
	if len(m.before) > 0 { // nobody has seen those since
		out.Seen = m.until.Add(-unwatched).UTC()
	}
	add := func(key at, since time.Time) {
		out.Healthy = append(out.Healthy, Healthy{Installation: key.installation, Version: key.version, Since: since.UTC()})
	}
	for key, since := range m.healthy {
		add(key, since)
	}
	for key, since := range m.before {
		if _, ok := m.healthy[key]; !ok {
			add(key, since)
		}
	}
	slices.SortFunc(out.Healthy, func(a, b Healthy) int {
		return strings.Compare(a.Installation+"\n"+a.Version, b.Installation+"\n"+b.Version)
	})
	for commit := range m.settled {
		if m.settled[commit] {
			out.Settled = append(out.Settled, commit)
		}
	}
	slices.Sort(out.Settled)
	return out
}

// Recall takes in what others saw before. It may come late: what has been healthy since this process began to look, has been so
// since they said.
func (m *Memory) Recall(r *Remembered) {
	m.before, m.until = make(map[at]time.Time, len(r.Healthy)), r.Seen.Add(unwatched)
	for _, h := range r.Healthy {
		key := at{h.Installation, h.Version}
		m.before[key] = h.Since
		if now, ok := m.healthy[key]; ok && now.Before(m.until) && h.Since.Before(now) {
			m.healthy[key] = h.Since
		}
	}
	for _, commit := range r.Settled {
		m.settled[commit] = true
	}
}

// Note takes in how all stands, before a decision.
func (m *Memory) Note(f *Facts) {
	if !f.Now.Before(m.until) {
		m.before = nil
	}
	if !f.Now.Before(m.last.Add(unwatched)) { // nobody knows what was in between
		clear(m.healthy)
	}
	now, before := make(map[at]time.Time, len(m.healthy)), map[at]time.Time{}
	for i := range f.Lock.Packages {
		e := &f.Lock.Packages[i]
		key := at{e.Name, e.Version}
		was, told := m.before[key]
		switch bad := unhealthy(f.Cells(e.Name)); {
		case bad != nil && told && unheard(f.Cells(e.Name)):
			before[key] = was
		case bad != nil:
		default:
			now[key] = f.Now
			if since, ok := m.healthy[key]; ok {
				now[key] = since
			} else if told && was.Before(f.Now) {
				now[key] = was
			}
		}
	}
	m.healthy, m.before, m.last = now, before, f.Now
	if len(f.Past) == 0 { // nothing was moved, or nobody could tell yet what was
		return
	}
	settled := make(map[string]bool, len(f.Past))
	for _, move := range f.Past {
		settled[move.Commit] = m.settled[move.Commit] || m.reached(&move)
	}
	m.settled = settled
}

// unheard says whether nothing is worse than that nothing has been heard of it: so it is with all agents when a hub starts.
func unheard(cells []Cell) bool {
	return !slices.ContainsFunc(cells, func(c Cell) bool {
		return c.Phase != v1.Healthy && c.Phase != v1.Pending && c.Phase != v1.Stale
	})
}

// reached says whether all of a move's installations are healthy at its versions now.
func (m *Memory) reached(move *Move) bool {
	for _, c := range move.Changes {
		if _, ok := m.healthy[at{c.Installation, c.To}]; !ok {
			return false
		}
	}
	return true
}

// Healthy is since when an installation has been healthy at a version.
func (m *Memory) Healthy(installation, version string) (time.Time, bool) {
	since, ok := m.healthy[at{installation, version}]
	return since, ok
}
