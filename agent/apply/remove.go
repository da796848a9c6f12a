package apply

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
	"github.com/pluralsh/plural/agent/reserved"
	"github.com/pluralsh/plural/agent/watchcache"
)

// Removal is what is known of a service that is to go.
type Removal struct {
	Service, Namespace string
	// OwnRepository is that of the service's last Request.
	OwnRepository bool
	// Objects is asked for the render that was applied last, for its hooks of removal; nil: there is none.
	Objects func(ctx context.Context) ([]*unstructured.Unstructured, error)
	// Outright takes away also what the service was to leave behind.
	Outright bool
}

// removalPrefix begins what hooks of a removal run for in place of a revision.
const removalPrefix = "removal-"

// removalRun names the removal that is under way, or a new one: a service may be asked for again, and removed again.
func removalRun(inv *inventory.Inventory) string {
	for _, hook := range inv.Hooks {
		if strings.HasPrefix(hook.Run, removalPrefix) {
			return hook.Run
		}
	}
	return removalPrefix + rand.Text()
}

// endRemoval notes that a removal that was under way is none any more. What its hooks left is still known.
func (p *pass) endRemoval() {
	for id, hook := range p.inv.Hooks {
		if strings.HasPrefix(hook.Run, removalPrefix) {
			kept := inventory.Hook{UID: hook.UID}
			if hook.State == "" {
				kept.Message = hook.Message // its proof: it may have been made all the same
			}
			p.inv.Hooks[id] = kept
		}
	}
}

// Remove deletes what a service that is gone has left behind, in reverse order, and its inventory once nothing is left
// to delete; or, when its last request said so, leaves everything and takes its label off. Protected kinds stay, and so does
// what is no longer the service's own. An object that takes time to go keeps the inventory there: Done says when nothing is
// left, and until then it is to be called again as Apply is. The result is never nil.
func (e *Engine) Remove(ctx context.Context, removal Removal) (*Result, error) {
	if err := checkService(removal.Service); err != nil {
		return &Result{}, err
	}
	r, err := e.begin(ctx, removal.Service)
	if err != nil {
		return &Result{}, unanswered(ctx, err)
	}
	defer r.release()
	result, err := e.onTop(ctx, removal.Service, r, func() (*Result, error) { return e.removeOnce(ctx, removal, r) })
	return result, unanswered(ctx, err)
}

// removeOnce is Remove on top of one state of the inventory.
func (e *Engine) removeOnce(ctx context.Context, removal Removal, r *record) (*Result, error) {
	if !r.inv.Stored() {
		return &Result{Done: true}, e.forgetService(removal.Service)
	}
	request := Request{
		Service: removal.Service, Namespace: removal.Namespace, OwnRepository: removal.OwnRepository, Revision: removalRun(r.inv),
	}
	request.Account = r.inv.Account
	p, err := e.newPass(ctx, request, r)
	if err != nil {
		return &Result{}, err
	}
	result, err := p.remove(ctx, removal)
	p.tellNotes()
	return result, err
}

func (p *pass) remove(ctx context.Context, removal Removal) (*Result, error) {
	p.removing = true
	p.inv.Orphan = p.inv.Orphan && !removal.Outright
	p.inv.Key = "" // who asks for the service again finds that something may be missing
	if err := p.save(ctx); err != nil {
		return p.result, err
	}
	if removal.Objects != nil && !p.inv.Orphan {
		objects, err := removal.Objects(ctx)
		if err != nil {
			p.note("hooks of removal do not run: %v", err)
		} else if err := p.render(ctx, hooksOf(objects)); err != nil {
			return p.result, err
		}
	}
	p.rendered, p.rejected = map[object.ID]bool{}, nil
	p.claims.set(p.req.Service, nil, p.news.add) // whoever else wants its objects takes them over
	if !p.stage(ctx, order.PreDelete) {
		return p.result, p.save(ctx)
	}
	first, last := p.parted(p.unrendered())
	if !p.removeObjects(ctx, first) || !p.stage(ctx, order.PostDelete) || !p.removeHooks(ctx) || !p.removeObjects(ctx, last) {
		return p.result, p.save(ctx)
	}
	if err := p.inventory.Remove(ctx, p.inv); err != nil {
		p.record.inv = nil
		return p.result, err
	}
	p.result.Done = true
	return p.result, p.forgetService(p.req.Service)
}

// hooksOf leaves out what is no hook: why that might not be applied is no reason to keep it.
func hooksOf(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(obj *unstructured.Unstructured) bool {
		turns, err := order.Of(obj)
		return err != nil || !slices.ContainsFunc(turns, func(t order.Turn) bool { return t.Hook })
	})
}

// forgetService drops all that is remembered of a service.
func (e *Engine) forgetService(service string) error {
	e.mu.Lock()
	delete(e.services, service)
	e.mu.Unlock()
	e.claims.drop(service, e.news.add)
	e.unwatch()
	return e.SetRules(service, nil)
}

// stage runs the hooks of one stage of a removal, wave by wave, and reports whether they have ended well.
func (p *pass) stage(ctx context.Context, stage order.Stage) bool {
	var turns []order.Item
	var items []item
	for _, it := range p.items {
		if it.turn.Stage == stage && it.turn.Hook {
			items, turns = append(items, it), append(turns, order.Item{ID: it.id, Turn: it.turn})
		}
	}
	steps, err := order.Plan(turns)
	if err != nil {
		p.note("hooks of removal do not run: %v", err)
		return true
	}
	var hooks []item
	for _, step := range steps {
		for _, i := range step.Items {
			hooks = append(hooks, items[i])
		}
	}
	p.runAgain(hooks)
	taken, unsettled := 0, ""
	for _, step := range steps {
		if unsettled == "" {
			unsettled = p.settle(p.take(ctx, hooks[taken:taken+len(step.Items)]))
			taken += len(step.Items)
		}
	}
	p.endStage(ctx, hooks)
	if failed := slices.Contains(p.hookStates(hooks), inventory.HookFailed); failed || unsettled == "" {
		p.endSync(ctx, hooks, failed)
	}
	if unsettled != "" {
		p.wait(unsettled)
	}
	return unsettled == ""
}

