package tunnel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// minBackoff and maxBackoff bound the wait after a connection that could not be had. It is random from nothing up, so
	// that a fleet does not come back all at once.
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	// maxDuplicate bounds it where a load balancer leads to the replica that has the other connection: that may not change.
	// The first ones are tried again soon: it takes a few to meet each replica.
	maxDuplicate = 5 * time.Minute
	duplicates   = 4
	// settled is how long a connection has to last to be counted a success.
	settled = 10 * time.Second
	// drainTries is how often a connection elsewhere is tried when the hub asks for one, before the agent gives up.
	drainTries = 3
	// defaultAge is how old a connection gets when the hub does not say, and maxJitter the share of it that is random.
	defaultAge = time.Hour
	maxJitter  = 0.1
	// maxSpread bounds how long a hint may wait, whatever the hub says.
	maxSpread = 5 * time.Second
)

// agent is what Run keeps.
type agent struct {
	Options
	dialer   *dialer
	sessions sync.WaitGroup
	hinted   chan struct{}

	mu       sync.Mutex  // guards what follows
	slots    [2]*session // those that were not asked to end
	replicas int32       // of the hub, as it said last
	moved    chan struct{}
	changed  *tunnelapi.Changed // what was hinted last, until it was passed on
	complain string             // what was logged last of what goes wrong
}

func newAgent(o Options, d *dialer) *agent {
	return &agent{Options: o, dialer: d, replicas: 1, moved: make(chan struct{}), hinted: make(chan struct{}, 1)}
}

func (a *agent) hello() *tunnelapi.Hello {
	hello := a.Hello()
	if hello.GetMaxProtocol() == 0 {
		spoken := tunnelapi.Spoken()
		hello.MinProtocol, hello.MaxProtocol = spoken.Min, spoken.Max
	}
	return hello
}

// keep keeps one of the two connections until ctx ends.
func (a *agent) keep(ctx context.Context, slot int) {
	var pause backoff
	for a.wanted(ctx, slot) {
		s, err := a.connect(ctx, slot)
		if err != nil {
			a.failed(err)
			pause.wait(ctx, err, nil)
			continue
		}
		began := time.Now()
		for s != nil {
			s = a.hold(ctx, slot, s)
		}
		if time.Since(began) >= settled {
			pause = backoff{}
		}
		pause.wait(ctx, nil, nil)
	}
}

// wanted waits until the connection is to be had, and says false when ctx ends before.
func (a *agent) wanted(ctx context.Context, slot int) bool {
	for ctx.Err() == nil {
		a.mu.Lock()
		ok, moved := slot == 0 || a.replicas > 1, a.moved
		a.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-ctx.Done():
		case <-moved:
		}
	}
	return false
}

// errDuplicate says that both connections would be to one replica.
var errDuplicate = errors.New("the other connection is to this replica already")

// connect gets a connection that is not to the replica of the other one, and puts it in its slot.
func (a *agent) connect(ctx context.Context, slot int) (*session, error) {
	conn, err := a.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	by, s := conn.by, a.start(ctx, conn)
	err = s.hear(ctx)
	var refused *refusedError
	if ctx.Err() == nil {
		a.dialer.heard(by, err == nil || errors.As(err, &refused))
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("%s: %w", by, err)
	}
	if !a.put(slot, s) {
		s.leave() // not at once: the hub may have sent something over it already
		return nil, errDuplicate
	}
	a.Log.Info("connected to the hub", "hub", s.greeting.GetHub(), "connection", s.greeting.GetConnection(), "transport", by)
	return s, nil
}

// put makes a session that of its slot, and says false when the other slot has one to the same replica.
func (a *agent) put(slot int, s *session) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other := a.slots[1-slot]; other != nil && other.greeting.GetHub() == s.greeting.GetHub() {
		return false
	}
	a.slots[slot], a.replicas, a.complain = s, s.greeting.GetReplicas(), ""
	a.stir()
	return true
}

// drop takes a session out of its slot, if it is still there.
func (a *agent) drop(slot int, s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slots[slot] == s {
		a.slots[slot] = nil
		a.stir()
	}
}

// stir wakes who waits for the slots to change. The caller holds mu.
func (a *agent) stir() {
	close(a.moved)
	a.moved = make(chan struct{})
}

