package sync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
)

// work is what a pass is given.
type work struct {
	service string
	desired *api.Deployment // nil: the service is to go
	good    *api.Deployment
	cache   rendered
	asks    map[string]bool // what is remembered of charts, by key
	keys    unseal.Keys
	can     capabilities
	blocked string        // what the newest deployment waits for
	broken  renderFailure // why it cannot be rendered, as is known already
	barred  string        // why it is in quarantine
	// gated says that tests keep it from becoming the last good one.
	gated bool
	// deferPrune says that other services are still to be rendered.
	deferPrune bool
	// last is what was desired before, and was no hold; nil when this process never heard of it.
	last *api.Deployment
	// reaches are wherever tests may have left something behind.
	reaches []store.Reach
	// swept says that an earlier pass of this removal has deleted that, and sweepNotes what was noted on the way.
	swept      bool
	sweepNotes []string
	// noted are the notes of sweeps that were logged.
	noted *sync.Map
}

// result is what a pass leaves behind.
type result struct {
	service string
	// desired is the deployment that was wanted, also when the last good one was healed instead.
	desired *api.Deployment
	// removed says that nothing of the service is left.
	removed bool
	// swept says that what tests left of a service that is to go is gone. What was noted of that goes on with each pass.
	swept      bool
	sweepNotes []string
	// interrupted passes were stopped before they ended: what they say of success or failure means nothing.
	interrupted bool
	// failed says that the engine could not carry the pass through; broken that there was nothing to carry.
	failed bool
	broken renderFailure
	// can names what the cluster could do when it began.
	can string
	// blocked and deferred are what waits, for other services.
	blocked  string
	deferred bool
	// retry is when the engine wants to be called again; zero: not by time alone.
	retry time.Duration

	good *api.Deployment
	// applied is what was applied completely, or nil.
	applied  *api.Deployment
	cache    rendered
	asks     map[string]bool
	phase    api.Phase
	message  string
	objects  uint32
	ready    uint32
	problems []*api.ObjectReport
	held     *api.Held
	notes    []string
	// healed names the first objects that were put back, healings is how many there were.
	healed   []string
	healings int
}

// pass is one service once through.
type pass struct {
	*Syncer
	work
	result result
	// unruled is why the service's health rules cannot be used; those before stay in force.
	unruled error
}

// run does a pass.
func (s *Syncer) run(ctx context.Context, w work) result {
	p := &pass{Syncer: s, work: w, result: result{
		service: w.service, desired: w.desired, good: w.good, blocked: w.blocked, swept: w.swept, sweepNotes: w.sweepNotes,
	}}
	if err := s.Engine.SetRules(w.service, rulesOf(w.desired, w.good)); err != nil {
		p.unruled = &unrenderable{err.Error(), true}
	}
	switch d := w.desired; {
	case d == nil && w.blocked != "":
		p.result.phase, p.result.message = api.Phase_REMOVING, w.blocked
	case d == nil:
		p.remove(ctx)
	case d.GetHold() != "":
		p.heal(ctx, api.Phase_HELD, d.GetHold())
	case w.barred != "":
		p.heal(ctx, api.Phase_FAILED, w.barred)
	case w.blocked != "":
		p.heal(ctx, api.Phase_PENDING, w.blocked)
	case w.broken.now():
		p.result.broken = w.broken
		p.heal(ctx, api.Phase_FAILED, w.broken.message)
	default:
		p.advance(ctx)
	}
	r := p.result
	r.notes = shown(slices.Concat(r.sweepNotes, r.notes), maxNotes)
	r.cache, r.asks, r.can, r.interrupted = p.cache, p.asks, p.can.digest, ctx.Err() != nil
	return r
}

// advance brings the newest deployment in. When it cannot be rendered, the last good one goes on being healed.
func (p *pass) advance(ctx context.Context) {
	d, r := p.desired, &p.result
	var applied *apply.Result
	err := p.unruled
	if err == nil {
		applied, err = p.apply(ctx, d)
	}
	var none *unrenderable
	if errors.As(err, &none) {
		r.broken = renderFailure{message: none.text}
		if none.forEver {
			r.broken.until = time.Now().Add(jitter(brokenPause))
		}
		p.heal(ctx, api.Phase_FAILED, none.text)
		return
	}
	if err != nil {
		r.phase, r.message, r.failed = stopped(err, api.Phase_PROGRESSING), err.Error(), true
		r.problems = unreached(err)
		return
	}
	p.judge(ctx, d, applied)
	if !applied.Done {
		return
	}
	r.applied = d
	if p.cache.key == d.GetKey() {
		p.cache.secrets = p.cache.own // nothing older is live
	}
	if p.gated || r.good != nil && proto.Equal(r.good, d) {
		return
	}
	r.good = d
	if err := p.Store.SaveGood(d); err != nil {
		p.Log.Error("deployment cannot be kept over a restart", "service", d.GetService(), "error", err)
	}
}

// heal applies the last good deployment, and says why it is not the newest.
func (p *pass) heal(ctx context.Context, phase api.Phase, why string) {
	r := &p.result
	if r.good != nil {
		applied, err := p.apply(ctx, r.good)
		if err == nil {
			p.judge(ctx, r.good, applied)
			if applied.Done {
				r.applied = r.good
			}
		} else if ctx.Err() == nil {
			p.Log.Warn("last good deployment cannot be healed", "service", r.service, "error", err)
			r.failed = true
		}
	}
	r.phase, r.message = phase, why
}

