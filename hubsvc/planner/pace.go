package planner

import (
	"fmt"
	"sync"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Pace is when the planner's turns began and ended. It is safe for concurrent use.
type Pace struct {
	mu    sync.Mutex // guards what follows
	began time.Time
	ended time.Time // before began while a turn is under way
}

// Begin notes that a turn begins.
func (p *Pace) Begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = now
}

// End notes that a turn has ended.
func (p *Pace) End(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = now
}

// Busy is how long the turn under way has taken, 0 without one, and when the last one ended.
func (p *Pace) Busy(now time.Time) (busy time.Duration, ended time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.After(p.ended) {
		busy = now.Sub(p.began)
	}
	return busy, p.ended
}

// stuckAfter is longer than a turn takes that keeps its deadlines: it judges one commit, and makes up to three plans.
const stuckAfter = 4*planTimeout + time.Minute

// State is what the header v1.PlannerHeader says.
func (p *Pace) State(now time.Time) string {
	if busy, _ := p.Busy(now); busy > stuckAfter {
		return v1.PlannerStuck
	}
	return v1.PlannerWell
}

// Say is a line for whoever watches.
func (p *Pace) Say(now time.Time) string {
	busy, ended := p.Busy(now)
	switch {
	case busy > stuckAfter:
		return fmt.Sprintf("the planner is stuck: it has been at one turn for %s, and what is served stays as it was",
			busy.Round(time.Second))
	case busy > 0:
		return fmt.Sprintf("the planner has been at it for %s", busy.Round(time.Millisecond))
	case ended.IsZero():
		return "the planner has not begun"
	}
	return fmt.Sprintf("the planner last ended a turn %s ago", now.Sub(ended).Round(time.Second))
}
