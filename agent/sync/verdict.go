package sync

import (
	"context"
	"slices"
	"strings"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/events"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/api"
)

// Bounds of what a report names.
const (
	maxProblems = 50
	maxHeld     = 50
	maxNotes    = 20
	// maxSweepNotes leaves room for the notes of the removal itself.
	maxSweepNotes = maxNotes / 2
	maxNote       = 300
)

// judge draws a service's phase from what a pass did for a deployment, in words that repeat nothing that was sealed.
func (p *pass) judge(ctx context.Context, d *api.Deployment, applied *apply.Result) {
	r := &p.result
	r.phase, r.message, r.retry = api.Phase_HEALTHY, "", applied.Retry
	warnings := p.warnings(ctx, d, applied)
	for i := range applied.Objects {
		o := &applied.Objects[i]
		if o.Action == apply.Deleted {
			continue
		}
		r.objects++
		if o.Healed != "" {
			p.putBack(ctx, d, o)
		}
		phase, message := verdict(o)
		if phase == api.Phase_HEALTHY {
			r.ready++
			continue
		}
		worse := severity(phase) > severity(r.phase)
		if !worse && len(r.problems) >= maxProblems {
			continue
		}
		said := joined(append(slices.Clip(warnings[o.UID]), message)...) // the cause first: screens are narrow
		problem := p.problem(ctx, d, o, said)
		if problem.GetReason() == "" && len(warnings[o.UID]) > 0 {
			problem.Reason = "Warning"
		}
		if len(r.problems) < maxProblems {
			r.problems = append(r.problems, problem)
		}
		if worse {
			r.phase, r.message = phase, problem.GetKind()+" "+problem.GetName()+": "+problem.GetMessage()
		}
	}
	r.deferred = p.deferPrune && !applied.Done
	if !applied.Done && severity(r.phase) <= severity(api.Phase_PROGRESSING) {
		r.phase = api.Phase_PROGRESSING
		switch {
		case applied.Waiting != "":
			r.message = p.silence(ctx, d, waiting(applied, warnings))
		case r.message == "" && r.deferred:
			r.message = "deletions wait until the services that changed with it are rendered"
		}
	}
	p.hold(ctx, d, applied.Held)
	for _, note := range applied.Notes[:min(len(applied.Notes), maxNotes)] {
		r.notes = append(r.notes, clip(p.silence(ctx, d, note), maxNote))
	}
}

// warnings are what the cluster says of the objects that are not well, by uid. What is due by time alone is a pass that asks.
func (p *pass) warnings(ctx context.Context, d *api.Deployment, applied *apply.Result) map[string][]string {
	if p.Warnings == nil {
		return nil
	}
	var unhealthy []events.Object
	for i := range applied.Objects {
		o := &applied.Objects[i]
		if phase, _ := verdict(o); phase != api.Phase_HEALTHY && o.UID != "" && o.Action != apply.Deleted {
			unhealthy = append(unhealthy, events.Object{ID: o.ID(), UID: o.UID})
		}
	}
	mask := func(text string) string { return p.silence(ctx, d, text) } // people look at them in views, too
	warnings, again := p.Warnings.Of(ctx, p.result.service, unhealthy, mask)
	if r := &p.result; again > 0 && (r.retry == 0 || again < r.retry) {
		r.retry = again
	}
	return warnings
}

// waiting is what the next step waits for, with what the cluster says of it.
func waiting(applied *apply.Result, warnings map[string][]string) string {
	for i := range applied.Objects {
		o := &applied.Objects[i]
		if id := o.ID().String(); len(warnings[o.UID]) > 0 && (applied.Waiting == id || strings.HasPrefix(applied.Waiting, id+": ")) {
			return joined(append([]string{applied.Waiting}, warnings[o.UID]...)...)
		}
	}
	return applied.Waiting
}

// joined are texts, some of which may be empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// hold says what waits for a person.
func (p *pass) hold(ctx context.Context, d *api.Deployment, held *apply.Held) {
	if held == nil {
		return
	}
	r := &p.result
	r.held = &api.Held{Token: held.Token, Count: uint32(len(held.Names)), Message: clip(p.silence(ctx, d, held.Message), maxMessage)}
	for _, name := range shown(held.Names, maxHeld) {
		r.held.Names = append(r.held.Names, clip(p.silence(ctx, d, name), maxNote))
	}
	if r.phase != api.Phase_FAILED {
		r.phase, r.message = api.Phase_HELD, r.held.GetMessage()
	}
}

// problem is what a report says of one object, whose very name a template may have made of a secret.
func (p *pass) problem(ctx context.Context, d *api.Deployment, o *apply.ObjectResult, message string) *api.ObjectReport {
	say := func(text string) string { return p.silence(ctx, d, text) }
	problem := &api.ObjectReport{
		Group: say(o.GVK.Group), Kind: say(o.GVK.Kind), Namespace: say(o.Namespace), Name: say(o.Name), Message: clip(say(message), maxMessage),
	}
	if o.Err != nil {
		problem.Reason = string(o.Err.Reason)
	}
	return problem
}

// told is what is wrong with an object and what to do about it; whoever is told sees beside it which object that is.
func told(err *apply.Error) string {
	if err.Fix == "" {
		return err.Message
	}
	return err.Message + ": " + err.Fix
}

// severity orders the phases of applied objects.
func severity(p api.Phase) int {
	return slices.Index([]api.Phase{api.Phase_HEALTHY, api.Phase_PROGRESSING, api.Phase_DEGRADED, api.Phase_FAILED}, p)
}

func verdict(o *apply.ObjectResult) (api.Phase, string) {
	switch {
	case o.Err != nil:
		return api.Phase_FAILED, told(o.Err)
	case o.Action == apply.Kept:
		return api.Phase_HEALTHY, ""
	case o.Action == apply.Waiting, o.Action == apply.Recreated:
		return api.Phase_PROGRESSING, o.Message
	case o.Health.Phase == health.Progressing:
		return api.Phase_PROGRESSING, o.Health.Message
	case o.Health.Phase == health.Degraded, o.Health.Phase == health.Unknown:
		return api.Phase_DEGRADED, o.Health.Message
	default:
		return api.Phase_HEALTHY, ""
	}
}
