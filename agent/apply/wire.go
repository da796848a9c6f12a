package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
)

// wire sends requests about single objects. All services share what it asks of the API server: so many at once, so many a
// second. It waits for nothing that the API server wants to be waited for: that is for whoever asks again.
type wire struct {
	client rest.Interface
	flight *semaphore.Weighted
	// again bounds how many of those in flight are for objects that failed before: each may take until its timeout, and what
	// works does not wait for what does not.
	again  *semaphore.Weighted
	bucket *rate.Limiter
}

// target is where an object is served, and as whom it is asked for: a service account, NAMESPACE/NAME, or the engine itself.
type target struct {
	id      object.ID
	res     kinds.Resource
	account string
	// whole asks for all of the object, also of a kind without status.
	whole bool
	// again says that the object could not be applied before.
	again bool
}

func newWire(config *rest.Config, client *http.Client, o Options) (*wire, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/apis" // never used: every request names its whole path
	made, err := rest.UnversionedRESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return &wire{
		client: made, flight: semaphore.NewWeighted(int64(o.Parallel)), again: semaphore.NewWeighted(int64(max(o.Parallel/2, 1))),
		bucket: rate.NewLimiter(rate.Limit(o.Rate), max(int(o.Rate), 1)),
	}, nil
}

// path is where the API server has the object.
func (t target) path() []string {
	segments := []string{"apis", t.res.Group, t.res.Version}
	if t.res.Group == "" {
		segments = []string{"api", t.res.Version}
	}
	if t.id.Namespace != "" {
		segments = append(segments, "namespaces", t.id.Namespace)
	}
	return append(segments, t.res.Resource)
}

// Media types of answers. Of kinds that have no status, the metadata tells all that is kept.
const (
	whole        = "application/json"
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

func (t target) accept() string {
	if t.res.Status || t.whole {
		return whole
	}
	return metadataOnly
}

// send waits for its turn and sends a request. The answer is nil when it has no object in it.
func (w *wire) send(ctx context.Context, t target, r *rest.Request, accept string) (answer *unstructured.Unstructured, created bool, err error) {
	if t.again {
		if err := w.again.Acquire(ctx, 1); err != nil {
			return nil, false, err
		}
		defer w.again.Release(1)
	}
	if err := w.bucket.Wait(ctx); err != nil {
		return nil, false, err
	}
	if err := w.flight.Acquire(ctx, 1); err != nil {
		return nil, false, err
	}
	defer w.flight.Release(1)
	if t.account != "" {
		r.SetHeader("Impersonate-User", accountUser(t.account))
	}
	result := r.MaxRetries(0).SetHeader("Accept", accept).Do(ctx)
	raw, err := result.Raw()
	if err := result.Error(); err != nil {
		return nil, false, err
	}
	if err != nil {
		return nil, false, err
	}
	var status int
	result.StatusCode(&status)
	var fields map[string]any
	if err := kjson.Unmarshal(raw, &fields); err != nil { // whole numbers stay whole
		return nil, false, fmt.Errorf("read answer: %w", err)
	}
	answer = &unstructured.Unstructured{Object: fields}
	if answer.GetUID() == "" {
		return nil, false, nil // a Status: the object is not there any more
	}
	return answer, status == http.StatusCreated, nil
}

// ask is send for what has to be answered with the object itself.
func (w *wire) ask(ctx context.Context, t target, r *rest.Request, accept string) (answer *unstructured.Unstructured, created bool, err error) {
	answer, created, err = w.send(ctx, t, r, accept)
	if err == nil && (answer == nil || answer.GetName() != t.id.Name) {
		return nil, false, errors.New("read answer: it is not about the object that was asked for")
	}
	return answer, created, err
}

func accountUser(account string) string {
	return "system:serviceaccount:" + strings.Replace(account, "/", ":", 1)
}

// applying is how one object is applied.
type applying struct {
	manager string
	force   bool
	dryRun  bool
}

// apply makes the object what the body says, as far as the manager is concerned.
func (w *wire) apply(ctx context.Context, t target, body []byte, how applying) (live *unstructured.Unstructured, created bool, err error) {
	accept := t.accept()
	r := w.client.Patch(types.ApplyPatchType).AbsPath(append(t.path(), t.id.Name)...).Body(body).Param("fieldManager", how.manager)
	if how.force {
		r.Param("force", "true")
	}
	if how.dryRun {
		r.Param("dryRun", metav1.DryRunAll)
		accept = whole
	}
	return w.ask(ctx, t, r, accept)
}

// create makes an object that is not there; an error says so when it is.
func (w *wire) create(ctx context.Context, t target, body []byte) (*unstructured.Unstructured, error) {
	live, _, err := w.ask(ctx, t, w.client.Post().AbsPath(t.path()...).Body(body).
		SetHeader("Content-Type", whole).Param("fieldManager", object.Manager), t.accept())
	return live, err
}

// get returns what there is of an object: of kinds without status, the metadata.
func (w *wire) get(ctx context.Context, t target) (*unstructured.Unstructured, error) {
	live, _, err := w.ask(ctx, t, w.client.Get().AbsPath(append(t.path(), t.id.Name)...), t.accept())
	return live, err
}

// getWhole returns all of an object.
func (w *wire) getWhole(ctx context.Context, t target) (*unstructured.Unstructured, error) {
	live, _, err := w.ask(ctx, t, w.client.Get().AbsPath(append(t.path(), t.id.Name)...), whole)
	return live, err
}

// merge changes fields by a JSON merge patch.
func (w *wire) merge(ctx context.Context, t target, patch []byte) error {
	_, _, err := w.send(ctx, t, w.client.Patch(types.MergePatchType).AbsPath(append(t.path(), t.id.Name)...).Body(patch).
		Param("fieldManager", object.Manager), t.accept())
	return err
}

// delete asks for an object to go: the one with that uid and, unless it is empty, at that resourceVersion. It returns what is
// left of it while it waits for its finalizers.
func (w *wire) delete(ctx context.Context, t target, uid, version string) (*unstructured.Unstructured, error) {
	id, policy := types.UID(uid), metav1.DeletePropagationBackground
	exactly := &metav1.Preconditions{UID: &id}
	if version != "" {
		exactly.ResourceVersion = &version
	}
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: exactly, PropagationPolicy: &policy,
	})
	if err != nil {
		return nil, err
	}
	left, _, err := w.send(ctx, t, w.client.Delete().AbsPath(append(t.path(), t.id.Name)...).Body(body).
		SetHeader("Content-Type", whole), whole)
	return left, err
}
