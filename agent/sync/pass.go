package sync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
)

// work is one pass: one service once through.
type work struct {
	service string
	desired *api.Deployment // nil: the service is to go
	good    *api.Deployment
	cache   rendered
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
	r := result{service: w.service, desired: w.desired, good: w.good, cache: w.cache}
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
	objects, err := s.objects(ctx, &r.cache, d)
	if err != nil {
		s.heal(ctx, r, api.Phase_FAILED, err.Error())
		return
	}
	applied, err := s.apply(ctx, d, objects)
	if err != nil {
		r.phase, r.message = api.Phase_FAILED, err.Error()
		return
	}
	r.judge(applied)
	if !applied.Complete() || applied.Held != "" || r.good == d {
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
		objects, err := s.objects(ctx, &r.cache, r.good)
		if err == nil {
			var applied *apply.Result
			if applied, err = s.apply(ctx, r.good, objects); err == nil {
				r.judge(applied)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("last good deployment cannot be healed", "service", r.service, "error", err)
		}
	}
	r.phase, r.message = phase, why
}

func (s *Syncer) apply(ctx context.Context, d *api.Deployment, objects []*unstructured.Unstructured) (*apply.Result, error) {
	return s.Engine.Apply(ctx, apply.Request{
		Service: d.GetService(), Namespace: d.GetNamespace(), Objects: objects,
		Prune: d.GetSync().GetPrune(), Budget: d.GetSync().GetDeletionBudget(),
	})
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

// objects renders a deployment, unless the cache holds it.
func (s *Syncer) objects(ctx context.Context, cache *rendered, d *api.Deployment) ([]*unstructured.Unstructured, error) {
	if cache.key == d.GetKey() {
		return cache.objects, nil
	}
	files, err := s.files(ctx, d)
	if err != nil {
		return nil, err
	}
	in := render.Input{
		Renderer: d.GetRenderer(), Path: d.GetPath(), Namespace: d.GetNamespace(), Service: d.GetService(),
		Parameters: d.GetParameters(), Files: files, KubeVersion: s.KubeVersion, APIVersions: s.APIVersions,
	}
	if h := d.GetHelm(); h != nil {
		in.Helm = &render.Helm{Release: h.GetRelease(), ValuesJSON: h.GetValuesJson(), ValuesFiles: h.GetValuesFiles()}
	}
	out, err := s.Renderer.Render(ctx, in)
	if err != nil {
		return nil, err
	}
	for _, warning := range out.Warnings {
		s.Log.Warn("render warns", "service", d.GetService(), "key", d.GetKey(), "warning", warning)
	}
	*cache = rendered{d.GetKey(), out.Objects}
	return out.Objects, nil
}

// files returns a deployment's bundle: from disk, else from the hub; believed only when its content gives its key.
func (s *Syncer) files(ctx context.Context, d *api.Deployment) (*bundle.Files, error) {
	if archive, err := s.Store.Bundle(d.GetBundle()); err == nil {
		if files, err := verified(archive, d); err == nil {
			return files, nil
		}
		s.Log.Warn("bundle on disk is damaged; downloading it again", "service", d.GetService(), "bundle", d.GetBundle())
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.Log.Warn("bundle on disk is unreadable; downloading it again", "service", d.GetService(), "error", err)
	}
	archive, err := s.Hub.Bundle(ctx, d.GetBundle())
	if err != nil {
		return nil, err
	}
	files, err := verified(archive, d)
	if err != nil {
		return nil, err
	}
	s.Log.Info("bundle downloaded", "service", d.GetService(), "bundle", d.GetBundle(), "bytes", len(archive))
	if err := s.Store.SaveBundle(d.GetBundle(), archive); err != nil {
		s.Log.Error("bundle cannot be kept over a restart", "service", d.GetService(), "error", err)
	}
	return files, nil
}

func verified(archive []byte, d *api.Deployment) (*bundle.Files, error) {
	files, err := bundle.Unpack(bytes.NewReader(archive), bundle.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("unpack bundle: %w", err)
	}
	key, err := files.Key(d.GetInputs())
	if err != nil {
		return nil, fmt.Errorf("verify bundle: %w", err)
	}
	if key != d.GetBundle() {
		return nil, fmt.Errorf("verify bundle: its content is %s, not %s", key, d.GetBundle())
	}
	return files, nil
}

// maxProblems is how many objects a report names.
const maxProblems = 50

// judge draws a service's phase from its objects.
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
		if len(r.problems) < maxProblems {
			r.problems = append(r.problems, &api.ObjectReport{Kind: o.GVK.Kind, Namespace: o.Namespace, Name: o.Name, Message: clip(message, maxMessage)})
		}
		if severity(phase) > severity(r.phase) {
			r.phase, r.message = phase, o.GVK.Kind+" "+o.Name+": "+message
		}
	}
	if applied.Held != "" && r.phase != api.Phase_FAILED {
		r.phase, r.message = api.Phase_HELD, applied.Held
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
