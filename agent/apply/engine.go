package apply

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
)

// Options tune an engine. The zero value is what an agent wants, but for DigestKey.
type Options struct {
	// Parallel is how many requests of all services are in flight at once; 8 when zero.
	Parallel int
	// Rate is how many requests a second all services may send; 500 when zero.
	Rate float64
	// DefinitionWait is how long one pass waits for new CustomResourceDefinitions to be served; 30 s when zero.
	DefinitionWait time.Duration
	// DigestKey is mixed into the digests of manifests that inventories hold, since a manifest may be a secret that can be
	// guessed. Empty: digests of another process are not recognized, so that each applies everything once.
	DigestKey []byte
	// Scripts runs the Lua of health rules; nil: there is none.
	Scripts health.Scripts
	Log     *slog.Logger
}

// Engine applies services to one cluster. It is safe for concurrent use; calls for one service follow each other.
type Engine struct {
	wire      *wire
	kinds     *kinds.Kinds
	seen      *watchcache.Observer
	inventory *inventory.Store
	metadata  metadata.Interface // for watches
	brief     metadata.Interface // for requests that end
	claims    *claims
	options   Options
	news      news
	listeners listeners
	rules     rules
	recall    inventoryCache
	outage    outage

	mu       sync.Mutex // guards what follows
	services map[string]*record
}

// Policies are what may be decided for each service apart from its objects. The zero value is the usual.
type Policies struct {
	// Conflicts says what is done about fields that another manager owns: Own, Yield or Fail. Empty is Own, except for what
	// an autoscaler has set, which is yielded.
	Conflicts Policy
	// Fields are policies of single fields; the first that fits counts.
	Fields []FieldRule
	// Recreate lists the kinds of which an object may be deleted and made anew when a change is refused as immutable.
	Recreate []string
	// Account is the service account that the objects are applied and deleted as, NAMESPACE/NAME; empty: the engine's own.
	Account string
	// Namespaces are the only ones that may hold objects; empty: any.
	Namespaces []string
	// Orphan leaves the objects in the cluster when the service is removed.
	Orphan bool
}

// Request is what one service should be in the cluster.
type Request struct {
	// Service names the owner; a DNS label.
	Service string
	// Namespace takes the namespaced objects that name none; "default" when empty. It is created when it is missing.
	Namespace string
	// Key names the render: the same key, the same objects.
	Key string
	// Revision names what hooks run for, once; empty: the key. Renders of one revision may differ with what the cluster serves.
	Revision string
	// Objects is asked for the complete render when something has to be applied. What it gives is read only.
	Objects func(ctx context.Context) ([]*unstructured.Unstructured, error)
	// OwnRepository says that the render is made of the installation repo's own files: only of those may the packages of the agent
	// and the hub be.
	OwnRepository bool
	// ShowTaken has Diff show what moves here from another service, to whoever may read the cluster's objects anyway.
	ShowTaken bool
	// Heal lets objects be applied again that others changed since.
	Heal bool
	// Prune lets objects be deleted that the render no longer holds.
	Prune bool
	// DeferPrune lets deletions wait for a later call: another service may be about to claim the objects.
	DeferPrune bool
	// Budget is how many objects one pass may delete: "50%" or a count; empty means 50%. A share above zero always
	// allows ten.
	Budget string
	// Acknowledged are the tokens of deletions that a person agreed to.
	Acknowledged []string
	Policies
}

