package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
)

func TestAWatchThatTheHubEndsBeginsAnew(t *testing.T) {
	streams := []string{
		"event: objects\ndata: {\"changed\":[{\"uid\":\"a\",\"kind\":\"Pod\",\"name\":\"web\"}]}\n\nevent: ready\ndata: {}\n\n" +
			"event: later\ndata: {}\n\nevent: reset\ndata: {\"message\":\"agent left\"}\n\n",
		": still here\n\nevent: ready\ndata: {}\n\nevent: objects\ndata: {\"deleted\":[\"a\"]}\n\n",
	}
	c := newClient(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/v1/clusters/edge-1/services/web/objects?watch=1" {
			t.Errorf("got %s", r.URL)
		}
		fmt.Fprint(w, streams[0])
		streams = streams[1:]
	})
	var told []string
	tell := func(format string, args ...any) error {
		told = append(told, fmt.Sprintf(format, args...))
		return nil
	}
	enough := errors.New("enough")
	err := c.WatchObjects(t.Context(), "edge-1", "web", Watching{
		Fresh: func() error { return tell("fresh") },
		Changed: func(o v1.ObjectChanges) error {
			_ = tell("%d changed, %d deleted", len(o.Changed), len(o.Deleted))
			if len(o.Deleted) > 0 {
				return enough
			}
			return nil
		},
		Ready:     func() error { return tell("ready") },
		Connected: func(err error) { _ = tell("connected: %v", err) },
	})
	want := []string{
		"connected: <nil>", "fresh", "1 changed, 0 deleted", "ready", "connected: agent left",
		"connected: <nil>", "fresh", "ready", "0 changed, 1 deleted",
	}
	if diff := cmp.Diff(want, told); !errors.Is(err, enough) || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestAWatchThatIsRefusedIsNotAskedForAgain(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message":"you may not"}`)
	})
	err := c.WatchObjects(t.Context(), "edge-1", "web", Watching{})
	var refused *Error
	if !errors.As(err, &refused) || refused.Message != "you may not" {
		t.Errorf("got %v", err)
	}
}

func TestALiveObjectIsAskedForWithItsClustersToken(t *testing.T) {
	tests := map[string]v1.ObjectRef{
		"/k8s/edge%2F1/api/v1/namespaces/shop/pods/web-0":             {Resource: "pods", Namespace: "shop", Name: "web-0"},
		"/k8s/edge%2F1/apis/apps/v1/namespaces/shop/deployments/web":  {Group: "apps", Version: "v1", Resource: "deployments", Namespace: "shop", Name: "web"},
		"/k8s/edge%2F1/apis/rbac.authorization.k8s.io/v1/roles/a%3Ab": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles", Name: "a:b"},
	}
	for want, at := range tests {
		c := newClient(t, "fleet", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer cluster" || strings.ReplaceAll(r.URL.EscapedPath(), ":", "%3A") != want {
				t.Errorf("got %s with %q, want %s", r.URL.EscapedPath(), r.Header.Get("Authorization"), want)
			}
			fmt.Fprint(w, `{"kind":"x"}`)
		})
		if got, err := c.Kube(t.Context(), "edge/1", v1.KubeToken{Token: "cluster"}, ObjectPath(at), "application/json"); err != nil ||
			string(got) != `{"kind":"x"}` {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

func TestWhatAnAPIServerRefusesIsToldInItsWords(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","message":"secrets \"x\" is forbidden","code":403}`)
	})
	_, err := c.Kube(t.Context(), "edge-1", v1.KubeToken{}, ObjectPath(v1.ObjectRef{Resource: "secrets", Name: "x"}), "application/json")
	var refused *Error
	if !errors.As(err, &refused) || refused.Message != `secrets "x" is forbidden` {
		t.Errorf("got %v", err)
	}
}
