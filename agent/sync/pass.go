package sync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
)

// work is one pass: one service once through.
type work struct {
	service string
	desired *api.Deployment // nil: the service is to go
	good    *api.Deployment
	cache   rendered
	keys    unseal.Keys
	blocker string // the dependency that the newest deployment waits for
}

// result is what a pass leaves behind.
type result struct {
	service string
	// desired is the deployment that was wanted, also when the last good one was healed instead.
	desired *api.Deployment
	// removed says that nothing of the service is left.
	removed bool
	// interrupted passes were stopped before they ended: what they say of success or failure means nothing.
	interrupted bool

	keys     unseal.Keys
	good     *api.Deployment
	cache    rendered
	phase    api.Phase
	message  string
	objects  uint32
	ready    uint32
	problems []*api.ObjectReport
}

// run does a pass.
func (s *Syncer) run(ctx context.Context, w work) result {
	r := result{service: w.service, desired: w.desired, good: w.good, cache: w.cache, keys: w.keys}
	switch {
	case w.desired == nil:
		s.remove(ctx, &r)
	case w.desired.GetHold() != "":
		s.heal(ctx, &r, api.Phase_HELD, w.desired.GetHold())
	case w.blocker != "":
		s.heal(ctx, &r, api.Phase_PENDING, "waits for "+w.blocker+" to be healthy")
	default:
		s.advance(ctx, &r, w.desired)
	}
	r.interrupted = ctx.Err() != nil
	return r
}

// advance brings the newest deployment in. When it cannot be rendered, the last good one goes on being healed.
func (s *Syncer) advance(ctx context.Context, r *result, d *api.Deployment) {
	if err := s.render(ctx, r, d); err != nil {
		s.heal(ctx, r, api.Phase_FAILED, err.Error())
		return
	}
	applied, err := s.apply(ctx, d, r.cache)
	if err != nil {
		r.phase, r.message = api.Phase_FAILED, err.Error()
		return
	}
	r.judge(applied)
	if !applied.Complete() || applied.Held != "" {
		return
	}
	r.cache.secrets = r.cache.own // nothing older is live
	if r.good == d {
		return
	}
	r.good = d
	if err := s.Store.SaveGood(d); err != nil {
		s.Log.Error("deployment cannot be kept over a restart", "service", d.GetService(), "error", err)
	}
}