// New connects to no one yet: an unreachable API server shows in the first call. The config is copied. Its rate limit
// is lifted in favour of the options', and a request with no timeout gets 30 s.
func New(config *rest.Config, options Options) (*Engine, error) {
	options.fill()
	config = tuned(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	watching := rest.CopyConfig(config)
	watching.Timeout = 0 // a watch has no end of its own
	e := &Engine{claims: newClaims(), options: options, news: newNews(), services: make(map[string]*record)}
	e.outage.changed = e.wakeAll
	watching.Wrap(e.outage.over)
	watcher, err := rest.HTTPClientFor(watching)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	objects, errObjects := dynamic.NewForConfigAndClient(watching, watcher)
	meta, errMetadata := metadata.NewForConfigAndClient(watching, watcher)
	brief, errBrief := dynamic.NewForConfigAndClient(config, client)
	briefMeta, errBriefMeta := metadata.NewForConfigAndClient(config, client)
	discover, errDiscover := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	wire, errWire := newWire(config, client, options)
	if err := errors.Join(errObjects, errMetadata, errBrief, errBriefMeta, errDiscover, errWire); err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	e.wire, e.kinds, e.inventory, e.metadata, e.brief = wire, kinds.New(discover), inventory.NewStore(brief, briefMeta), meta, briefMeta
	e.rules.scripts = options.Scripts
	e.seen = watchcache.New(watchcache.Options{
		Objects: objects, Metadata: meta, Judge: e.rules.judge, Ruled: e.rules.ruled, Changed: e.observed, Log: options.Log,
	})
	return e, nil
}

func (o *Options) fill() {
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	if o.Rate <= 0 {
		o.Rate = 500
	}
	if o.DefinitionWait <= 0 {
		o.DefinitionWait = 30 * time.Second
	}
	if len(o.DigestKey) == 0 {
		o.DigestKey = []byte(rand.Text())
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func tuned(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.RateLimiter = nil
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandler = rest.NoWarnings{}
	}
	return config
}

// Run keeps the watches that every other call lives on, until ctx ends.
func (e *Engine) Run(ctx context.Context) error { return e.seen.Run(ctx) }

// Kinds is what the cluster serves.
func (e *Engine) Kinds() *kinds.Kinds { return e.kinds }

// FollowKinds calls changed whenever the cluster serves other API versions, until ctx ends. Services that wait for a kind are
// named as changed.
func (e *Engine) FollowKinds(ctx context.Context, changed func()) error {
	return e.kinds.Follow(ctx, e.metadata, func() {
		e.wakeFailing()
		changed()
	})
}

// Changed is sent on when a service's objects changed, or the API server went away or came back. Take says which.
func (e *Engine) Changed() <-chan struct{} { return e.news.signal }

// Take returns the services whose objects changed since the last call.
func (e *Engine) Take() []string { return e.news.take() }

// observed is told of each change by the watches.
func (e *Engine) observed(service string, id object.ID) {
	e.claims.wake(id, e.news.add)
	e.listeners.tell(service)
	if facts, there := e.seen.Get(id); there && facts.Run != "" {
		e.mu.Lock()
		r := e.services[service]
		e.mu.Unlock()
		if r != nil {
			r.remember(id, facts)
		}
	}
	e.news.add(service)
}

// wakeFailing names every service with an object that could not be applied: what kept it may be gone.
func (e *Engine) wakeFailing() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, r := range e.services {
		if r.failing.Load() {
			e.news.add(name)
		}
	}
}

// wakeAll names every service: what is known of the API server is no longer so.
func (e *Engine) wakeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.services {
		e.news.add(name)
	}
}

// Services returns, sorted, the services that have an inventory in the cluster.
func (e *Engine) Services(ctx context.Context) ([]string, error) {
	if err := e.recallAll(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for name, r := range e.services {
		if r.stored.Load() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// each calls do for 0 to n-1, as many at a time as the options allow, and returns when all are done.
func (e *Engine) each(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(e.options.Parallel)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // none returns an error
}

func checkService(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("service name %q: %s", name, strings.Join(problems, ", "))
	}
	return nil
}

// news collects the services whose objects changed.
type news struct {
	signal chan struct{}
	set    *syncSet
}

// syncSet is a set of names.
type syncSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func newNews() news {
	return news{signal: make(chan struct{}, 1), set: &syncSet{names: make(map[string]bool)}}
}

// add never blocks.
func (n news) add(service string) {
	n.set.mu.Lock()
	n.set.names[service] = true
	n.set.mu.Unlock()
	select {
	case n.signal <- struct{}{}:
	default:
	}
}

func (n news) take() []string {
	n.set.mu.Lock()
	defer n.set.mu.Unlock()
	names := make([]string, 0, len(n.set.names))
	for name := range n.set.names {
		names = append(names, name)
	}
	clear(n.set.names)
	return names
}
