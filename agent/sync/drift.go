package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/api"
)

const (
	// driftPause lies between two events of one service: somebody who keeps changing what is put back fills no history.
	driftPause = time.Minute
	// maxDrift is how many objects an event names.
	maxDrift = 3
)

// drift is what was put back of a service and nobody was told of yet.
type drift struct {
	objects []string // the first few
	count   int
	told    time.Time
}

// putBack notes an object that others had changed, whose very name a template may have made of a secret.
func (p *pass) putBack(ctx context.Context, d *api.Deployment, o *apply.ObjectResult) {
	r := &p.result
	r.healings++
	if len(r.healed) < maxDrift {
		r.healed = append(r.healed, clip(p.silence(ctx, d, fmt.Sprintf("%s is put back: %s", o.ID(), o.Healed)), maxNote))
	}
}

// add takes in what a pass put back.
func (d *drift) add(r result) {
	if r.healings == 0 {
		return
	}
	d.count += r.healings
	for _, object := range r.healed {
		if len(d.objects) < maxDrift && !slices.Contains(d.objects, object) {
			d.objects = append(d.objects, object)
		}
	}
}

// due is when it may be told.
func (d *drift) due() time.Time { return d.told.Add(driftPause) }

// event is what there is to tell, and takes it for told. It has the time of the telling: a hub takes two of about the same time
// for one.
func (d *drift) event(service, key string, now time.Time) Event {
	message := strings.Join(d.objects, "; ")
	if more := d.count - len(d.objects); more > 0 {
		message += fmt.Sprintf("; and %d times more", more)
	}
	e := Event{Service: service, Reason: Healed, Message: clip(message, maxMessage), Key: key, Time: now}
	*d = drift{told: now}
	return e
}

// tellDrift tells what was put back.
func (s *Syncer) tellDrift(state *loopState, now time.Time) {
	for name, svc := range state.services {
		if svc.drift.count == 0 || now.Before(svc.drift.due()) {
			continue
		}
		if e := svc.drift.event(name, svc.applied.GetKey(), now); s.Event != nil {
			s.Event(e)
		}
	}
}
