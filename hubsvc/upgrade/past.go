package upgrade

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
)

// Move is a commit that moved installations.
type Move struct {
	Commit  string
	Time    time.Time
	Changes []Change
	// Reverts is the commit that it takes back; empty: none.
	Reverts string
	// Why is why it was taken back.
	Why string
}

// The trailers of the hub's commits, behind those that say what moves.
const (
	byTrailer      = "Plural-By: "
	hub            = "hub"
	revertsTrailer = "Plural-Reverts: "
	arrow          = " -> "
)

// Signed is the message of a commit that carries an action out, as the hub's own.
func Signed(message string) string {
	return strings.TrimRight(message, "\n") + "\n" + byTrailer + hub + "\n"
}

// Message is that of a commit that takes a move back.
func (a *Action) Message() string {
	var b strings.Builder
	names := make([]string, len(a.Changes))
	for i, c := range a.Changes {
		names[i] = c.Installation + " " + c.From
	}
	b.WriteString("Take back " + strings.Join(names, ", ") + "\n\n")
	b.WriteString(harmless(a.Why) + ".\n\n")
	for _, c := range a.Changes {
		b.WriteString(pkgupgrade.Trailer + c.Installation + " " + c.From + arrow + c.To + "\n")
	}
	return Signed(b.String() + revertsTrailer + a.Revert)
}

// maxWhy bounds what a commit repeats of an agent's words, in bytes.
const maxWhy = 500

// harmless is a stranger's text on one line, without what steers a terminal or turns the direction of text, and without the signs
// by which git hosts and what runs behind them take orders: [skip ci], #1, @everybody.
func harmless(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), strings.ContainsRune("[]#@<>", r):
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxWhy {
		text = strings.ToValidUTF8(text[:maxWhy], "") + "..."
	}
	return text
}

// Past reads a commit's message. It says false for one by which the hub has not moved anything: what people do, people take back.
func Past(commit, message string, at time.Time) (Move, bool) {
	m := Move{Commit: commit, Time: at}
	paragraphs := strings.Split(strings.TrimSpace(message), "\n\n")
	own := false
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key + ": " {
		case byTrailer:
			own = value == hub
		case revertsTrailer:
			m.Reverts = value
		case pkgupgrade.Trailer:
			from, to, ok := strings.Cut(value, arrow)
			name, from, named := strings.Cut(from, " ")
			if ok && named && name != "" && from != "" && to != "" && !strings.Contains(from+to, " ") {
				m.Changes = append(m.Changes, Change{Installation: name, From: from, To: to})
			}
		}
	}
	if m.Reverts != "" && len(paragraphs) > 2 {
		m.Why = strings.TrimSuffix(strings.Join(strings.Fields(paragraphs[1]), " "), ".")
	}
	return m, own && len(m.Changes) > 0
}

// lookBack judges what the last moves led to.
func (d *decision) lookBack() {
	seen := map[string]bool{}
	for i := range d.Past {
		m := &d.Past[i]
		var last []*installationState
		for _, c := range m.Changes {
			s := d.by[c.Installation]
			if s == nil || seen[c.Installation] {
				continue
			}
			seen[c.Installation] = true
			if s.entry.Version == c.To {
				at := m.Time.UTC()
				s.out.From, s.out.Commit, s.out.Since = c.From, m.Commit, &at
				last = append(last, s)
			}
		}
		switch {
		case len(last) == 0:
		case m.Reverts != "":
			for _, s := range last {
				s.reverted = &v1.UpgradeReason{
					Code: v1.ReasonReverted, Version: s.out.From, Message: s.out.From + " was taken back: " + m.Why,
					Fix: "once it is mended: plural package upgrade " + s.name() + " --to " + s.out.From,
				}
			}
		case len(last) == len(m.Changes):
			d.checkMove(m, last)
		}
	}
}

// checkMove says how far a move got that is the last of all its installations, and whether it is taken back. One that was healthy
// once is not: what happens later is not its doing. One that ended long before this process began to look is not known to have
// been.
func (d *decision) checkMove(m *Move, of []*installationState) {
	deadline := time.Duration(0)
	for _, s := range of {
		deadline = max(deadline, s.Spec.Upgrade.DeadlineTime())
	}
	if d.Memory.settled[m.Commit] || m.Time.Add(2*deadline).Before(d.Memory.since) {
		return
	}
	begun := m.Time
	if begun.Before(d.Memory.since) {
		begun = d.Memory.since
	}
	end, why := begun.Add(deadline), ""
	for _, s := range of {
		bad := unhealthy(d.Cells(s.name()))
		if bad == nil {
			continue
		}
		s.rolling, s.out.State = true, v1.UpgradeRolling
		not := fmt.Sprintf("%s %s is not healthy on %s yet: %s", s.name(), s.entry.Version, bad.Cluster, bad.said())
		r := s.because(v1.ReasonRolling, not, "")
		r.Installation, r.Version, r.Service, r.Cluster, r.Until = s.name(), s.entry.Version, bad.Service, bad.Cluster, &end
		switch {
		case bad.Quarantined:
			why = fmt.Sprintf("%s %s failed a test on %s: %s", s.name(), s.entry.Version, bad.Cluster, bad.said())
		case why == "" && !d.Now.Before(end):
			why = fmt.Sprintf("%s %s was not healthy on %s within %s: %s", s.name(), s.entry.Version, bad.Cluster, deadline, bad.said())
		}
	}
	if why == "" {
		return
	}
	if d.Closed != nil {
		for _, s := range of {
			s.out.Reasons = append(s.out.Reasons, *d.Closed)
		}
		return
	}
	revert := Action{Revert: m.Commit, Why: why}
	for _, c := range m.Changes {
		revert.Changes = append(revert.Changes, Change{Installation: c.Installation, From: c.To, To: c.From})
	}
	if reason, failed := d.Failed[revert.Key()]; failed {
		for _, s := range of {
			s.out.State, s.out.Reasons = v1.UpgradeBlocked, append([]v1.UpgradeReason{reason}, s.out.Reasons...)
		}
		return
	}
	d.actions = append(d.actions, revert)
}

// unhealthy is a cell that is not healthy, one that failed its tests before all others; nil when all are healthy.
func unhealthy(cells []Cell) *Cell {
	var bad *Cell
	for i := range cells {
		c := &cells[i]
		if c.Phase != v1.Healthy && (bad == nil || c.Quarantined && !bad.Quarantined) {
			bad = c
		}
	}
	return bad
}

// said is why a cell is not healthy.
func (c *Cell) said() string {
	if c.Message != "" {
		return c.Service + " is " + string(c.Phase) + ": " + c.Message
	}
	return c.Service + " is " + string(c.Phase)
}
