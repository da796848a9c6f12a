package audit

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
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
	mu sync.Mutex // guards what follows
	by map[string]*refused
}

type refused struct {
	pace *rate.Limiter // of lines
	acts *rate.Limiter // that had theirs before anybody knew whether they may be
	last Record        // the newest that was left out
	out  int
}

// one is whose pace counts for a person. It is called with mu held.
func (r *refusals) one(person string) *refused {
	if _, ok := r.by[person]; !ok && len(r.by) >= maxRefused {
		person = "" // the rest are one
	}
	found := r.by[person]
	if found == nil {
		found = &refused{
			pace: rate.NewLimiter(rate.Every(refusedEach), refusedAtOnce), acts: rate.NewLimiter(rate.Every(refusedEach), refusedAtOnce),
		}
		r.by[person] = found
	}
	return found
}

// take says whether a refusal gets a line of its own. One that must have it counts apart.
func (r *refusals) take(record *Record, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	person := r.one(record.Person)
	if record.Must {
		person.acts.AllowN(now, 1)
		return true
	}
	if person.pace.AllowN(now, 1) {
		return true
	}
	person.last = *record
	person.out++
	return false
}

// due are lines for what was left out, one a person: of those whose turn it is, or of all.
func (r *refusals) due(now time.Time, all bool) []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []Record
	for name, person := range r.by {
		switch {
		case person.out > 0 && (person.pace.AllowN(now, 1) || all):
			line := person.last
			line.Cause += fmt.Sprintf(" (%d like it, refused since the line before, have none)", person.out-1)
			lines = append(lines, line)
			person.out = 0
		case person.out == 0 && person.pace.TokensAt(now) >= refusedAtOnce && person.acts.TokensAt(now) >= refusedAtOnce:
			delete(r.by, name)
		}
	}
	return lines
}

// tooOften says whether acts are refused to somebody so often that they are to wait.
func (r *refusals) tooOften(person string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.by[person]
	if found == nil && len(r.by) >= maxRefused {
		found = r.by[""]
	}
	return found != nil && found.acts.TokensAt(now) < 1
}
