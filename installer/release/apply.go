package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/lookup"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Outcome is what became of a deployment.
type Outcome struct {
	// Objects is how many there are. All of them are healthy.
	Objects int
	// Changed is what was done, by object as kubectl is told its name: created, configured, recreated or deleted. Nothing
	// stands there for what was found as it should be.
	Changed map[string]apply.Action
	// Notes say what was done that somebody may wonder about.
	Notes []string
	// Suspended says that nothing was done, since the service is suspended.
	Suspended bool
	// Deferred says that deletions wait for Settle.
	Deferred bool
}

// release is one deployment on its way into a cluster.
type release struct {
	*Cluster
	d        *resolve.Deployment
	renderer *preview.Renderer
	told     func(string)
	prune    bool // what is to go goes now

	made       *preview.Rendition // nil: not rendered yet
	can        capable            // what it was rendered for
	unrendered error
	outcome    Outcome
}

// Apply makes a deployment live, and returns once all of it is applied and healthy. Told hears in a line what it waits for,
// whenever that is something else; it is called from one goroutine. What time alone does not mend ends it early with a
// *NotReadyError, and so does the end of the options' Timeout, or of ctx: then what was applied stays, and the next call goes
// on from there. A render that fails is a *render.Error, with nothing applied; a deployment on hold is its *resolve.Problem.
func (c *Cluster) Apply(ctx context.Context, d *resolve.Deployment, r *preview.Renderer, told func(text string)) (*Outcome, error) {
	return c.apply(ctx, &release{Cluster: c, d: d, renderer: r, told: changes(told), prune: !c.options.DeferPrune})
}

