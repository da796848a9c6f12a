package existing

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/installer/hubkeys"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

// quiet hears of steps, and says nothing.
type quiet struct{}

func (quiet) Start(string)          {}
func (quiet) Detail(string, string) {}
func (quiet) Done(string, string)   {}
func (quiet) Fail(string, error)    {}

func TestAClusterThatDoesNotAnswerIsNamedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		defer close(closed)
		nowhere := func(context.Context, string, string) (net.Conn, error) {
			<-closed
			return nil, errors.New("closed")
		}
		u := &bringUp{Options: Options{Config: &rest.Config{Host: "https://10.0.0.1:6443", Dial: nowhere}}}
		begin := time.Now()
		_, err := u.look(t.Context())
		var unreachable *UnreachableError
		if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "https://10.0.0.1:6443") || unreachable.Fix() == "" {
			t.Errorf("error = %v", err)
		}
		if took := time.Since(begin); took != answering {
			t.Errorf("it took %s", took)
		}
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stopped) })
		if _, err := u.look(ctx); !errors.Is(err, stopped) || time.Since(begin) > answering+2*time.Second {
			t.Errorf("stopped: %v after %s", err, time.Since(begin))
		}
	})
}

func TestAClusterThatRefusesIsNotCalledSilent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	u := &bringUp{Options: Options{Config: &rest.Config{Host: server.URL}}}
	if _, err := u.look(t.Context()); err == nil || errors.As(err, new(*UnreachableError)) {
		t.Errorf("refused: %v", err)
	}
	server.Close()
	_, err := u.look(t.Context())
	if !errors.As(err, new(*UnreachableError)) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("closed: %v", err)
	}
}

func TestWaitingForTheFleetEndsWithWhatTheHubSaidLast(t *testing.T) {
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for key, value := range map[string]string{"NAME": "Ada", "EMAIL": "ada@example.com"} {
		t.Setenv("GIT_AUTHOR_"+key, value)
		t.Setenv("GIT_COMMITTER_"+key, value)
	}
	made := workspace.Options{Dir: dir, Name: "demo", HubURL: "https://hub", RepoURL: "https://git/x.git"}
	if _, err := workspace.Init(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	head, err := repo.Head()
	if err != nil {
		t.Fatal(err)
	}
	broken := []v1.Deployment{{Service: "web", Cluster: "mgmt", Phase: v1.Failed, Message: "no such image"}}
	for name, test := range map[string]struct {
		says  *v1.Status
		fails error
		want  string
		after time.Duration
	}{
		"an older commit": {
			says: &v1.Status{Commit: v1.Commit{ID: "c0ffee0123"}}, after: patience,
			want: "not up after 10m0s, waiting for the hub to serve commit " + head[:7],
		},
		"nothing": {
			fails: errors.New("connection refused"), after: patience,
			want: "not up after 10m0s: the hub at https://hub does not answer: connection refused",
		},
		"what stays broken": {
			says: &v1.Status{Commit: v1.Commit{ID: head}, Unhealthy: broken}, after: failing,
			want: "not everything is well: web on mgmt is failed: no such image",
		},
		"a refusal": {
			says: &v1.Status{Head: v1.Commit{ID: head}, Refused: []v1.Problem{{File: "services/web.yaml", Line: 3, Message: "no such field"}}},
			want: "the hub refuses commit " + head[:12] + ": services/web.yaml:3: no such field",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &bringUp{repo: repo, keys: &hubkeys.Keys{}, Options: Options{
					HubURL: "https://hub", Cluster: "mgmt", Reporter: quiet{},
					Status: func(context.Context, string, string) (*v1.Status, error) { return test.says, test.fails },
					List:   func(context.Context, string, string) ([]v1.Cluster, error) { return nil, nil },
				}}
				begin := time.Now()
				_, err := u.converge(t.Context())
				if err == nil || err.Error() != test.want {
					t.Errorf("error = %v", err)
				}
				if took := time.Since(begin); took != test.after {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
	t.Run("another cluster", func(t *testing.T) {
		says := &v1.Status{
			Head: v1.Commit{ID: head}, Commit: v1.Commit{ID: head}, Clusters: v1.Counts{v1.Healthy: 1, v1.Failed: 1, v1.Stale: 1},
			Unhealthy: []v1.Deployment{{Service: "web", Cluster: "edge-1", Phase: v1.Failed, Message: "no such image"}},
		}
		u := &bringUp{repo: repo, keys: &hubkeys.Keys{}, Options: Options{
			Cluster: "mgmt", Reporter: quiet{},
			Status: func(context.Context, string, string) (*v1.Status, error) { return says, nil },
			List: func(context.Context, string, string) ([]v1.Cluster, error) {
				return []v1.Cluster{
					{Name: "edge-1", Phase: v1.Failed}, {Name: "edge-2", Phase: v1.Stale, Message: "no report for 3h"}, {Name: "mgmt", Phase: v1.Healthy},
				}, nil
			},
		}}
		text, err := u.converge(t.Context())
		if want := "1 cluster, at " + head[:7]; text != want || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		want := []v1.Problem{
			{Cluster: "edge-1", Message: "cluster edge-1 is failed: web: no such image", Fix: "plural cluster get edge-1"},
			{Cluster: "edge-2", Message: "cluster edge-2 is stale: no report for 3h", Fix: "plural cluster get edge-2"},
		}
		if diff := cmp.Diff(want, u.elsewhere); diff != "" {
			t.Error(diff)
		}
	})
}
