package waitfor

import (
	"cmp"
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
	// told is the line that says so, why the same with the reasons that the hub knows; problems are what is not well.
	told, why string
	problems  []ui.Problem
	// place is where in the installation repo something is not well, as far as a message says.
	place string
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
	if err := w.unfetched(ctx, s); err != nil {
		return o, err
	}
	return w.rows(o, s.Deployments, func(d *v1.Deployment) string { return d.Cluster }), nil
}

// unfetched is the error about a service that is held for its source, which cannot be fetched. A source that nobody could have fetched
// yet is waited for.
func (w *wait) unfetched(ctx context.Context, s *v1.Service) error {
	if w.about.Gone || w.f.Now().Sub(w.since) < fetching ||
		!slices.ContainsFunc(s.Deployments, func(d v1.Deployment) bool { return heldByHub(&d) }) {
		return nil
	}
	status, err := w.hub.Status(ctx)
	if err != nil {
		return err
	}
	fault := cmdutil.Unfetched(status, s.Source)
	if fault == "" {
		return nil
	}
	return &ui.Err{
		Msg: fmt.Sprintf("%s is served, and %s waits for its source %s, which cannot be fetched", cmdutil.ShortCommit(w.commit), s.Name,
			s.Source),
		Cause: fault, Fix: "mend that, then: plural source sync " + s.Source + w.takeBack(ctx, ""), Doc: ui.DocUnhealthy,
	}
}

// heldByHub says that it is the hub that has nothing good to offer, and no person who has to agree to something.
func heldByHub(d *v1.Deployment) bool {
	return d.Phase == v1.Held && !d.Suspended && !cmdutil.AwaitsPerson(d)
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
	worst, ready, silent, suspended := well, 0, 0, 0
	for i := range list {
		d := &list[i]
		v := w.row(d)
		switch {
		case v == well && d.Phase == v1.Stale:
			silent++
		case v == well && d.Phase == v1.Held:
			suspended++
		case v == well:
			ready++
		}
		if v == blocked || v == ill {
			o.problems = append(o.problems, ui.Problem{Where: name(d), Message: Reason(d)})
			texts := []string{d.Message}
			for _, p := range d.Problems {
				texts = append(texts, p.Message)
			}
			o.place = cmp.Or(o.place, cmdutil.Placed(texts...))
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
	default:
		for _, rest := range []struct {
			n    int
			word string
		}{{silent, "silent"}, {suspended, "suspended"}} {
			if rest.n > 0 {
				o.told += fmt.Sprintf(", %d %s", rest.n, rest.word)
			}
		}
	}
	if worst == underWay {
		o.why = o.told + w.left(list, func(d *v1.Deployment) string { return name(d) + " (" + Reason(d) + ")" })
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
		if cmdutil.AwaitsPerson(d) {
			return blocked
		}
		if !patient {
			return ill
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

// Reason says how a service on a cluster is, and why, as far as the hub knows.
func Reason(d *v1.Deployment) string {
	text := d.Message
	switch {
	case d.Held != nil:
		text = fmt.Sprintf("%s wait for a person: %s", plural(d.Held.Count, "deletion"), cmdutil.Ack(d))
	case text == "" && len(d.Problems) > 0:
		text = d.Problems[0].Message
	}
	if text == "" {
		return string(d.Phase)
	}
	return string(d.Phase) + ": " + text
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
