package apply

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/internal/budget"
)

// Options tune an engine. The zero value is what an agent wants.
type Options struct {
	// Parallel is how many objects are in flight at once; 8 when zero.
	Parallel int
	// DefinitionWait is how long one pass waits for new CustomResourceDefinitions to be served; 30 s when zero.
	DefinitionWait time.Duration
}

// Engine applies services to one cluster. It is safe for concurrent use; two calls for the same service at once are
// refused by the inventory: one of them gets an error and may be repeated.
type Engine struct {
	objects  dynamic.Interface
	metadata metadata.Interface
	kinds    *kinds
	store    store
	order    ordering
	claims   *claims
	options  Options
}

// Request is what one service should be in the cluster.
type Request struct {
	// Service names the owner; a DNS label.
	Service string
	// Namespace takes the namespaced objects that name none; "default" when empty. It is created when it is missing.
	Namespace string
	// Objects are the complete render. They are read only.
	Objects []*unstructured.Unstructured
	// Prune lets objects be deleted that the render no longer holds.
	Prune bool
	// Budget is how many objects one pass may delete: "50%" or a count; empty means 50%. A share above zero always
	// allows ten.
	Budget string
}

// New connects to no one yet: an unreachable API server shows in the first call. The config is copied. Its rate limit
// is lifted, since the API server's own fairness does better than a limit on this side, and a request with no timeout
// gets 30 s.
func New(config *rest.Config, options Options) (*Engine, error) {
	config = tuned(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	meta, err := metadata.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	if options.Parallel <= 0 {
		options.Parallel = 8
	}
	if options.DefinitionWait <= 0 {
		options.DefinitionWait = 30 * time.Second
	}
	return &Engine{
		objects: objects, metadata: meta, kinds: &kinds{client: discover},
		store: store{objects, meta}, order: newOrdering(), claims: newClaims(), options: options,
	}, nil
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

// Apply makes the cluster hold what the request says, as far as it can in one pass, and returns what became of every
// object. What is wrong with one object is in its result. An error means that the pass could not be carried through:
// the API server did not answer, the inventory cannot be trusted, or ctx ended. Nothing was deleted then, and the next
// call picks up from wherever this one stopped. The result is never nil, and holds what is known.
func (e *Engine) Apply(ctx context.Context, req Request) (*Result, error) {
	if err := checkService(req.Service); err != nil {
		return &Result{}, err
	}
	limit, err := budget.Parse(req.Budget)
	if err != nil {
		return &Result{}, fmt.Errorf("service %q: %w", req.Service, err)
	}
	inv, err := e.store.load(ctx, req.Service)
	if err != nil {
		return &Result{}, err
	}
	if len(req.Objects) == 0 {
		return e.emptyRender(inv), nil
	}
	p, err := e.newPass(ctx, req, inv)
	if err != nil {
		return &Result{}, err
	}
	result := &Result{}
	if result.Objects, err = p.apply(ctx); err != nil {
		return result, err
	}
	if result.Complete() {
		var rest []ObjectResult
		rest, result.Held = p.prune(ctx, req.Prune, limit.AtLeast(budget.ObjectFloor))
		result.Objects = append(result.Objects, rest...)
	} else {
		result.Objects = append(result.Objects, p.postponed()...)
	}
	if result.Complete() && result.Held == "" {
		inv.settled = len(inv.entries)
	}
	return result, e.store.save(ctx, inv)
}

// emptyRender never deletes: nothing at all is what a renamed path or an emptied folder renders to.
func (e *Engine) emptyRender(inv *inventory) *Result {
	result := &Result{}
	for _, entry := range inv.sorted(e.order) {
		result.Objects = append(result.Objects, kept(entry, "the render is empty"))
	}
	if len(result.Objects) > 0 {
		result.Held = fmt.Sprintf("the render is empty, and %d objects are in the cluster: nothing is deleted: "+
			"render something, or remove the service %s to delete them", len(result.Objects), inv.service)
	}
	return result
}

// Remove deletes what a service that is gone has left behind, in reverse order, and its inventory once nothing is left
// to delete. Protected kinds stay, and so does what is no longer the service's own. An object that takes time to go
// keeps the inventory there: call again until Services no longer names the service. The result is never nil.
func (e *Engine) Remove(ctx context.Context, service string) (*Result, error) {
	if err := checkService(service); err != nil {
		return &Result{}, err
	}
	inv, err := e.store.load(ctx, service)
	if err != nil || inv.version == "" {
		return &Result{}, err
	}
	p, err := e.newPass(ctx, Request{Service: service}, inv)
	if err != nil {
		return &Result{}, err
	}
	result := &Result{Objects: p.removeAll(ctx)}
	if len(inv.entries) > 0 {
		return result, e.store.save(ctx, inv)
	}
	return result, e.store.remove(ctx, inv)
}

// Services returns, sorted, the services that have an inventory in the cluster.
func (e *Engine) Services(ctx context.Context) ([]string, error) {
	return e.store.services(ctx)
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