// removeObjects deletes all of these that may be deleted, or lets all of them stay. Only what still has to go stays in the
// inventory.
func (p *pass) removeObjects(ctx context.Context, entries []inventory.Entry) bool {
	judgements := p.judgeAll(ctx, entries)
	for i := range judgements {
		j := &judgements[i]
		stays := p.inv.Orphan || j.entry.Turn.Keep || j.entry.Turn.NoPrune
		if stays && (j.verdict == doomed || j.verdict == spared && j.seen.Owner == p.req.Service) {
			j.keep(released, "it stays when the service goes")
		}
	}
	done := p.conclude(ctx, p.deleteInTurn(ctx, judgements))
	for _, j := range judgements {
		if j.verdict == spared {
			p.forget(j.entry.ID)
		}
	}
	return done
}

// removeHooks deletes what hooks have left, and what the service's account may live by once all else of it is gone.
func (p *pass) removeHooks(ctx context.Context) bool {
	var first, last []inventory.HookID
	for id := range p.inv.Hooks {
		if p.empowers(id.ID) {
			last = append(last, id)
		} else {
			first = append(first, id)
		}
	}
	if p.removeThese(ctx, first) && p.removeThese(ctx, last) {
		return true
	}
	p.wait("what hooks have left is being deleted")
	return false
}

// removeThese deletes what some hooks have left, and says whether it is gone.
func (p *pass) removeThese(ctx context.Context, hooks []inventory.HookID) bool {
	done := true
	for _, id := range hooks {
		facts, there := p.seen.Get(id.ID)
		stays := p.inv.Orphan || id.ID.Protected() && !facts.Allowed || !reserved.Delete(p.req.Service, id.ID)
		if !there || facts.Owner != p.req.Service || stays {
			delete(p.inv.Hooks, id)
			continue
		}
		if !p.left(id.ID, facts) {
			p.note("%s stays: it has the name of a hook, and was not made by it: delete it by hand", id.ID)
			delete(p.inv.Hooks, id)
			continue
		}
		if !facts.Deleting && p.removeHook(ctx, id.ID, facts) {
			delete(p.inv.Hooks, id)
			continue
		}
		done = false
	}
	return done
}

// removeHook deletes what one hook has left, now or when the API server is to be asked again, and says whether it is gone.
func (p *pass) removeHook(ctx context.Context, id object.ID, facts watchcache.Facts) (gone bool) {
	res, ok := p.catalog.Find(id.GroupKind().WithVersion(""))
	if !ok {
		return true // no kind, no objects
	}
	gvk := id.GroupKind().WithVersion(res.Version)
	if err, left := p.record.recent(id, ""); err != nil {
		p.again(left)
		p.result.Objects = append(p.result.Objects, failed(gvk, id, err))
		return false
	}
	if err := p.dispose(ctx, target{id: id, res: res, account: p.req.Account}, facts); err != nil {
		problem := describe(id, err)
		p.again(p.record.failed(id, "", problem))
		p.result.Objects = append(p.result.Objects, failed(gvk, id, problem))
		return false
	}
	p.record.succeeded(id)
	_, there := p.seen.Get(id)
	return !there
}

// scan finds what carries a service's label, among all that the cluster serves.
func (e *Engine) scan(ctx context.Context, service string, catalog *kinds.Catalog) ([]inventory.Entry, error) {
	var entries []inventory.Entry
	for gvk, res := range catalog.All() {
		found, err := scanKind(ctx, e.brief.Resource(res.GroupVersionResource), service)
		if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
			e.options.Log.Warn("a kind is left out of the search for objects", "kind", gvk.Kind, "service", service, "error", err)
			continue // what may not be looked at was not applied from here
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for _, obj := range found {
			facts := watchcache.OfMetadata(obj)
			id := object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
			if facts.Trace != "" && facts.Run == "" && !inventory.IsInventory(id) {
				entries = append(entries, inventory.Entry{ID: id, Version: gvk.Version, UID: facts.UID, Turn: marks(obj)})
			}
		}
	}
	return entries, nil
}

// marks are those of an object's turn, as far as its annotations are understood.
func marks(obj metav1.Object) inventory.TurnMarks {
	annotations := make(map[string]any)
	for name, value := range obj.GetAnnotations() {
		annotations[name] = value
	}
	shape := map[string]any{"metadata": map[string]any{"name": obj.GetName(), "annotations": annotations}}
	turns, err := order.Of(&unstructured.Unstructured{Object: shape})
	if err != nil {
		return inventory.TurnMarks{Stage: order.Sync}
	}
	for _, turn := range turns {
		if !turn.Hook {
			return inventory.Marks(turn)
		}
	}
	return inventory.Marks(turns[0])
}

// scanPage is how many objects one list asks for.
const scanPage = 500

func scanKind(ctx context.Context, client metadata.Getter, service string) ([]metav1.Object, error) {
	var found []metav1.Object
	options := metav1.ListOptions{LabelSelector: object.ServiceLabel + "=" + service, Limit: scanPage}
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			found = append(found, &page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return found, nil
		}
	}
}
