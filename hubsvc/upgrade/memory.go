package upgrade

import "time"

// Memory is what a process has seen while it looked. It is not safe for concurrent use.
type Memory struct {
	// since is when it began to look.
	since time.Time
	// settled are commits of moves that were healthy once.
	settled map[string]bool
	// healthy is since when an installation has been healthy at a version.
	healthy map[at]time.Time
}

type at struct{ installation, version string }

// NewMemory is one that begins to look now.
func NewMemory(now time.Time) *Memory {
	return &Memory{since: now, settled: map[string]bool{}, healthy: map[at]time.Time{}}
}

// Note takes in how all stands, before a decision.
func (m *Memory) Note(f *Facts) {
	now := make(map[at]time.Time, len(m.healthy))
	for i := range f.Lock.Packages {
		e := &f.Lock.Packages[i]
		if unhealthy(f.Cells(e.Name)) != nil {
			continue
		}
		key := at{e.Name, e.Version}
		now[key] = f.Now
		if before, ok := m.healthy[key]; ok {
			now[key] = before
		}
	}
	m.healthy = now
	settled := make(map[string]bool, len(f.Past))
	for _, move := range f.Past {
		settled[move.Commit] = m.settled[move.Commit] || m.reached(&move)
	}
	m.settled = settled
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