// hold waits until the connection has ended, or is to be replaced, and replaces it. It returns the one that replaces it; nil
// when there is none.
func (a *agent) hold(ctx context.Context, slot int, s *session) *session {
	age := time.NewTimer(lifetime(s.greeting))
	defer age.Stop()
	tries := 0 // without a bound for one that is old
	select {
	case <-s.ended:
		a.drop(slot, s)
		a.Log.Info("connection to the hub ended", "hub", s.greeting.GetHub(), "connection", s.greeting.GetConnection())
		return nil
	case <-s.drain:
		tries = drainTries
	case <-age.C:
	}
	next := a.replace(ctx, slot, s, tries)
	if next == nil {
		a.drop(slot, s)
	}
	s.leave()
	return next
}

// lifetime is how old a connection may get: a tenth more or less than the hub says, so that a fleet that connected at once
// does not come back at once.
func lifetime(w *tunnelapi.Welcome) time.Duration {
	age := time.Duration(w.GetMaxAgeMs()) * time.Millisecond
	if age <= 0 {
		age = defaultAge
	}
	return time.Duration(float64(age) * (1 + maxJitter*(2*rand.Float64()-1)))
}

// replace gets a connection before the one that there is ends. It gives up after so many tries, zero meaning never, and when
// that one has ended.
func (a *agent) replace(ctx context.Context, slot int, s *session, tries int) *session {
	var pause backoff
	for try := 1; ctx.Err() == nil; try++ {
		next, err := a.connect(ctx, slot)
		if err == nil {
			return next
		}
		a.Log.Debug("connection to the hub is not replaced yet", "error", err)
		select {
		case <-s.ended:
			return nil
		case <-s.drain:
			if tries == 0 {
				try, tries = 0, drainTries
			}
		default:
		}
		if try == tries {
			return nil
		}
		pause.wait(ctx, err, s.ended)
	}
	return nil
}

// backoff is the wait between two tries. The zero value is that after the first.
type backoff struct{ failures int }

// wait waits after a try; a nil error is that of a connection that was there, and ended.
func (b *backoff) wait(ctx context.Context, err error, ended <-chan struct{}) {
	most := min(minBackoff<<min(b.failures, 20), maxBackoff)
	if errors.Is(err, errDuplicate) {
		most = min(minBackoff/2<<min(max(b.failures-duplicates, 0), 20), maxDuplicate)
	}
	b.failures++
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-ended:
	case <-timer.C:
	}
}

// failed says once what is wrong while there is no connection at all.
func (a *agent) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slots != [2]*session{} || a.complain == err.Error() {
		a.Log.Debug("no further connection to the hub", "error", err)
		return
	}
	a.complain = err.Error()
	a.Log.Warn("no connection to the hub; what is deployed is not affected, but nobody reaches the cluster through the hub", "error", err)
}

// hint remembers what the hub hinted last.
func (a *agent) hint(changed *tunnelapi.Changed) {
	a.mu.Lock()
	a.changed = changed
	a.mu.Unlock()
	select {
	case a.hinted <- struct{}{}:
	default:
	}
}

// passHints calls Changed, some time after the hub's hint: the hub has many agents.
func (a *agent) passHints(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.hinted:
		}
		a.mu.Lock()
		spread := time.Duration(a.changed.GetSpreadMs()) * time.Millisecond
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(max(1, min(spread, maxSpread)))):
		}
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if a.Changed != nil {
			a.Changed(changed.GetEdition())
		}
	}
}

// passEvents sends what happened to the hub.
func (a *agent) passEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-a.Events:
			if !ok {
				return
			}
			for a.talks(ctx) && !a.tell(event) {
			}
		}
	}
}

// talks waits for a connection, and says false when ctx ends before.
func (a *agent) talks(ctx context.Context) bool {
	for ctx.Err() == nil {
		a.mu.Lock()
		ok, moved := a.slots != [2]*session{}, a.moved
		a.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-ctx.Done():
		case <-moved:
		}
	}
	return false
}

// tell sends an event over the first connection that takes it. One that does not has ended.
func (a *agent) tell(event *tunnelapi.Event) bool {
	a.mu.Lock()
	slots := a.slots
	a.mu.Unlock()
	for slot, s := range slots {
		if s == nil {
			continue
		}
		if s.say(&tunnelapi.AgentMessage{Event: event}) == nil {
			return true
		}
		a.drop(slot, s)
	}
	return false
}
