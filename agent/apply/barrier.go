package apply

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
)

// definitionPoll is how often a new CustomResourceDefinition is looked at, less and less often: nearly always it is established
// within tens of milliseconds.
func definitionPoll() wait.DelayFunc {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 10, Cap: 2 * time.Second}.DelayFunc()
}

// ensureOwnNamespace creates the request's namespace when objects go there and the render does not bring it. It belongs to
// no service, so nothing ever deletes it.
func (p *pass) ensureOwnNamespace(ctx context.Context) {
	id := object.ID{Kind: "Namespace", Name: p.namespace}
	if p.rendered[id] || !p.creates(p.namespace) {
		return
	}
	t := target{id: id, res: kinds.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}}
	_, err := p.wire.get(ctx, t)
	if apierrors.IsNotFound(err) {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, p.namespace)
		_, _, err = p.wire.apply(ctx, t, body, applying{manager: object.Manager})
	}
	p.contact.note(err)
	if err != nil && !apierrors.IsForbidden(err) { // who may not look at namespaces may still write into them
		p.blocked[id] = describe(id, err)
	}
}

// creates says whether an object of the render is to be made in the namespace.
func (p *pass) creates(namespace string) bool {
	for i := range p.items {
		if id := p.items[i].id; id.Namespace == namespace {
			if _, there := p.seen.Get(id); !there {
				return true
			}
		}
	}
	return false
}

// closeBarrier notes which namespaces and definitions of a step failed, and waits a little for the definitions that did not.
func (p *pass) closeBarrier(ctx context.Context, outcomes []outcome) {
	var fresh []*outcome
	for i := range outcomes {
		o := &outcomes[i]
		switch {
		case !o.id.IsNamespace() && !o.id.IsDefinition():
		case o.result.Err != nil:
			p.blocked[o.id] = o.result.Err
		case o.id.IsDefinition():
			fresh = append(fresh, o)
		}
	}
	if len(fresh) == 0 || len(p.unserved()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.DefinitionWait)
	defer cancel()
	for _, o := range fresh {
		p.awaitEstablished(ctx, o)
	}
	p.awaitServed(ctx)
}

// awaitEstablished waits until the API server has accepted a definition's names. The result's health follows.
func (p *pass) awaitEstablished(ctx context.Context, o *outcome) {
	res, _ := p.catalog.Find(o.result.GVK)
	settled := func(ctx context.Context) (bool, error) {
		if o.result.Health.Phase != health.Progressing {
			return true, nil
		}
		live, err := p.wire.getWhole(ctx, target{id: o.id, res: res, account: p.req.Account})
		p.contact.note(err)
		if err != nil {
			return false, err
		}
		o.result.Health = health.Of(live)
		return o.result.Health.Phase != health.Progressing, nil
	}
	err := definitionPoll().Until(ctx, true, true, settled)
	if o.result.Health.Phase == health.Healthy {
		return
	}
	p.blocked[o.id] = &Error{
		Reason: Blocked, Object: o.id, cause: err,
		Message: fmt.Sprintf("it is not established: %s", o.result.Health.Message),
	}
}

// awaitServed waits until discovery knows the kinds that the render's definitions add, as far as the render uses them.
func (p *pass) awaitServed(ctx context.Context) {
	err := definitionPoll().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if len(p.unserved()) == 0 {
			return true, nil
		}
		catalog, err := p.kinds.Refresh(ctx)
		p.contact.note(err)
		if err != nil {
			return false, err
		}
		p.catalog = catalog
		return len(p.unserved()) == 0, nil
	})
	if err == nil {
		p.adoptServed(ctx)
		return
	}
	for _, it := range p.unserved() {
		p.blocked[it.definition] = &Error{
			Reason: Blocked, Object: it.definition, cause: err,
			Message: fmt.Sprintf("%s is not served yet", it.gvk),
		}
	}
}

// adoptServed goes by what discovery says of the kinds that are new, and watches them.
func (p *pass) adoptServed(ctx context.Context) {
	fresh := make(map[schema.GroupVersionKind]bool)
	for i := range p.items {
		it := &p.items[i]
		if it.definition == (object.ID{}) {
			continue
		}
		if res, ok := p.catalog.Exact(it.gvk); ok {
			it.res, it.definition = res, object.ID{}
			fresh[it.gvk] = true
		}
	}
	p.follow(ctx, fresh)
}

// unserved are the objects whose kind is still to come, by definitions that did not fail.
func (p *pass) unserved() []item {
	var items []item
	for _, it := range p.items {
		if it.definition != (object.ID{}) && p.blocked[it.definition] == nil && !p.catalog.Serves(it.gvk) {
			items = append(items, it)
		}
	}
	return items
}
