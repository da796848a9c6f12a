package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// verdict is what can be said of one thing that is waited for.
type verdict int

const (
	underWay verdict = iota
	// well: there is nothing more to come, or not from an agent that can be heard now.
	well
	// blocked: it waits for a person.
	blocked
	ill
)

// outcome is how one service, or one cluster, is at a moment.
type outcome struct {
	subject string
	verdict verdict
	// told is the line that says so; problems are what is not well.
	told     string
	problems []ui.Problem
}

// service is how a service is.
func (w *wait) service(ctx context.Context, name string) (outcome, error) {
	o := outcome{subject: name}
	s, err := w.hub.Service(ctx, name)
	if absent(err) {
		return w.absent(o)
	}
	if err != nil {
		return o, err
	}
	if w.about.Gone {
		o.told = fmt.Sprintf("is still on %s", plural(len(s.Deployments), "cluster"))
		if len(s.Deployments) == 0 {
			o.verdict, o.told = well, "is gone"
		}
	}
	return w.rows(o, s.Deployments, func(d *v1.Deployment) string { return d.Cluster }), nil
}

// cluster is how a cluster is, with what is meant for it.
func (w *wait) cluster(ctx context.Context, name string) (outcome, error) {
	o := outcome{subject: "cluster " + name}
	c, err := w.hub.Cluster(ctx, name)
	if absent(err) {
		return w.absent(o)
	}
	if err != nil {
		return o, err
	}
	switch {
	case w.about.Gone:
		o.told = "is still in the fleet"
		return o, nil
	case c.Phase == v1.Unregistered:
		o.verdict, o.told = well, "is in the fleet, and has no agent yet: plural cluster register "+ui.Clean(name)
		return o, nil
	case c.Phase == v1.Pending && c.LastReport == nil:
		o.verdict, o.told = well, "is in the fleet, and its agent has not reported yet"
		return o, nil
	case c.Phase == v1.Stale:
		o.verdict, o.told = well, "is silent: it takes the change up when it is heard of again"
		return o, nil
	}
	return w.rows(o, c.Deployments, func(d *v1.Deployment) string { return d.Service }), nil
}

// absent is the outcome for what the hub does not have.
func (w *wait) absent(o outcome) (outcome, error) {
	if w.about.Gone {
		o.verdict, o.told = well, "is gone"
		return o, nil
	}
	return o, &ui.Err{
		Msg: fmt.Sprintf("the hub serves %s, and there is no %s in it", cmdutil.ShortCommit(w.commit), o.subject),
		Fix: "see what changed it since: git log", Doc: ui.DocNotFound,
	}
}

func absent(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status == http.StatusNotFound
}

// rows judges services on clusters, each of which is told by one of the two names.
func (w *wait) rows(o outcome, list []v1.Deployment, name func(*v1.Deployment) string) outcome {
	worst, ready, silent := well, 0, 0
	for i := range list {
		d := &list[i]
		v := w.row(d)
		if v == well && d.Phase == v1.Stale {
			silent++
		} else if v == well {
			ready++
		}
		if v == blocked || v == ill {
			o.problems = append(o.problems, ui.Problem{Where: name(d), Message: reason(d)})
		}
		worst = worse(worst, v)
	}
	if w.about.Gone {
		if worst == blocked || worst == ill {
			o.verdict = worst
		}
		return o
	}
	o.verdict = worst
	o.told = fmt.Sprintf("%s of %s well", cmdutil.Ratio(ready, len(list)), plural(len(list), "deployment"))
	switch {
	case len(list) == 0:
		o.told = "runs nowhere"
	case silent > 0:
		o.told += fmt.Sprintf(", %d silent", silent)
	}
	if worst == underWay {
		o.told += w.left(list, name)
	}
	return o
}

// left names a few of those that are not done.
func (w *wait) left(list []v1.Deployment, name func(*v1.Deployment) string) string {
	const most = 3
	var names []string
	for i := range list {
		if w.row(&list[i]) == underWay {
			names = append(names, ui.Clean(name(&list[i])))
		}
	}
	if rest := len(names) - most; rest > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", rest))
	}
	return "; under way: " + strings.Join(names, ", ")
}

// row judges one service on one cluster. What is not good is given a moment: it may be tried once more.
func (w *wait) row(d *v1.Deployment) verdict {
	patient := w.f.Now().Sub(w.since) < SecondLook
	switch d.Phase {
	case v1.Stale, v1.Unregistered:
		return well
	case v1.Held:
		if d.Suspended {
			return well
		}
		if d.Held != nil || !patient {
			return blocked
		}
	case v1.Failed, v1.Degraded:
		if !patient {
			return ill
		}
	case v1.Healthy:
		if d.AppliedKey == d.Key {
			return well
		}
	case v1.Pending, v1.Progressing, v1.Removing:
	}
	return underWay
}

// reason says what is not well.
func reason(d *v1.Deployment) string {
	text := d.Message
	switch {
	case d.Held != nil:
		text = fmt.Sprintf("%s wait for a person: plural service ack %s", plural(d.Held.Count, "deletion"), d.Service)
	case text == "" && len(d.Problems) > 0:
		text = d.Problems[0].Message
	}
	return string(d.Phase) + ": " + cmdutil.OrDash(text)
}

// worse is the verdict of several: what is under way is waited for before anything else is said, except what has failed.
func worse(a, b verdict) verdict {
	order := []verdict{well, blocked, underWay, ill}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