func (c *Cluster) apply(ctx context.Context, r *release) (*Outcome, error) {
	switch {
	case r.d.Hold != nil:
		return nil, r.d.Hold
	case r.d.Suspended:
		r.told("it is suspended: nothing is done")
		return &Outcome{Suspended: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	if err := c.begin(ctx, r.told); err != nil {
		return nil, err
	}
	if err := c.engine.SetRules(r.d.Service, healthRules(r.d.Health)); err != nil {
		return nil, fmt.Errorf("service %s: %w", r.d.Service, err)
	}
	news, end, err := c.listen(ctx, r.d.Service)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := r.carry(ctx, news); err != nil {
		return nil, err
	}
	if err := r.test(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.applied[r.d.Service] = r
	c.mu.Unlock()
	return &r.outcome, nil
}

// Settle does what had to wait for the other deployments: it deletes what none of them took over, and renders again what
// depends on the kinds that they brought. Whoever has applied all that there is to apply calls it.
func (c *Cluster) Settle(ctx context.Context, told func(text string)) error {
	c.mu.Lock()
	list := maps.Clone(c.applied)
	c.mu.Unlock()
	var can capable
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(list)) {
		r := list[name]
		if can.fingerprint == "" && r.made != nil && r.made.Capabilities {
			var err error
			if can, err = c.capabilities(ctx, true); err != nil {
				return err
			}
		}
		stale := r.made != nil && r.made.Capabilities && r.can.fingerprint != can.fingerprint
		if !r.outcome.Deferred && !stale {
			continue
		}
		_, err := c.apply(ctx, &release{Cluster: c, d: r.d, renderer: r.renderer, told: changes(told), prune: true})
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// changes tells a text only when it is another than before. Nil is nobody.
func changes(told func(string)) func(string) {
	last := ""
	return func(text string) {
		if told != nil && text != last {
			last = text
			told(text)
		}
	}
}

// render makes the objects, unless they are those for what the cluster can do now.
func (r *release) render(ctx context.Context, fresh bool) error {
	can, err := r.capabilities(ctx, fresh)
	if err != nil {
		return err
	}
	if r.made != nil && (!r.made.Capabilities || r.can.fingerprint == can.fingerprint) {
		return nil
	}
	on := r.renderer.On(can.version, can.apis)
	on.Lookup = func(account string) (render.Lookup, error) { return lookup.As(r.config, r.engine.Kinds(), account) }
	made, err := on.Render(ctx, r.d)
	if err != nil {
		return fmt.Errorf("render service %s: %w", r.d.Service, err)
	}
	r.outcome.note(made.Warnings)
	r.made, r.can = made, can
	return nil
}

// identity names the render as an agent does.
func (r *release) identity() string {
	if r.made != nil && r.made.Capabilities {
		return render.Identity(r.d.Key, r.can.fingerprint)
	}
	return r.d.Key
}

// pass is the engine's, once.
func (r *release) pass(ctx context.Context) (*apply.Result, error) {
	if r.d.Renderer == render.HelmChart && r.made == nil { // only a render tells its name
		if r.unrendered = r.render(ctx, false); r.unrendered != nil {
			return nil, r.unrendered
		}
	}
	asked := request(r.d)
	asked.Key, asked.DeferPrune = r.identity(), !r.prune
	asked.Objects = func(ctx context.Context) ([]*unstructured.Unstructured, error) {
		if r.made == nil {
			if r.unrendered = r.render(ctx, false); r.unrendered != nil {
				return nil, r.unrendered
			}
		}
		return r.made.All(), nil
	}
	return r.engine.Apply(ctx, asked)
}

// carry does pass after pass until all is applied and healthy.
func (r *release) carry(ctx context.Context, news <-chan struct{}) error {
	away := outage{cluster: r.Cluster, told: r.told}
	var last *standing
	var refused time.Time // since when something is refused for good
	for {
		state, err := r.step(ctx)
		switch {
		case ctx.Err() != nil:
			return r.gaveUp(ctx, last, err)
		case r.unrendered != nil && !unanswered(r.unrendered):
			return r.unrendered
		case err != nil:
			if err := away.again(ctx, err); err != nil {
				return r.silent(err)
			}
			continue
		}
		away.over()
		last = state
		r.told(state.text())
		if state.ready() {
			r.outcome.Objects, r.outcome.Deferred = state.objects, state.deferred
			return nil
		}
		switch first := state.final(); {
		case first == nil:
			refused = time.Time{}
		case refused.IsZero() && first.err.Reason != apply.HookFailed:
			refused = time.Now()
		case refused.IsZero(), time.Since(refused) >= r.options.Grace:
			return r.notReady(ctx, state, nil)
		}
		if state.held != nil && len(state.open) == 0 {
			return r.notReady(ctx, state, nil)
		}
		r.wait(ctx, news, state.retry, refused)
	}
}

// step is one pass, judged. A deployment that has itself changed what the cluster can do, while its objects may depend on that,
// is rendered once more: it is not ready before.
func (r *release) step(ctx context.Context) (*standing, error) {
	result, err := r.pass(ctx)
	if err != nil {
		return nil, err
	}
	state := r.stand(result)
	if !state.ready() || r.made == nil || !r.made.Capabilities {
		return state, nil
	}
	before := r.identity()
	if r.unrendered = r.render(ctx, true); r.unrendered != nil {
		return nil, r.unrendered
	}
	if r.identity() != before {
		state.applied, state.deferred, state.waits, state.retry = false, false, "a render for what the cluster serves now", time.Millisecond
	}
	return state, nil
}

// silent is an error with nothing in its words that was sealed.
func (r *release) silent(err error) error {
	if text := r.hide(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// hide is a text with nothing in it that was sealed, but for what stands in the deployment for everybody to read.
func (r *release) hide(text string) string {
	if r.made == nil || text == "" {
		return text
	}
	public := slices.AppendSeq([]string{r.d.Service, r.d.Namespace, r.d.Path}, maps.Values(r.d.Parameters))
	return unseal.Redact(text, slices.DeleteFunc(slices.Clone(r.made.Sealed), func(value string) bool {
		return slices.ContainsFunc(public, func(text string) bool { return strings.Contains(text, value) })
	}))
}

// wait returns when there is reason to look again.
func (c *Cluster) wait(ctx context.Context, news <-chan struct{}, retry time.Duration, refused time.Time) {
	pause := c.options.Patience // the watches may be the ones that are wrong
	if retry > 0 {
		pause = min(pause, retry)
	}
	if !refused.IsZero() {
		pause = min(pause, max(time.Until(refused.Add(c.options.Grace)), time.Second))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-news:
	case <-timer.C:
	}
}
