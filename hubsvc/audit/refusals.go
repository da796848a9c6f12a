package audit

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pluralsh/plural/internal/principal"
)

// Whoever is refused asks as often as they like, and nothing else bounds it: what they may do nothing with would push the
// records of everybody else out of the log.
const (
	refusedAtOnce = 30
	refusedEach   = 10 * time.Second
	// maxRefused bounds the people who are looked at one by one.
	maxRefused = 1000
)

// refusals are whose requests were refused lately.
type refusals struct {
	mu sync.Mutex          // guards what follows
	by map[string]*refused // by [principal.Person.Key]
}

type refused struct {
	pace *rate.Limiter // of lines
	acts *rate.Limiter // that had theirs before anybody knew whether they may be
	last Record        // the newest that was left out
	out  int
}

// one is whose pace counts for a person. It is called with mu held.
func (r *refusals) one(key string) *refused {
	if _, ok := r.by[key]; !ok && len(r.by) >= maxRefused {
		key = "" // the rest are one
	}
	found := r.by[key]
	if found == nil {
		found = &refused{
			pace: rate.NewLimiter(rate.Every(refusedEach), refusedAtOnce), acts: rate.NewLimiter(rate.Every(refusedEach), refusedAtOnce),
		}
		r.by[key] = found
	}
	return found
}

// take says whether a refusal gets a line of its own. One that must have it counts apart.
func (r *refusals) take(record *Record, now time.Time) bool {
	who := principal.Person{Name: record.Person, Operator: record.Operator}
	r.mu.Lock()
	defer r.mu.Unlock()
	by := r.one(who.Key())
	if record.Must {
		by.acts.AllowN(now, 1)
		return true
	}
	if by.pace.AllowN(now, 1) {
		return true
	}
	by.last = *record
	by.out++
	return false
}

// due are lines for what was left out, one a person: of those whose turn it is, or of all.
func (r *refusals) due(now time.Time, all bool) []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []Record
	for key, by := range r.by {
		switch {
		case by.out > 0 && (by.pace.AllowN(now, 1) || all):
			line := by.last
			line.Cause += fmt.Sprintf(" (%d like it, refused since the line before, have none)", by.out-1)
			lines = append(lines, line)
			by.out = 0
		case by.out == 0 && by.pace.TokensAt(now) >= refusedAtOnce && by.acts.TokensAt(now) >= refusedAtOnce:
			delete(r.by, key)
		}
	}
	return lines
}

// tooOften says whether acts are refused to somebody so often that they are to wait.
func (r *refusals) tooOften(key string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.by[key]
	if found == nil && len(r.by) >= maxRefused {
		found = r.by[""]
	}
	return found != nil && found.acts.TokensAt(now) < 1
}
