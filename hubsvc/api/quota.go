package api

import (
	"sync"

	"github.com/pluralsh/plural/internal/person"
)

// How many requests, and streams, one person may have open, and all together.
const (
	maxRequests, maxAllRequests = 32, 512
	maxStreams, maxAllStreams   = 16, 2048
)

// quota counts what each person has open.
type quota struct {
	each, all int

	mu    sync.Mutex // guards what follows
	open  map[string]int
	total int
}

// take says whether a person may have one more; done gives it back.
func (q *quota) take(p person.Person) (done func(), ok bool) {
	name := p.Name
	if p.Operator {
		name = "\x00operator" // no user can be named so
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[name] >= q.each || q.total >= q.all {
		return nil, false
	}
	if q.open == nil {
		q.open = map[string]int{}
	}
	q.open[name]++
	q.total++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.total--
		if q.open[name]--; q.open[name] == 0 {
			delete(q.open, name)
		}
	}, true
}
