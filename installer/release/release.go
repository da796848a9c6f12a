// Package release owns the release of one deployment into a cluster from a person's machine.
//
// It refuses to know how deployments are found, in which order they come, and what is remembered of them afterwards.
//
// A cluster is worked on as its own agent works on it: the same engine, the same requests, the same inventory, the same names
// for renders. An agent that begins afterwards finds all of it as it would have left it, and writes nothing. Connect asks
// nobody; the first call finds out which cluster that is and what it can do (cluster.go). Apply renders, and then does pass
// after pass until everything is applied and healthy (apply.go), Remove until nothing is left that may go (remove.go). Between
// passes they wait for the watches, not for the clock; what time alone does not mend ends them early, and the error says which
// object it is, why, and what helps (errors.go). A process that is killed in the middle leaves what the next one goes on from.
package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/health/lua"
	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/render"
)

// Options tune how a cluster is worked on. The zero value is usable.
type Options struct {
	// Auth is the public key of the cluster's agent as the fleet knows it: a cluster that is registered with another one is
	// somebody else's, and is not touched. Empty: the name alone tells.
	Auth string
	// Timeout bounds one Apply or Remove; ten minutes when zero.
	Timeout time.Duration
	// Patience is how long an API server that does not answer is waited for; a minute when zero.
	Patience time.Duration
	// Grace is how long an object is tried again that was refused for a reason which time alone is unlikely to mend; ten
	// seconds when zero.
	Grace time.Duration
	// DeferPrune lets the deletion of what renders no longer hold wait for Settle, since a later deployment may take it over.
	DeferPrune bool
	// Scripts runs the Lua of health rules; nil: a child process of this program does.
	Scripts health.Scripts
	Log     *slog.Logger
}

func (o *Options) fill() {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Minute)
	o.Patience = cmp.Or(o.Patience, time.Minute)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Cluster is one cluster that is worked on. It is safe for concurrent use; calls for one service follow each other.
type Cluster struct {
	name    string
	config  *rest.Config
	options Options
	scripts *lua.Scripts // nil when they are the caller's

	beginning sync.Mutex // held by who begins; guards engine until it is set, and away
	engine    *apply.Engine
	away      silence
	running   sync.WaitGroup
	stop      context.CancelFunc

	mu      sync.Mutex // guards what follows
	works   map[string]*serviceRelease
	applied map[string]*release
}

// serviceRelease is that on one service. Who does it holds turn; news has a value when objects of the service changed.
type serviceRelease struct{ turn, news chan struct{} }

// Connect connects to no one yet: an unreachable API server shows in the first call. The config is copied. Whoever connects
// calls Close.
func Connect(name string, config *rest.Config, o Options) (*Cluster, error) {
	o.fill()
	c := &Cluster{
		name: name, config: rest.CopyConfig(config), options: o, stop: func() {},
		works: map[string]*serviceRelease{}, applied: map[string]*release{},
	}
	if _, err := rest.HTTPClientFor(c.config); err != nil {
		return nil, fmt.Errorf("connect to cluster %s: %w", name, err)
	}
	if o.Scripts == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		c.scripts = &lua.Scripts{Command: []string{self, "health-child"}}
		c.options.Scripts = c.scripts
	}
	return c, nil
}

// Close ends the cluster's watches. It waits for no call that is under way.
func (c *Cluster) Close() {
	c.beginning.Lock()
	c.stop()
	c.beginning.Unlock()
	c.running.Wait()
	if c.scripts != nil {
		c.scripts.Close()
	}
}

// silence is that of an API server which was waited for in vain.
type silence struct {
	err  error
	till time.Time
}

// begin finds out which cluster this is, once, and starts to watch it. Who comes while somebody waits for its API server in
// vain does not wait once more.
func (c *Cluster) begin(ctx context.Context, told func(string)) error {
	came := time.Now()
	c.beginning.Lock()
	defer c.beginning.Unlock()
	switch {
	case c.engine != nil:
		return nil
	case c.away.till.After(came):
		return c.away.err
	}
	if err := c.answers(ctx, told); err != nil {
		if ctx.Err() == nil { // it was not this caller's own end
			c.away = silence{err, time.Now()}
		}
		return err
	}
	key, err := c.digestKey(ctx)
	if err != nil {
		return err
	}
	engine, err := apply.New(c.config, apply.Options{DigestKey: key, Scripts: c.options.Scripts, Log: c.options.Log})
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.engine, c.stop = engine, stop
	c.running.Go(func() { _ = engine.Run(watching) }) // it ends with its context
	c.running.Go(func() { _ = engine.FollowKinds(watching, func() {}) })
	c.running.Go(func() { c.dispatch(watching) })
	return nil
}

