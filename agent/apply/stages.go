package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

// stages takes the render's steps one after another, as far as each may follow the one before.
func (p *pass) stages(ctx context.Context) {
	turns := make([]order.Item, len(p.items))
	for i := range p.items {
		turns[i] = order.Item{ID: p.items[i].id, Turn: p.items[i].turn}
	}
	steps, err := order.Plan(turns)
	if err != nil {
		for i := range p.items {
			p.reject(p.items[i], Invalid, err.Error(), "")
		}
		return
	}
	gate, unsettled := "", "" // why the next step has to wait, and what is not there yet
	for i, step := range steps {
		items := p.due(step)
		switch {
		case len(items) == 0:
		case gate != "":
			p.postpone(items, gate)
		default:
			outcomes := p.take(ctx, items)
			p.closeBarrier(ctx, outcomes)
			unsettled = cmp.Or(unsettled, p.settle(outcomes))
			if step.AwaitHealth && !p.healing() {
				gate = unsettled
				p.result.Waiting = cmp.Or(gate, p.result.Waiting)
			}
		}
		if i+1 == len(steps) || steps[i+1].Stage != step.Stage {
			p.endStage(ctx, p.dueHooks(steps, step.Stage))
		}
	}
	if p.failedHook() || p.refused() {
		p.syncFail(ctx, steps)
		p.endSync(ctx, p.syncHooks(), true)
	}
}

// syncHooks are the hooks of all stages of a sync, unless they have run before.
func (p *pass) syncHooks() []item {
	if p.known() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.items), func(it item) bool { return !it.turn.Hook || it.turn.Stage > order.SyncFail })
}

// dueHooks are the hooks of a stage that this pass has to do with, in their order.
func (p *pass) dueHooks(steps []order.Step, stage order.Stage) []item {
	var hooks []item
	for _, step := range steps {
		if step.Stage == stage {
			hooks = append(hooks, slices.DeleteFunc(p.due(step), func(it item) bool { return !it.turn.Hook })...)
		}
	}
	return hooks
}

// due are the items of a step that this pass has to do with: hooks run for a new revision, never to heal.
func (p *pass) due(step order.Step) []item {
	if step.Stage > order.PostSync {
		return nil
	}
	known := p.known()
	var items []item
	for _, i := range step.Items {
		if !p.items[i].turn.Hook || !known {
			items = append(items, p.items[i])
		}
	}
	return items
}

// healing says whether all of the request was done before.
func (p *pass) healing() bool { return p.inv.Key == p.state }

// known says whether the hooks of the revision have run.
func (p *pass) known() bool { return p.inv.Key != "" && p.inv.Revision == p.revision() }

// take does what one step asks for, several items at a time.
func (p *pass) take(ctx context.Context, items []item) []outcome {
	outcomes := make([]outcome, len(items))
	p.each(len(items), func(i int) {
		if items[i].turn.Hook {
			outcomes[i] = p.runHook(ctx, items[i])
		} else {
			outcomes[i] = p.applyOne(ctx, items[i])
		}
	})
	return outcomes
}

// settle notes what became of a step's items, and returns what keeps them from being settled, or nothing.
func (p *pass) settle(outcomes []outcome) (unsettled string) {
	for i := range outcomes {
		o := &outcomes[i]
		if o.entry != nil {
			p.inv.Entries[o.id] = *o.entry
		}
		if o.hook != nil {
			p.inv.Hooks[o.hookID] = *o.hook
		}
		if o.id.IsDefinition() && o.result.Action != Unchanged {
			p.kinds.Forget() // it may serve other versions now
		}
		p.result.Objects = append(p.result.Objects, o.result)
		if o.healthy() {
			p.settled[o.id] = true
			continue
		}
		unsettled = cmp.Or(unsettled, o.unsettled())
		if o.result.Hook { // which is waited for also when nothing follows it
			p.wait(o.unsettled())
		}
	}
	return unsettled
}