// heal applies the last good deployment, and says why it is not the newest.
func (s *Syncer) heal(ctx context.Context, r *result, phase api.Phase, why string) {
	if r.good != nil {
		err := s.render(ctx, r, r.good)
		if err == nil {
			var applied *apply.Result
			if applied, err = s.apply(ctx, r.good, r.cache); err == nil {
				r.judge(applied)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("last good deployment cannot be healed", "service", r.service, "error", err)
		}
	}
	r.phase, r.message = phase, why
}

// apply makes a render live. Its error repeats nothing that was sealed.
func (s *Syncer) apply(ctx context.Context, d *api.Deployment, what rendered) (*apply.Result, error) {
	result, err := s.Engine.Apply(ctx, apply.Request{
		Service: d.GetService(), Namespace: d.GetNamespace(), Objects: what.objects,
		Prune: d.GetSync().GetPrune(), Budget: d.GetSync().GetDeletionBudget(),
	})
	return result, silent(err, what.secrets)
}

// remove takes a service that nothing asks for out of the cluster.
func (s *Syncer) remove(ctx context.Context, r *result) {
	applied, err := s.Engine.Remove(ctx, r.service)
	if err != nil {
		r.phase, r.message = api.Phase_FAILED, err.Error()
		return
	}
	r.judge(applied)
	if !applied.Complete() {
		return
	}
	present, err := s.Engine.Services(ctx)
	if err != nil || slices.Contains(present, r.service) {
		r.phase, r.message = api.Phase_REMOVING, "its objects are on their way out"
		return
	}
	r.removed, r.good, r.cache = true, nil, rendered{}
	if err := s.Store.DropGood(r.service); err != nil {
		s.Log.Error("service cannot be forgotten", "service", r.service, "error", err)
	}
}

// render fills the pass's cache with a deployment's objects, unless they are there. Its error repeats nothing that was sealed.
func (s *Syncer) render(ctx context.Context, r *result, d *api.Deployment) error {
	if r.cache.key == d.GetKey() {
		return nil
	}
	opened, err := s.open(ctx, d, r.keys)
	if err != nil {
		return err
	}
	in := render.Input{
		Renderer: d.GetRenderer(), Path: d.GetPath(), Namespace: d.GetNamespace(), Service: d.GetService(),
		Parameters: d.GetParameters(), Secrets: opened.named.ByName, Files: opened.files, Mounts: opened.mounts,
		KubeVersion: s.KubeVersion, APIVersions: s.APIVersions,
	}
	if h := d.GetHelm(); h != nil {
		in.Helm = &render.Helm{Release: h.GetRelease(), ValuesJSON: h.GetValuesJson(), ValuesFiles: h.GetValuesFiles()}
	}
	out, err := s.Renderer.Render(ctx, in)
	if err != nil {
		return silent(err, opened.secrets)
	}
	for _, warning := range out.Warnings {
		s.Log.Warn("render warns", "service", d.GetService(), "key", d.GetKey(), "warning", unseal.Redact(warning, opened.secrets))
	}
	objects := opened.named.Beside(out.Objects, d.GetNamespace())
	r.cache = rendered{d.GetKey(), objects, opened.secrets, s.unrepeatable(ctx, r, d, opened.secrets)}
	return nil
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

// maxProblems is how many objects a report names.
const maxProblems = 50

// judge draws a service's phase from its objects, in words that repeat nothing that was sealed.
func (r *result) judge(applied *apply.Result) {
	r.phase, r.message = api.Phase_HEALTHY, ""
	for i := range applied.Objects {
		o := &applied.Objects[i]
		if o.Action == apply.Deleted {
			continue
		}
		r.objects++
		phase, message := verdict(o)
		if phase == api.Phase_HEALTHY {
			r.ready++
			continue
		}
		worse := severity(phase) > severity(r.phase)
		if !worse && len(r.problems) >= maxProblems {
			continue
		}
		problem := r.problem(o, message)
		if len(r.problems) < maxProblems {
			r.problems = append(r.problems, problem)
		}
		if worse {
			r.phase, r.message = phase, problem.GetKind()+" "+problem.GetName()+": "+problem.GetMessage()
		}
	}
	if applied.Held != "" && r.phase != api.Phase_FAILED {
		r.phase, r.message = api.Phase_HELD, unseal.Redact(applied.Held, r.cache.secrets)
	}
}

// problem is what a report says of one object, whose very name a template may have made of a secret.
func (r *result) problem(o *apply.ObjectResult, message string) *api.ObjectReport {
	silent := func(text string) string { return unseal.Redact(text, r.cache.secrets) }
	return &api.ObjectReport{
		Kind: silent(o.GVK.Kind), Namespace: silent(o.Namespace), Name: silent(o.Name), Message: clip(silent(message), maxMessage),
	}
}

// severity orders the phases of applied objects.
func severity(p api.Phase) int {
	return slices.Index([]api.Phase{api.Phase_HEALTHY, api.Phase_PROGRESSING, api.Phase_DEGRADED, api.Phase_FAILED}, p)
}

func verdict(o *apply.ObjectResult) (api.Phase, string) {
	switch {
	case o.Err != nil:
		return api.Phase_FAILED, o.Err.Error()
	case o.Action == apply.Kept:
		return api.Phase_HEALTHY, ""
	case o.Health.Phase == health.Progressing:
		return api.Phase_PROGRESSING, o.Health.Message
	case o.Health.Phase == health.Degraded, o.Health.Phase == health.Unknown:
		return api.Phase_DEGRADED, o.Health.Message
	default:
		return api.Phase_HEALTHY, ""
	}
}
