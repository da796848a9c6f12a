package agent

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// TestAHubGetsNoMoreThanTheClustersPolicyShows is about a hub that was taken over: it asks for whatever the agent could see.
func TestAHubGetsNoMoreThanTheClustersPolicyShows(t *testing.T) {
	policy := apiproxy.Policy{Mode: apiproxy.Full}
	s := shown{func() apiproxy.Policy { return policy }}
	secrets := &tunnelapi.ObjectsRequest{View: &tunnelapi.View{Version: "v1", Resource: "secrets"}}
	changes := make(chan *tunnelapi.ObjectsEvent)
	objects := s.objects(func(_ context.Context, _ *tunnelapi.ObjectsRequest, send func(*tunnelapi.ObjectsEvent) error) error {
		for event := range changes {
			if err := send(event); err != nil {
				return err
			}
		}
		return nil
	})
	sent := make(chan *tunnelapi.ObjectsEvent)
	ended := make(chan error)
	follow := func(request *tunnelapi.ObjectsRequest) {
		ended <- objects(t.Context(), request, func(e *tunnelapi.ObjectsEvent) error { sent <- e; return nil })
	}
	go follow(secrets)
	changes <- &tunnelapi.ObjectsEvent{Changed: []*tunnelapi.Object{{Uid: "1", Version: "v1", Resource: "secrets", Name: "db"}}}
	if got := <-sent; len(got.GetChanged()) != 1 {
		t.Errorf("full: %v", got)
	}
	var err error
	if policy, err = apiproxy.ParsePolicy(map[string]string{"rules": "- {verbs: [list], resources: [pods], namespaces: [shop]}"}); err != nil {
		t.Fatal(err)
	}
	changes <- &tunnelapi.ObjectsEvent{Changed: []*tunnelapi.Object{{Uid: "2", Version: "v1", Resource: "secrets", Name: "new"}}}
	if err := <-ended; status.Code(err) != codes.PermissionDenied {
		t.Errorf("a view that is under way goes on: %v", err)
	}
	if err := objects(t.Context(), secrets, nil); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a view that nobody may have begins: %v", err)
	}

	go follow(&tunnelapi.ObjectsRequest{Service: "web"})
	tree := &tunnelapi.ObjectsEvent{Snapshot: true, Changed: []*tunnelapi.Object{
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
	policy := apiproxy.Policy{Mode: apiproxy.Off}
	diff := shown{func() apiproxy.Policy { return policy }}.diff(func(context.Context, *tunnelapi.DiffRequest) (*tunnelapi.DiffReply, error) {
		return &tunnelapi.DiffReply{Objects: []*tunnelapi.ObjectDiff{{
			Resource: "configmaps", Namespace: "shop", Name: "web", Action: "changed", More: 3, Message: "m",
			Fields: []*tunnelapi.FieldDiff{{Path: "data.url", Live: "secret", Desired: "other"}},
		}}}, nil
	})
	for _, mode := range []string{apiproxy.Off, apiproxy.ReadOnly} {
		policy.Mode = mode
		reply, err := diff(t.Context(), &tunnelapi.DiffRequest{Service: "web"})
		o := reply.GetObjects()[0]
		told := len(o.GetFields()) > 0 || o.GetMore() > 0 || o.GetMessage() != ""
		if err != nil || told != (mode != apiproxy.Off) || o.GetAction() != "changed" || o.GetName() != "web" {
			t.Errorf("%s: %v, %v", mode, reply, err)
		}
	}
}
