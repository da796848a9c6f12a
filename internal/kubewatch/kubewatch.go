// Package kubewatch owns one watch on an API server, kept up.
//
// It refuses to know what the objects are for: each is reduced to what its reader wants before anything is kept, so that
// a watch costs memory for what is wanted of an object, not for the object.
//
// What the API server has goes to a Sink as a whole, then change by change, for as long as the watch holds; when it
// breaks, it is taken up where it ended, and where that is not possible the whole follows anew. The work is client-go's
// Reflector's; here is when it tries again, and what is told of a failure.
package kubewatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

const (
	// page is how many objects a list asks for at once, where the API server cannot stream them.
	page = 500
	// steady is how long a watch must have held for its end to be nothing unusual.
	steady = 10 * time.Second
)

// Source is what is watched: objects of one resource.
type Source struct {
	resource schema.GroupResource
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch    func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}

// Objects watches whole objects, which are *unstructured.Unstructured, in one namespace or, when it is empty, in all.
// The client must have no overall timeout, which would end the watch.
func Objects(client dynamic.Interface, res schema.GroupVersionResource, namespace string) Source {
	r := client.Resource(res).Namespace(namespace)
	return Source{
		res.GroupResource(),
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, o) },
		r.Watch,
	}
}

// Metadata watches metadata alone, which is *metav1.PartialObjectMetadata, else as Objects does.
func Metadata(client metadata.Interface, res schema.GroupVersionResource, namespace string) Source {
	r := client.Resource(res).Namespace(namespace)
	return Source{
		res.GroupResource(),
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, o) },
		r.Watch,
	}
}

// Item is what is kept of an object.
type Item[T any] struct {
	Namespace, Name string
	// Version is the object's resourceVersion; of a deleted object, the deletion's.
	Version string
	Value   T
}

// Sink takes what a watch sees. Its methods are called one after the other, and are waited for.
type Sink[T any] interface {
	// Replace says all that there is, as of a resourceVersion.
	Replace(items []Item[T], version string)
	Put(Item[T])
	// Delete takes an object as it was last, when it was deleted or is selected no longer.
	Delete(Item[T])
}

// Watch is one watch. Its fields are not to be changed once it runs.
type Watch[T any] struct {
	Source Source
	// Labels and Fields select objects, as kubectl's options do; empty: all.
	Labels, Fields string
	// Reduce is called with objects of the Source's type, from more than one goroutine.
	Reduce func(metav1.Object) T
	Sink   Sink[T]
	// Failed, which may be nil, is told of each try that could not be carried through; the next success calls Replace.
	Failed func(*Error)
	// Again, which may be nil, makes the try after a failure due at once.
	Again <-chan struct{}
}

// Run returns when ctx ends.
func (w *Watch[T]) Run(ctx context.Context) {
	quiet := logr.Discard() // what there is to say goes to Failed
	ctx = logr.NewContext(ctx, quiet)
	reflector := cache.NewReflectorWithOptions(w.listWatch(), nil, store[T]{w}, cache.ReflectorOptions{
		Logger: &quiet, Name: "kubewatch",
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: longest},
	})
	reflector.WatchListPageSize = page
	failures := 0
	for ctx.Err() == nil {
		started := time.Now()
		err := w.failure(reflector.ListAndWatchWithContext(ctx))
		if ctx.Err() != nil {
			return
		}
		if err != nil && w.Failed != nil {
			w.Failed(err)
		}
		if time.Since(started) >= steady {
			failures = 0
		}
		if !w.pause(ctx, backoff(failures, err)) {
			return
		}
		failures++
	}
}

const (
	shortest = 100 * time.Millisecond
	// longest lies between tries that fail for a passing reason.
	longest = 10 * time.Second
	// settled lies between tries for what a person has to change first.
	settled = time.Minute
)

// backoff is the wait before the next try. One that a person has to help waits longer, and starts out longer.
func backoff(failures int, err *Error) time.Duration {
	first, limit := shortest, longest
	if err != nil && (err.Refused() || err.Unserved()) {
		first, limit = time.Second, settled
	}
	delay := limit
	if failures < 10 {
		delay = min(first<<failures, limit)
	}
	return delay/2 + rand.N(delay) // so that the watches of a fleet do not come back in step
}

func (w *Watch[T]) pause(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.Again:
	case <-timer.C:
	}
	return true
}

// listWatch selects, reduces pages as they come, and remembers which request failed.
func (w *Watch[T]) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = "" // else the API server ignores the limit
			}
			o.LabelSelector, o.FieldSelector = w.Labels, w.Fields
			list, err := w.Source.list(ctx, o)
			if err != nil {
				return nil, &Error{"list", w.Source.resource, err}
			}
			return w.reduceList(list)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector, o.FieldSelector = w.Labels, w.Fields
			stream, err := w.Source.watch(ctx, o)
			if err == nil {
				return stream, nil
			}
			failed := &Error{"watch", w.Source.resource, err}
			if o.SendInitialEvents != nil && failed.passing() {
				return nil, opaque{failed}
			}
			return nil, failed
		},
	}
}

// opaque hides from the Reflector that an error passes by itself: it would wait for that without looking at its context.
type opaque struct{ error }
