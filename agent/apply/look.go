package apply

import (
	"sync"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
)

// Owned returns what the watches know of the objects whose label names the service, in a map of the caller's own. It asks
// nobody; of kinds that no pass of this process has come to yet, nothing is known.
func (e *Engine) Owned(service string) map[object.ID]watchcache.Facts { return e.seen.Owned(service) }

// Judge returns how a service's objects are judged; nil stands for the built-in rules.
func (e *Engine) Judge(service string) *health.Judge { return e.rules.judge(service) }

// Listen calls changed, from any goroutine, when the watches see that an object of the service changed, until stop is called.
// Of what the engine does itself it may not be told. It must not block.
func (e *Engine) Listen(service string, changed func()) (stop func()) {
	return e.listeners.add(service, changed)
}

// listeners are told of changes beside the one that Take serves.
type listeners struct {
	mu        sync.Mutex // guards what follows
	byService map[string]map[*func()]struct{}
}

func (l *listeners) add(service string, changed func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byService == nil {
		l.byService = map[string]map[*func()]struct{}{}
	}
	if l.byService[service] == nil {
		l.byService[service] = map[*func()]struct{}{}
	}
	l.byService[service][&changed] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.byService[service], &changed); len(l.byService[service]) == 0 {
			delete(l.byService, service)
		}
	}
}

func (l *listeners) tell(service string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for changed := range l.byService[service] {
		(*changed)()
	}
}