// postpone says of items that they have not had their turn.
func (p *pass) postpone(items []item, gate string) {
	for i := range items {
		p.result.Objects = append(p.result.Objects, items[i].waiting("waits for "+gate))
	}
}

func (it *item) waiting(message string) ObjectResult {
	return ObjectResult{
		GVK: it.gvk, Namespace: it.id.Namespace, Name: it.id.Name, Action: Waiting, Message: message, Hook: it.turn.Hook,
		Health: health.Status{Phase: health.Progressing, Message: message},
	}
}

// healthy says whether what follows may build on the item.
func (o *outcome) healthy() bool {
	if o.result.Action == Failed || o.result.Action == Waiting {
		return false
	}
	return o.calm || o.result.Health.Phase == health.Healthy
}

// unsettled says in a line what is not there yet.
func (o *outcome) unsettled() string {
	text := o.id.String()
	if o.result.Err != nil {
		return o.result.Err.Error()
	}
	if message := o.result.Health.Message; message != "" {
		text += ": " + message
	}
	return text
}

// refused says whether an object of the render can never be applied as it is.
func (p *pass) refused() bool {
	return slices.ContainsFunc(p.result.Objects, func(o ObjectResult) bool { return o.Err != nil && o.Err.Reason.lasting() }) ||
		slices.ContainsFunc(p.rejected, func(o ObjectResult) bool { return o.Err.Reason.lasting() })
}

func (p *pass) failedHook() bool {
	return slices.ContainsFunc(p.result.Objects, func(o ObjectResult) bool { return o.Err != nil && o.Err.Reason == HookFailed })
}

// syncFail runs the hooks for a sync that failed, once for each render.
func (p *pass) syncFail(ctx context.Context, steps []order.Step) {
	if p.healing() || p.inv.Failed == p.revision() {
		return
	}
	ended := true
	var hooks []item
	for _, step := range steps {
		if step.Stage != order.SyncFail {
			continue
		}
		var items []item
		for _, i := range step.Items {
			items = append(items, p.items[i])
		}
		hooks = append(hooks, items...)
		outcomes := p.take(ctx, items)
		ended = p.settle(outcomes) == "" && ended
	}
	if p.endStage(ctx, hooks) && ended {
		p.inv.Failed = p.revision()
	}
}

// waitsFor says which of the objects that the item depends on is not there yet, or nothing.
func (p *pass) waitsFor(ctx context.Context, it item) string {
	for _, id := range it.turn.After {
		if id.Namespace == "" && p.namespaced(id) {
			id.Namespace = p.namespace
		}
		if why := p.unready(ctx, id); why != "" {
			return why
		}
	}
	return ""
}

func (p *pass) namespaced(id object.ID) bool {
	res, ok := p.catalog.Find(id.GroupKind().WithVersion(""))
	return ok && res.Namespaced
}

// unready says why an object cannot be built on yet. One of this render has to have been applied in this pass, or found as
// it was left; any other has to be live.
func (p *pass) unready(ctx context.Context, id object.ID) string {
	switch {
	case p.settled[id], p.hooks[id] && p.hasRun(id):
		return ""
	case p.rendered[id], p.hooks[id]:
		return id.String()
	}
	facts, there := p.seen.Get(id)
	if !there {
		var err error
		if facts, there, err = p.inspect(ctx, id); err != nil {
			return fmt.Sprintf("%s: %v", id, err)
		}
	}
	switch {
	case !there:
		p.again(heldBack)
		return id.String() + ", which is not there"
	case facts.Health.Phase != health.Healthy:
		p.again(heldBack)
		return id.String() + ": " + facts.Health.Message
	}
	return ""
}

// hasRun says whether a hook of the render has ended well, or ran for this revision before: it may be gone by now.
func (p *pass) hasRun(id object.ID) bool {
	if p.known() {
		return true
	}
	p.journaling.RLock()
	defer p.journaling.RUnlock()
	for known, hook := range p.inv.Hooks {
		if known.ID == id && hook.Run == p.revision() && hook.State == inventory.HookSucceeded {
			return true
		}
	}
	return false
}
