package apply

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pluralsh/plural/agent/health"
)

// definitionPoll is how often a new CustomResourceDefinition is looked at. It is established within tens of
// milliseconds, or not at all.
const definitionPoll = 50 * time.Millisecond

// ensureOwnNamespace creates the request's namespace when objects go there and the render does not bring it.
func (p *pass) ensureOwnNamespace(ctx context.Context) {
	id := ID{Kind: "Namespace", Name: p.namespace}
	if p.rendered[id] || !p.uses(p.namespace) {
		return
	}
	err := p.store.ensureNamespace(ctx, p.namespace)
	p.contact.note(err)
	if err != nil {
		p.blocked[id] = describe(id, err)
	}
}

func (p *pass) uses(namespace string) bool {
	for _, it := range p.items {
		if it.id.Namespace == namespace {
			return true
		}
	}
	return false
}

// closeBarrier notes which namespaces and definitions of a rank failed, and waits for the definitions that did not.
func (p *pass) closeBarrier(ctx context.Context, outcomes []outcome) {
	var fresh []*outcome
	for i := range outcomes {
		o := &outcomes[i]
		switch {
		case !isNamespace(o.id) && !isDefinition(o.id):
			return
		case o.result.Err != nil:
			p.blocked[o.id] = o.result.Err
		case isDefinition(o.id):
			fresh = append(fresh, o)
		}
	}
	if len(fresh) == 0 {
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
	definitions, _ := p.catalog.find(o.result.GVK)
	client := p.objects.Resource(definitions.GroupVersionResource)
	settled := func(ctx context.Context) (bool, error) {
		if o.result.Health.Phase != health.Progressing {
			return true, nil
		}
		live, err := client.Get(ctx, o.id.Name, metav1.GetOptions{})
		p.contact.note(err)
		if err != nil {
			return false, err
		}
		o.result.Health = health.Of(live)
		return o.result.Health.Phase != health.Progressing, nil
	}
	err := wait.PollUntilContextCancel(ctx, definitionPoll, true, settled)
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
	err := wait.PollUntilContextCancel(ctx, definitionPoll, true, func(ctx context.Context) (bool, error) {
		if len(p.unserved()) == 0 {
			return true, nil
		}
		catalog, err := p.kinds.refresh(ctx)
		p.contact.note(err)
		if err != nil {
			return false, err
		}
		p.catalog = catalog
		return len(p.unserved()) == 0, nil
	})
	if err == nil {
		return
	}
	for _, it := range p.unserved() {
		p.blocked[it.definition] = &Error{
			Reason: Blocked, Object: it.definition, cause: err,
			Message: fmt.Sprintf("%s is not served yet", it.gvk),
		}
	}
}

// unserved are the objects whose kind is still to come, by definitions that did not fail.
func (p *pass) unserved() []item {
	var items []item
	for _, it := range p.items {
		if it.definition != (ID{}) && p.blocked[it.definition] == nil && !p.catalog.serves(it.gvk) {
			items = append(items, it)
		}
	}
	return items
}
