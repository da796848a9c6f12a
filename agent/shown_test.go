package agent

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/agent/reach"
	"github.com/pluralsh/plural/api/channel"
)

// TestAHubGetsNoMoreThanTheClustersPolicyShows is about a hub that was taken over: it asks for whatever the agent could see.
func TestAHubGetsNoMoreThanTheClustersPolicyShows(t *testing.T) {
	policy := reach.Policy{Mode: reach.Full}
	s := shown{func() reach.Policy { return policy }}
	secrets := &channel.ObjectsRequest{View: &channel.View{Version: "v1", Resource: "secrets"}}
	changes := make(chan *channel.ObjectsEvent)
	objects := s.objects(func(_ context.Context, _ *channel.ObjectsRequest, send func(*channel.ObjectsEvent) error) error {
		for event := range changes {
			if err := send(event); err != nil {
				return err
			}
		}
		return nil
	})
	sent := make(chan *channel.ObjectsEvent)
	ended := make(chan error)
	follow := func(request *channel.ObjectsRequest) {
		ended <- objects(t.Context(), request, func(e *channel.ObjectsEvent) error { sent <- e; return nil })
	}
	go follow(secrets)
	changes <- &channel.ObjectsEvent{Changed: []*channel.Object{{Uid: "1", Version: "v1", Resource: "secrets", Name: "db"}}}
	if got := <-sent; len(got.GetChanged()) != 1 {
		t.Errorf("full: %v", got)
	}
	var err error
	if policy, err = reach.ParsePolicy(map[string]string{"rules": "- {verbs: [list], resources: [pods], namespaces: [shop]}"}); err != nil {
		t.Fatal(err)
	}
	changes <- &channel.ObjectsEvent{Changed: []*channel.Object{{Uid: "2", Version: "v1", Resource: "secrets", Name: "new"}}}
	if err := <-ended; status.Code(err) != codes.PermissionDenied {
		t.Errorf("a view that is under way goes on: %v", err)
	}
	if err := objects(t.Context(), secrets, nil); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a view that nobody may have begins: %v", err)
	}

	go follow(&channel.ObjectsRequest{Service: "web"})
	tree := &channel.ObjectsEvent{Snapshot: true, Changed: []*channel.Object{
		{Uid: "own", Group: "apps", Resource: "deployments", Namespace: "shop", Applied: true},
		{Uid: "pod", Resource: "pods", Namespace: "shop"},
		{Uid: "set", Group: "apps", Resource: "replicasets", Namespace: "shop"},
	}}
	changes <- tree
	got := <-sent
	if len(got.GetChanged()) != 2 || got.GetChanged()[0].GetUid() != "own" || got.GetChanged()[1].GetUid() != "pod" || !got.GetSnapshot() {
		t.Errorf("a service's tree: %v", got)
	}
	if len(tree.GetChanged()) != 3 {
		t.Error("what others are sent was changed")
	}
	close(changes)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestADiffSaysNothingOfWhatThePolicyKeeps(t *testing.T) {
	policy := reach.Policy{Mode: reach.Off}
	diff := shown{func() reach.Policy { return policy }}.diff(func(context.Context, *channel.DiffRequest) (*channel.DiffReply, error) {
		return &channel.DiffReply{Objects: []*channel.ObjectDiff{{
			Resource: "configmaps", Namespace: "shop", Name: "web", Action: "changed", More: 3, Message: "m",
			Fields: []*channel.FieldDiff{{Path: "data.url", Live: "secret", Desired: "other"}},
		}}}, nil
	})
	for _, mode := range []string{reach.Off, reach.ReadOnly} {
		policy.Mode = mode
		reply, err := diff(t.Context(), &channel.DiffRequest{Service: "web"})
		o := reply.GetObjects()[0]
		told := len(o.GetFields()) > 0 || o.GetMore() > 0 || o.GetMessage() != ""
		if err != nil || told != (mode != reach.Off) || o.GetAction() != "changed" || o.GetName() != "web" {
			t.Errorf("%s: %v, %v", mode, reply, err)
		}
	}
}