// answers waits until the API server does.
func (c *Cluster) answers(ctx context.Context, told func(string)) error {
	asking := rest.CopyConfig(c.config)
	asking.Timeout = cmp.Or(asking.Timeout, 10*time.Second)
	client, err := discovery.NewDiscoveryClientForConfig(asking)
	if err != nil {
		return fmt.Errorf("connect to cluster %s: %w", c.name, err)
	}
	away := outage{cluster: c, told: told}
	for {
		_, err := client.ServerVersionWithContext(ctx)
		if err == nil {
			return nil
		}
		if err := away.again(ctx, err); err != nil {
			return err
		}
	}
}

// digestKey is that of the cluster's agent, so that one knows what the other has applied. A cluster that is not registered, or
// whose registration this person may not read, has none.
func (c *Cluster) digestKey(ctx context.Context) ([]byte, error) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster %s: %w", c.name, err)
	}
	registration, err := identity.Read(ctx, client)
	if err != nil {
		c.options.Log.Debug("cluster has no registration that can be read", "cluster", c.name, "error", err)
		return nil, ctx.Err()
	}
	if registration.Cluster != c.name {
		return nil, &OtherClusterError{Cluster: c.name, Is: registration.Cluster, Hub: registration.HubURL}
	}
	if auth := registration.Identity.Public().Auth; c.options.Auth != "" && auth != c.options.Auth {
		return nil, &OtherClusterError{Cluster: c.name, Is: registration.Cluster, Hub: registration.HubURL}
	}
	return registration.DigestKey(), nil
}

// dispatch wakes whoever works on a service whose objects changed.
func (c *Cluster) dispatch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.engine.Changed():
		}
		for _, service := range c.engine.Take() {
			c.mu.Lock()
			at := c.works[service]
			c.mu.Unlock()
			if at == nil {
				continue
			}
			select {
			case at.news <- struct{}{}:
			default: // there is news already
			}
		}
	}
}

// listen has the channel sent on when objects of the service changed, once whoever else works on the service has ended.
func (c *Cluster) listen(ctx context.Context, service string) (news <-chan struct{}, end func(), err error) {
	c.mu.Lock()
	at := c.works[service]
	if at == nil {
		at = &serviceRelease{turn: make(chan struct{}, 1), news: make(chan struct{}, 1)}
		c.works[service] = at
	}
	c.mu.Unlock()
	select {
	case at.turn <- struct{}{}:
		return at.news, func() { <-at.turn }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// capable is what a cluster can do, as far as a render may ask.
type capable struct {
	version     string
	apis        []string
	fingerprint string
}

// capabilities asks the cluster. Fresh says that what was heard a moment ago is not enough.
func (c *Cluster) capabilities(ctx context.Context, fresh bool) (capable, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return capable{}, fmt.Errorf("connect to cluster %s: %w", c.name, err)
	}
	version, err := client.ServerVersionWithContext(ctx)
	if err != nil {
		return capable{}, fmt.Errorf("ask cluster %s for its version: %w", c.name, err)
	}
	kinds := c.engine.Kinds()
	if fresh {
		kinds.Forget()
	}
	catalog, err := kinds.With(ctx, nil)
	if err != nil {
		return capable{}, fmt.Errorf("ask cluster %s for its kinds: %w", c.name, err)
	}
	apis := catalog.Versions()
	return capable{version.GitVersion, apis, render.Fingerprint(version.GitVersion, apis)}, nil
}

// outage is a time without an answer of an API server.
type outage struct {
	cluster *Cluster
	told    func(string)
	since   time.Time
	last    error
}

// over says that it answered.
func (o *outage) over() { o.since, o.last = time.Time{}, nil }

// again waits before the next try, or says why there is none.
func (o *outage) again(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return o.ended(ctx)
	case refused(err):
		return &RefusedError{Cluster: o.cluster.name, Err: err}
	case o.since.IsZero():
		o.since = time.Now()
	}
	o.last = err
	elsewhere := errors.Is(err, inventory.ErrConflict) // it answers: another process was faster
	if hopeless(err) || !elsewhere && time.Since(o.since) >= o.cluster.options.Patience {
		return o.final()
	}
	o.told("trying again: " + oneLine(err.Error()))
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return o.ended(ctx)
	case <-timer.C:
		return nil
	}
}

// ended is the error when nobody waits any longer: the outage, when that is what took the time.
func (o *outage) ended(ctx context.Context) error {
	if o.last != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return o.final()
	}
	return fmt.Errorf("cluster %s: %w", o.cluster.name, context.Cause(ctx))
}

func (o *outage) final() error {
	if unanswered(o.last) {
		return &UnreachableError{Cluster: o.cluster.name, Host: o.cluster.config.Host, Err: o.last}
	}
	return fmt.Errorf("cluster %s: %w", o.cluster.name, o.last)
}