// apply makes a deployment live. Its error repeats nothing that was sealed, and is *unrenderable when nothing was tried.
func (p *pass) apply(ctx context.Context, d *api.Deployment) (*apply.Result, error) {
	identity, known, err := p.identity(d, p.asks, p.can)
	if err != nil {
		return nil, &unrenderable{text: err.Error()}
	}
	if !known {
		if _, err := p.objects(ctx, d, ""); err != nil {
			return nil, err
		}
		identity = p.cache.identity
	}
	var unrendered error
	request := policies(d)
	request.Key, request.DeferPrune = identity, p.deferPrune
	request.Objects = func(ctx context.Context) (objects []*unstructured.Unstructured, err error) {
		objects, unrendered = p.objects(ctx, d, identity)
		return objects, unrendered
	}
	result, err := p.Engine.Apply(ctx, request)
	if unrendered != nil {
		return nil, unrendered
	}
	switch {
	case errors.Is(err, apply.ErrContended):
		return nil, apply.ErrContended
	case unreached(err) != nil:
		return nil, err
	case err != nil:
		return nil, errors.New(p.silence(ctx, d, err.Error()))
	}
	return result, nil
}

// stopped is the phase of a service that the engine could not carry through: nothing has failed where another engine is at
// work on it, such as that of a person who deploys it.
func stopped(err error, under api.Phase) api.Phase {
	if errors.Is(err, apply.ErrContended) {
		return under
	}
	return api.Phase_FAILED
}

// unreached is what is reported where the cluster's API server does not answer, which no change of the service can help: a problem
// with no object. It is nil for every other error.
func unreached(err error) []*api.ObjectReport {
	var unanswered *apply.UnansweredError
	if !errors.As(err, &unanswered) {
		return nil
	}
	return []*api.ObjectReport{{Reason: string(apply.Unavailable), Message: clip(err.Error(), maxMessage)}}
}

// remove takes a service that nothing asks for out of the cluster. What its tests left goes first, while there is who
// may delete it.
func (p *pass) remove(ctx context.Context) {
	r := &p.result
	if err := p.sweepAll(ctx); err != nil {
		r.phase, r.message, r.failed = api.Phase_FAILED, clip(err.Error(), maxMessage), true
		return
	}
	r.swept = true
	applied, err := p.Engine.Remove(ctx, apply.Removal{
		Service: r.service, Namespace: r.good.GetNamespace(), OwnRepository: r.good.GetOwnRepository(), Objects: p.lastObjects,
	})
	if err != nil {
		r.phase, r.message, r.failed = stopped(err, api.Phase_REMOVING), p.silence(ctx, r.good, err.Error()), true
		r.problems = unreached(err)
		return
	}
	p.judge(ctx, r.good, applied)
	if !applied.Done {
		if r.phase != api.Phase_FAILED {
			r.phase = api.Phase_REMOVING
		}
		if r.message == "" {
			r.message = "its objects are on their way out"
		}
		return
	}
	r.removed, r.good, p.cache = true, nil, rendered{}
	p.forget(r.service)
}

// lastObjects are those of the last good deployment, for the hooks of a removal; none when nothing is known of it.
func (p *pass) lastObjects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	d := p.result.good
	if d == nil {
		return nil, nil
	}
	identity, _, err := p.identity(d, p.asks, p.can)
	if err != nil {
		return nil, err
	}
	return p.objects(ctx, d, identity)
}

// archive is what a deployment has of one bundle: its key, and what it was made of.
type archive struct {
	key    string
	inputs []string
}

// files returns a bundle: from disk, else from the hub; believed only when its content gives its key.
func (s *Syncer) files(ctx context.Context, a archive) (*bundle.Files, error) {
	if packed, err := s.Store.Bundle(a.key); err == nil {
		if files, err := a.verified(packed); err == nil {
			return files, nil
		}
		s.Log.Warn("bundle on disk is damaged; downloading it again", "bundle", a.key)
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.Log.Warn("bundle on disk is unreadable; downloading it again", "bundle", a.key, "error", err)
	}
	packed, err := s.Hub.Bundle(ctx, a.key)
	if err != nil {
		return nil, err
	}
	files, err := a.verified(packed)
	if err != nil {
		return nil, err
	}
	s.Log.Info("bundle downloaded", "bundle", a.key, "bytes", len(packed))
	if err := s.Store.SaveBundle(a.key, packed); err != nil {
		s.Log.Error("bundle cannot be kept over a restart", "bundle", a.key, "error", err)
	}
	return files, nil
}

func (a archive) verified(packed []byte) (*bundle.Files, error) {
	files, err := bundle.Unpack(bytes.NewReader(packed), bundle.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("unpack bundle: %w", err)
	}
	key, err := files.Key(a.inputs)
	if err != nil {
		return nil, fmt.Errorf("verify bundle: %w", err)
	}
	if key != a.key {
		return nil, fmt.Errorf("verify bundle: its content is %s, not %s", key, a.key)
	}
	return files, nil
}

// shown is at most so many of the names, for people.
func shown(names []string, most int) []string {
	return slices.Clone(names[:min(len(names), most)])
}
