package apply

import (
	"sync"

	"github.com/pluralsh/plural/agent/object"
)

// claims knows which service wants which object, as far as their renders are known. It keeps two services from taking the
// same new object at the same moment, and an object from being deleted that moves from one service to another.
type claims struct {
	mu    sync.Mutex // guards what follows
	wants map[string]map[object.ID]bool
	// turns are of objects that somebody is taking at this moment.
	turns map[object.ID]*objectLock
	// waiting are the services that wait for what becomes of an object.
	waiting map[object.ID]map[string]bool
}

// objectLock lets one after another take an object.
type objectLock struct {
	sync.Mutex
	users int // who hold it or wait for it; the claims' mutex guards it
}

func newClaims() *claims {
	return &claims{
		wants: make(map[string]map[object.ID]bool), turns: make(map[object.ID]*objectLock), waiting: make(map[object.ID]map[string]bool),
	}
}

// hold waits until nobody else takes the object, and returns what lets others.
func (c *claims) hold(id object.ID) func() {
	c.mu.Lock()
	t := c.turns[id]
	if t == nil {
		t = new(objectLock)
		c.turns[id] = t
	}
	t.users++
	c.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(c.turns, id)
		}
	}
}

// set says what a service wants, and names those that waited for what it gives up. The ids are not changed afterwards.
func (c *claims) set(service string, ids map[object.ID]bool, name func(service string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.wants[service] {
		if !ids[id] {
			c.release(id, name)
		}
	}
	c.wants[service] = ids
}

// drop forgets a service that is gone.
func (c *claims) drop(service string, name func(service string)) {
	c.set(service, nil, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wants, service)
}

// known says whether it is known what the service wants.
func (c *claims) known(service string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.wants[service]
	return ok
}

// by says whether a service wants an object.
func (c *claims) by(service string, id object.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wants[service][id]
}

// other is a service besides the one given that wants the object, or nothing.
func (c *claims) other(service string, id object.ID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, ids := range c.wants {
		if name != service && ids[id] {
			return name
		}
	}
	return ""
}

// await notes that a service waits for another one to give an object up, or to take it.
func (c *claims) await(service string, id object.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] == nil {
		c.waiting[id] = make(map[string]bool)
	}
	c.waiting[id][service] = true
}

// wake names those that wait for the object.
func (c *claims) wake(id object.ID, name func(service string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(id, name)
}

func (c *claims) release(id object.ID, name func(service string)) {
	for service := range c.waiting[id] {
		name(service)
	}
	delete(c.waiting, id)
}
