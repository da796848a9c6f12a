package livequery

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	// pace is how long changes are gathered before they are sent.
	pace = 200 * time.Millisecond
	// maxEvent is how large one event may get, in bytes, and maxUnsent how many objects a reader may be behind.
	maxEvent  = tunnelapi.MaxMessage / 4
	maxUnsent = 2 * MaxObjects
)

// kind follows one table.
func (v *Views) kind(ctx context.Context, view *tunnelapi.View, send func(*tunnelapi.ObjectsEvent) error) error {
	at, gvk, res, err := v.find(ctx, view)
	if err != nil {
		return err
	}
	t, err := v.open(at, gvk, res)
	if err != nil {
		return err
	}
	defer v.close(t)
	select {
	case <-t.synced:
	case <-t.ended:
		return t.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
	wake := make(chan struct{}, 1)
	r := t.read(wake, true)
	defer t.forget(r)
	for out := (outlet{send: send}); ; {
		changed, deleted, err := t.take(r)
		if err != nil {
			return err
		}
		if err := out.put(changed, deleted); err != nil {
			return err
		}
		if err := out.pause(ctx, wake, nil); err != nil {
			return err
		}
	}
}

// find says where the API server serves what a view names.
func (v *Views) find(ctx context.Context, view *tunnelapi.View) (place, schema.GroupVersionKind, kinds.Resource, error) {
	catalog, err := v.o.Kinds.With(ctx, nil)
	if err != nil {
		return place{}, schema.GroupVersionKind{}, kinds.Resource{}, &Error{Code: codes.Unavailable, Message: err.Error()}
	}
	for gvk, res := range catalog.All() {
		if res.Group != view.GetGroup() || res.Resource != view.GetResource() {
			continue
		}
		if other := gvk.GroupKind().WithVersion(view.GetVersion()); catalog.Serves(other) {
			gvk = other
			res, _ = catalog.Exact(other)
		}
		if !res.Namespaced && view.GetNamespace() != "" {
			break
		}
		return place{res.GroupVersionResource, view.GetNamespace()}, gvk, res, nil
	}
	gr := schema.GroupResource{Group: view.GetGroup(), Resource: view.GetResource()}
	if catalog.Silent(gr.Group) {
		return place{}, schema.GroupVersionKind{}, kinds.Resource{}, &Error{
			Code: codes.Unavailable, Message: "what serves the group " + strconv.Quote(gr.Group) + " does not answer",
		}
	}
	return place{}, schema.GroupVersionKind{}, kinds.Resource{}, &Error{
		Code: codes.NotFound, Message: fmt.Sprintf("the cluster has no %s to look at there", strconv.Quote(gr.String())),
		Fix: "name the kind as kubectl api-resources does, and a namespace only where it has one",
	}
}

// outlet sends events of a bounded size, some times a second.
type outlet struct {
	send func(*tunnelapi.ObjectsEvent) error
	// whole says that the end of what there was at first has been sent, last when the newest event was.
	whole bool
	last  time.Time
}

// put sends what changed, and at the first call that this is all.
func (o *outlet) put(changed []*tunnelapi.Object, deleted []string) error {
	event, size := &tunnelapi.ObjectsEvent{}, 0
	flush := func() error {
		if size == 0 && !event.GetSnapshot() {
			return nil
		}
		o.last = time.Now()
		err := o.send(event)
		event, size = &tunnelapi.ObjectsEvent{}, 0
		return err
	}
	for _, uid := range deleted {
		event.Deleted = append(event.Deleted, uid)
		if size += len(uid) + 4; size > maxEvent {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	for _, object := range changed {
		event.Changed = append(event.Changed, object)
		if size += proto.Size(object) + 4; size > maxEvent {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	event.Snapshot, o.whole = !o.whole, true
	return flush()
}

// pause waits for a change, but no shorter than the pace; also, where it is not nil, is as good as a change.
func (o *outlet) pause(ctx context.Context, wake <-chan struct{}, also <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wake:
	case <-also:
	}
	wait := time.NewTimer(time.Until(o.last.Add(pace)))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return nil
	}
}
