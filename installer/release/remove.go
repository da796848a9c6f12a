package release

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Leftovers are what a removal left in a cluster, sorted by object.
type Leftovers struct {
	// Kept objects stay for good, and are nobody's: protected kinds, what is annotated to stay, what somebody else made anew.
	Kept []Left
	// Stuck objects did not go.
	Stuck []Left
	// Notes say what somebody may wonder about, such as hooks that did not run.
	Notes []string
}

// Left is one object, and why it is still there.
type Left struct{ Object, Reason string }

// StuckError says that objects of a service that is removed did not go. What went stays gone, and another call goes on.
type StuckError struct {
	Cluster, Service string
	Stuck            []Left
	Err              error
}

// Error names the first.
func (e *StuckError) Error() string {
	text := fmt.Sprintf("cluster %s: service %s is not gone", e.Cluster, e.Service)
	if len(e.Stuck) > 0 {
		text += fmt.Sprintf(": %s: %s", e.Stuck[0].Object, e.Stuck[0].Reason)
	}
	if len(e.Stuck) > 1 {
		text += fmt.Sprintf(" (and %d more objects)", len(e.Stuck)-1)
	}
	return text
}

// Unwrap is why nobody waits any longer.
func (e *StuckError) Unwrap() error { return e.Err }

// Fix says what to do.
func (e *StuckError) Fix() string {
	for _, left := range e.Stuck {
		if strings.Contains(left.Reason, "finalizers") {
			return "bring back whoever takes the finalizers off, or take them off with kubectl edit; then run the command again"
		}
	}
	return "mend what it says, then run the command again"
}

// Remove deletes what a service has in the cluster, in reverse order, and returns once nothing is left that may go. What stays,
// and why, is in the Leftovers, which are there in any case. A *StuckError says that objects did not go; the next call goes on
// from there. Namespace is the service's; empty: nobody knows.
func (c *Cluster) Remove(ctx context.Context, service, namespace string, told func(text string)) (*Leftovers, error) {
	return c.remove(ctx, apply.Removal{Service: service, Namespace: namespace}, &removal{told: changes(told)})
}

// Uproot is Remove for a service that was to leave its objects behind: they go too.
func (c *Cluster) Uproot(ctx context.Context, service, namespace string, told func(text string)) (*Leftovers, error) {
	return c.remove(ctx, apply.Removal{Service: service, Namespace: namespace, Outright: true}, &removal{told: changes(told)})
}

// Retire is Remove for a deployment that can still be rendered, so that its hooks of deletion run.
func (c *Cluster) Retire(ctx context.Context, d *resolve.Deployment, r *preview.Renderer, told func(text string)) (*Leftovers, error) {
	asked := apply.Removal{Service: d.Service, Namespace: d.Namespace, OwnRepository: d.OwnRepository}
	made := &release{Cluster: c, d: d, renderer: r, told: changes(told)}
	if d.Hold == nil {
		asked.Objects = func(ctx context.Context) ([]*unstructured.Unstructured, error) {
			if made.made == nil {
				if err := made.render(ctx, false); err != nil {
					return nil, err
				}
			}
			return made.made.All(), nil
		}
	}
	return c.remove(ctx, asked, &removal{told: made.told, hide: made.hide})
}

// removal is a removal under way.
type removal struct {
	told func(string)
	hide func(string) string // nil: nothing was opened for it
	kept map[string]string   // reasons by object
	said Outcome             // its notes
	// stuck is the last pass's, refused says that something of it is refused for good.
	stuck   []Left
	refused bool
}

