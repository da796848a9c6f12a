package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// ensureNamespaces creates the namespaces that objects of the render go into and that the render does not bring: the request's
// own, and those that manifests name. They belong to no service, so nothing ever deletes them.
func (p *pass) ensureNamespaces(ctx context.Context) {
	for _, name := range p.newcomers() {
		id := object.ID{Kind: "Namespace", Name: name}
		if p.rendered[id] || p.hooks[id] {
			continue
		}
		err := p.ensureNamespace(ctx, id)
		p.contact.note(err)
		if err != nil && !apierrors.IsForbidden(err) { // who may not look at namespaces may still write into them
			p.blocked[id] = describe(id, err)
		}
	}
}

func (p *pass) ensureNamespace(ctx context.Context, id object.ID) error {
	t := target{id: id, res: kinds.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}}
	if id.Name != p.namespace { // the service's file names its own; what manifests name, its account has to have the right to make
		t.account = p.req.Account
	}
	_, err := p.wire.get(ctx, t)
	if apierrors.IsNotFound(err) {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, id.Name)
		_, _, err = p.wire.apply(ctx, t, body, applying{manager: object.Manager})
	}
	return err
}

// newcomers are, sorted, the namespaces in which an object of the render is to be made.
func (p *pass) newcomers() []string {
	names := map[string]bool{}
	for i := range p.items {
		if id := p.items[i].id; id.Namespace != "" && !names[id.Namespace] {
			if _, there := p.seen.Get(id); !there {
				names[id.Namespace] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
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
