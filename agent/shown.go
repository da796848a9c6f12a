package agent

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// shown is what the hub may be told of objects, for people to see. It asks for that on its own account, and lets each person see
// what they may; so that this does not hang on the hub alone, what the cluster's own policy keeps from everybody does not leave
// the cluster. A service's own objects are told of in any case: reports do so too.
type shown struct{ policy func() apiproxy.Policy }

type (
	objectsCall = func(context.Context, *tunnelapi.ObjectsRequest, func(*tunnelapi.ObjectsEvent) error) error
	diffCall    = func(context.Context, *tunnelapi.DiffRequest) (*tunnelapi.DiffReply, error)
)

// objects is a call less what is not shown, also when the policy changes while it lasts.
func (s shown) objects(call objectsCall) objectsCall {
	return func(ctx context.Context, request *tunnelapi.ObjectsRequest, send func(*tunnelapi.ObjectsEvent) error) error {
		if view := request.GetView(); view != nil {
			if err := s.view(view); err != nil {
				return err
			}
			return call(ctx, request, func(event *tunnelapi.ObjectsEvent) error {
				if err := s.view(view); err != nil {
					return err
				}
				return send(event)
			})
		}
		return call(ctx, request, func(event *tunnelapi.ObjectsEvent) error { return send(s.event(event)) })
	}
}

func (s shown) view(view *tunnelapi.View) error {
	if s.policy().Shows(view.GetGroup(), view.GetResource(), view.GetNamespace()) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "the cluster's ConfigMap %s/%s lets nobody see that", apiproxy.Namespace, apiproxy.ConfigMap)
}

// event leaves the given one as it is: others may be sent the same.
func (s shown) event(event *tunnelapi.ObjectsEvent) *tunnelapi.ObjectsEvent {
	policy := s.policy()
	out := &tunnelapi.ObjectsEvent{Deleted: event.GetDeleted(), Snapshot: event.GetSnapshot()}
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
	return func(ctx context.Context, request *tunnelapi.DiffRequest) (*tunnelapi.DiffReply, error) {
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
