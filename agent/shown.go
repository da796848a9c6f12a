package agent

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/agent/reach"
	"github.com/pluralsh/plural/api/channel"
)

// shown is what the hub may be told of objects, for people to see. It asks for that on its own account, and lets each person see
// what they may; so that this does not hang on the hub alone, what the cluster's own policy keeps from everybody does not leave
// the cluster. A service's own objects are told of in any case: reports do so too.
type shown struct{ policy func() reach.Policy }

type (
	objectsCall = func(context.Context, *channel.ObjectsRequest, func(*channel.ObjectsEvent) error) error
	diffCall    = func(context.Context, *channel.DiffRequest) (*channel.DiffReply, error)
)

// objects is a call less what is not shown, also when the policy changes while it lasts.
func (s shown) objects(call objectsCall) objectsCall {
	return func(ctx context.Context, request *channel.ObjectsRequest, send func(*channel.ObjectsEvent) error) error {
		if view := request.GetView(); view != nil {
			if err := s.view(view); err != nil {
				return err
			}
			return call(ctx, request, func(event *channel.ObjectsEvent) error {
				if err := s.view(view); err != nil {
					return err
				}
				return send(event)
			})
		}
		return call(ctx, request, func(event *channel.ObjectsEvent) error { return send(s.event(event)) })
	}
}

func (s shown) view(view *channel.View) error {
	if s.policy().Shows(view.GetGroup(), view.GetResource(), view.GetNamespace()) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "the cluster's ConfigMap %s/%s lets nobody see that", reach.Namespace, reach.ConfigMap)
}

// event leaves the given one as it is: others may be sent the same.
func (s shown) event(event *channel.ObjectsEvent) *channel.ObjectsEvent {
	policy := s.policy()
	out := &channel.ObjectsEvent{Deleted: event.GetDeleted(), Snapshot: event.GetSnapshot()}
	for _, o := range event.GetChanged() {
		if o.GetApplied() || policy.Shows(o.GetGroup(), o.GetResource(), o.GetNamespace()) {
			out.Changed = append(out.Changed, o)
		} else {
			out.Deleted = append(out.Deleted, o.GetUid()) // it may have been shown before
		}
	}
	return out
}

// diff is a call that says of what is not shown that it differs, and not how.
func (s shown) diff(call diffCall) diffCall {
	return func(ctx context.Context, request *channel.DiffRequest) (*channel.DiffReply, error) {
		reply, err := call(ctx, request)
		policy := s.policy()
		for _, o := range reply.GetObjects() {
			if !policy.Shows(o.GetGroup(), o.GetResource(), o.GetNamespace()) {
				o.Fields, o.More, o.Message = nil, 0, ""
			}
		}
		return reply, err
	}
}
