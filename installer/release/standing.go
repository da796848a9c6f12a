package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/object"
)

// standing is how far a deployment has come, after one pass.
type standing struct {
	objects, well int
	// open are the objects that are not as they should be, the worst first.
	open []open
	// applied says that there is nothing left to apply, deferred that there is something left to delete, later.
	applied, deferred bool
	// waits is what the engine waits for, or nothing.
	waits string
	// retry is when to look again though nothing changes; zero: no need to.
	retry time.Duration
	held  *apply.Held
}

// open is one object that is not as it should be.
type open struct {
	id      object.ID
	reason  string
	message string
	err     *apply.Error // nil when it was accepted
}

// note keeps what somebody may wonder about.
func (o *Outcome) note(notes []string) {
	for _, note := range notes {
		if !slices.Contains(o.Notes, note) {
			o.Notes = append(o.Notes, note)
		}
	}
}

// stand judges a pass as an agent does, and keeps what it did.
func (r *release) stand(result *apply.Result) *standing {
	s := &standing{applied: result.Done, waits: r.hide(result.Waiting), retry: result.Retry, held: result.Held}
	for i := range result.Objects {
		o := &result.Objects[i]
		r.outcome.did(o)
		if o.Action == apply.Deleted {
			continue
		}
		s.objects++
		reason, message := verdict(o)
		if reason == "" {
			s.well++
			continue
		}
		s.open = append(s.open, open{o.ID(), reason, r.hide(message), o.Err})
	}
	slices.SortStableFunc(s.open, func(a, b open) int { return cmp.Compare(a.severity(), b.severity()) })
	for _, note := range result.Notes {
		r.outcome.note([]string{r.hide(note)})
	}
	s.deferred = !r.prune && result.Waiting == apply.DeferredPrune
	return s
}

// did notes what became of an object: what was done first says more than that it is unchanged since.
func (o *Outcome) did(r *apply.ObjectResult) {
	switch r.Action {
	case apply.Created, apply.Configured, apply.Recreated, apply.Deleted:
	default:
		return
	}
	if o.Changed == nil {
		o.Changed = map[string]apply.Action{}
	}
	if name := r.ID().String(); o.Changed[name] == "" {
		o.Changed[name] = r.Action
	}
}

// verdict is why an object is not as it should be, or nothing.
func verdict(o *apply.ObjectResult) (reason, message string) {
	switch {
	case o.Err != nil:
		return string(o.Err.Reason), o.Err.Message
	case o.Action == apply.Kept:
		return "", ""
	case o.Action == apply.Waiting, o.Action == apply.Recreated:
		return string(health.Progressing), o.Message
	case o.Health.Phase == health.Progressing, o.Health.Phase == health.Degraded, o.Health.Phase == health.Unknown:
		return string(o.Health.Phase), cmp.Or(o.Health.Message, "it is "+strings.ToLower(string(o.Health.Phase)))
	}
	return "", ""
}

// severity sorts what a person has to know first.
func (o open) severity() int {
	switch {
	case o.err != nil && final(o.err.Reason):
		return 0
	case o.err != nil && o.err.Reason != apply.Blocked:
		return 1
	case o.reason == string(health.Degraded), o.reason == string(health.Unknown):
		return 2
	case o.err != nil:
		return 3
	case o.message == "":
		return 5
	}
	return 4
}

// ready says whether there is nothing left to wait for.
func (s *standing) ready() bool {
	return len(s.open) == 0 && s.held == nil && (s.applied || s.deferred)
}

// final is the first object that time alone is unlikely to mend, or nil.
func (s *standing) final() *open {
	if len(s.open) == 0 || s.open[0].severity() > 0 {
		return nil
	}
	return &s.open[0]
}

// text says in a line what is waited for.
func (s *standing) text() string {
	text := fmt.Sprintf("%d of %d objects ready", s.well, s.objects)
	switch {
	case len(s.open) > 0 && s.open[0].message != "":
		return text + ": " + s.open[0].id.String() + ": " + oneLine(s.open[0].message)
	case len(s.open) > 0:
		return text + ": " + s.open[0].id.String()
	case s.held != nil:
		return text + ": " + s.held.Message
	case s.waits != "":
		return text + ": waits for " + s.waits
	}
	return text
}

// notReady is the error about what stands. Why is what else is to blame, or nil.
func (r *release) notReady(ctx context.Context, s *standing, why error) error {
	e := &NotReadyError{Cluster: r.name, Service: r.d.Service, Err: why}
	switch {
	case len(s.open) > 0:
		first := s.open[0]
		e.Object, e.Reason, e.Message, e.Others = first.id.String(), first.reason, oneLine(first.message), len(s.open)-1
		if first.err != nil {
			e.Solution, e.Err = solution(first.err), errors.Join(first.err, why)
			break
		}
		if event := r.hide(r.warning(ctx, first.id)); event != "" && !strings.Contains(e.Message, event) {
			e.Message += ": " + event
		}
		e.Solution = cmp.Or(advice(e.Message, first.id.Namespace), fmt.Sprintf("kubectl describe -n %s %s %s",
			cmp.Or(first.id.Namespace, "default"), strings.ToLower(first.id.Kind), first.id.Name))
	case s.held != nil:
		e.Reason, e.Message = Held, r.hide(s.held.Message)
		e.Solution = "look at what would be deleted, then: plural service ack " + r.d.Service
	default:
		e.Reason, e.Message = Waiting, "waits for "+cmp.Or(s.waits, "the engine")
	}
	return e
}

// gaveUp is the error when there is no time left. Last is what the last pass failed with, or nil.
func (r *release) gaveUp(ctx context.Context, s *standing, last error) error {
	why := context.Cause(ctx)
	if s == nil {
		return r.silent(fmt.Errorf("cluster %s: service %s: %w", r.name, r.d.Service, cmp.Or(last, why)))
	}
	return r.notReady(ctx, s, why)
}

// askWarning bounds the search for an event, which may come when there is no time left for anything else.
const askWarning = 5 * time.Second

// warning is the newest warning in the cluster's events about an object or what was made for it, such as a Deployment's Pods.
func (r *release) warning(ctx context.Context, id object.ID) string {
	if id.Namespace == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWarning)
	defer cancel()
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		return ""
	}
	events := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(id.Namespace)
	list, err := events.List(ctx, metav1.ListOptions{FieldSelector: "type=Warning", Limit: 500})
	if err != nil {
		return ""
	}
	var newest, text string
	for i := range list.Items {
		e := &list.Items[i]
		name, _, _ := unstructured.NestedString(e.Object, "involvedObject", "name")
		if name != id.Name && !strings.HasPrefix(name, id.Name+"-") {
			continue
		}
		last, _, _ := unstructured.NestedString(e.Object, "lastTimestamp")
		if at := cmp.Or(last, e.GetCreationTimestamp().UTC().Format(time.RFC3339)); at >= newest {
			reason, _, _ := unstructured.NestedString(e.Object, "reason")
			message, _, _ := unstructured.NestedString(e.Object, "message")
			newest, text = at, reason+": "+oneLine(message)
		}
	}
	return text
}