func (c *Cluster) remove(ctx context.Context, asked apply.Removal, r *removal) (*Leftovers, error) {
	r.kept = map[string]string{}
	if r.hide == nil {
		r.hide = func(text string) string { return text }
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	if err := c.begin(ctx, r.told); err != nil {
		return r.leftovers(), err
	}
	news, end, err := c.listen(ctx, asked.Service)
	if err != nil {
		return r.leftovers(), err
	}
	defer end()
	if err := c.untilGone(ctx, asked, r, news); err != nil {
		return r.leftovers(), err
	}
	c.mu.Lock()
	delete(c.applied, asked.Service)
	c.mu.Unlock()
	c.keepNamespace(ctx, asked.Namespace, r)
	return r.leftovers(), nil
}

func (c *Cluster) untilGone(ctx context.Context, asked apply.Removal, r *removal, news <-chan struct{}) error {
	away := outage{cluster: c, told: r.told}
	var refused time.Time
	for {
		result, err := c.engine.Remove(ctx, asked)
		if ctx.Err() == nil && err != nil {
			if err := away.again(ctx, err); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			away.over()
			r.take(result)
			if result.Done {
				return nil
			}
		}
		switch {
		case !r.refused:
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		}
		if ctx.Err() != nil || r.refused && time.Since(refused) >= c.options.Grace {
			return &StuckError{Cluster: c.name, Service: asked.Service, Stuck: r.stuck, Err: context.Cause(ctx)}
		}
		c.wait(ctx, news, result.Retry, refused)
	}
}

// take notes what a pass left.
func (r *removal) take(result *apply.Result) {
	r.stuck, r.refused = nil, false
	for _, note := range result.Notes {
		r.said.note([]string{r.hide(note)})
	}
	for i := range result.Objects {
		o := &result.Objects[i]
		name := o.ID().String()
		switch {
		case o.Err != nil:
			r.stuck = append(r.stuck, Left{name, r.hide(oneLine(o.Err.Message))})
			r.refused = r.refused || final(o.Err.Reason)
		case o.Action == apply.Kept && strings.HasPrefix(o.Message, "it goes after "), o.Action == apply.Waiting:
			r.stuck = append(r.stuck, Left{name, r.hide(o.Message)})
		case o.Action == apply.Kept:
			r.kept[name] = r.hide(o.Message)
		case o.Action == apply.Deleted && o.Message != "":
			r.stuck = append(r.stuck, Left{name, r.hide(o.Message)})
		}
	}
	for i := range r.stuck { // what is known to block comes first
		if strings.Contains(r.stuck[i].Reason, "finalizers") {
			r.stuck[0], r.stuck[i] = r.stuck[i], r.stuck[0]
			break
		}
	}
	for _, left := range r.stuck {
		delete(r.kept, left.Object)
	}
	text := fmt.Sprintf("%d objects are on their way out", len(r.stuck))
	if len(r.stuck) > 0 {
		text += ": " + r.stuck[0].Object + ": " + r.stuck[0].Reason
	} else if result.Waiting != "" {
		text = r.hide(result.Waiting)
	}
	r.told(text)
}

func (r *removal) leftovers() *Leftovers {
	out := &Leftovers{Stuck: r.stuck, Notes: r.said.Notes}
	for name, reason := range r.kept {
		out.Kept = append(out.Kept, Left{name, reason})
	}
	slices.SortFunc(out.Kept, func(a, b Left) int { return strings.Compare(a.Object, b.Object) })
	return out
}

// keepNamespace tells of the service's namespace when it is still there and no service owns it: whatever else lies in it is not
// known here.
func (c *Cluster) keepNamespace(ctx context.Context, name string, r *removal) {
	id := object.ID{Kind: "Namespace", Name: name}
	if name == "" || name == metav1.NamespaceDefault || name == object.SystemNamespace || strings.HasPrefix(name, "kube-") || r.kept[id.String()] != "" {
		return
	}
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return
	}
	live, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, name,
		metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (live.GetDeletionTimestamp() != nil || live.GetLabels()[object.ServiceLabel] != ""):
	case err != nil:
		c.options.Log.Debug("whether a namespace is left is not known", "namespace", name, "error", err)
	default:
		r.kept[id.String()] = "no service owns it, and others may use it: kubectl delete namespace " + name
	}
}
