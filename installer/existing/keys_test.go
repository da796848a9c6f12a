package existing

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/installer/hubkeys"
	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/rekey"
)

// flaky is a way to an API server on which a restart is lost while it is down.
type flaky struct {
	http.RoundTripper
	down atomic.Bool
}

func (f *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.down.Load() && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/statefulsets/") {
		return nil, errors.New("connection lost")
	}
	return f.RoundTripper.RoundTrip(r)
}

// set is a hub's, as far as the API server is concerned.
const set = `{
  "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "plural-hub"},
  "spec": {
    "serviceName": "plural-hub", "selector": {"matchLabels": {"app.kubernetes.io/name": "plural-hub"}},
    "template": {
      "metadata": {"labels": {"app.kubernetes.io/name": "plural-hub"}},
      "spec": {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
          "name": "hub", "image": "example.com/hub:1",
          "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}
        }]
      }
    }
  }
}`

func TestARestartThatFailedIsMadeByTheNextRunAndByNoneAfterIt(t *testing.T) {
	cluster := kubetest.Start(t)
	way := &flaky{}
	cluster.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		way.RoundTripper = next
		return way
	})
	kube, err := dynamic.NewForConfig(cluster.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-fleet.OperatorLifetime)
	keys, err := hubkeys.Prepare(t.Context(), kube, hubkeys.Request{Now: func() time.Time { return long }})
	if err == nil {
		err = keys.Install(t.Context(), kube)
	}
	if err != nil {
		t.Fatal(err)
	}
	cluster.RemoveLater(t, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, hubkeys.Namespace, hubkeys.SecretName)

	statefulSets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	hub := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(set), &hub.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.Resource(statefulSets).Namespace(hubkeys.Namespace).Create(t.Context(), hub, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.RemoveLater(t, statefulSets, hubkeys.Namespace, "plural-hub")
	before := pod(t, kube, "")

	run := func() error {
		_, err := (&bringUp{kube: kube}).hub(t.Context())
		return err
	}
	way.down.Store(true)
	if err := run(); err == nil || !strings.Contains(err.Error(), "restart the hub") {
		t.Fatalf("a run whose restart is lost says %v", err)
	}
	way.down.Store(false)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	after := pod(t, kube, before)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	generation := func() int64 {
		is, err := kube.Resource(statefulSets).Namespace(hubkeys.Namespace).Get(t.Context(), "plural-hub", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return is.GetGeneration()
	}
	if generation() != 2 || pod(t, kube, "") != after {
		t.Errorf("a run with nothing to do restarts the hub: it is of generation %d", generation())
	}

	// Replicas of another authority cannot be replaced one by one; this run ends before it restarts any.
	rotated, err := hubkeys.Prepare(t.Context(), kube, hubkeys.Request{Rotate: []hubkeys.Part{hubkeys.Replicas}})
	if err == nil {
		err = rotated.Install(t.Context(), kube)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	pod(t, kube, after)
	if generation() != 2 {
		t.Error("with another authority replicas are replaced one after the other by the run after the one that made it")
	}
}

func TestARunSaysWhichKeysOfTheHubItMade(t *testing.T) {
	cluster := kubetest.Start(t)
	u := &bringUp{kube: cluster.Dynamic}
	text, err := u.hub(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cluster.RemoveLater(t, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, hubkeys.Namespace, hubkeys.SecretName)
	if want := "plural-system/plural-hub, new token, new identity, new hook-secret, new signing-key, new replicas"; text != want {
		t.Errorf("it says %q, want %q", text, want)
	}
	if text, err = u.hub(t.Context()); err != nil || text != "as they were" {
		t.Errorf("the next one says %q, %v", text, err)
	}
}

// sealed is a clone of a repo in which alice seals.
func sealed(t *testing.T) Options {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "Alice")
		t.Setenv("GIT_"+who+"_EMAIL", "alice@example.com")
	}
	dir, origin := filepath.Join(t.TempDir(), "fleet"), filepath.Join(t.TempDir(), "origin.git")
	git := func(args ...string) {
		t.Helper()
		if _, err := (gitexec.Call{Args: args}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q", "--bare", origin)
	if _, err := workspace.Init(t.Context(), workspace.Options{Dir: dir, Name: "fleet"}); err != nil {
		t.Fatal(err)
	}
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	git("-C", dir, "remote", "add", "origin", origin)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, Confirmed: trust.Store{Dir: t.TempDir()}}
	o.Person = func(context.Context) (string, error) { return "alice", nil }
	o.Keys = workspace.Keys{
		Identities: func() ([]age.Identity, error) { return []age.Identity{id}, nil }, Confirmed: o.Confirmed,
	}
	repo.UseKeys(o.Keys)
	plan, err := rekey.Begin(t.Context(), repo, o.Keys, o.Confirmed, rekey.Beginning{
		Person: rekey.Person{Name: "alice", Keys: []byte(id.Recipient().String() + "\n")},
		Group:  "fleet", Patterns: []string{"secrets/**"},
	})
	if err == nil {
		_, err = plan.Apply(t.Context(), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestARunSaysThatItLetTheHubIntoItsGroup(t *testing.T) {
	cluster := kubetest.Start(t)
	u := &bringUp{Options: sealed(t), kube: cluster.Dynamic}
	var err error
	if u.repo, err = workspace.Find(u.Dir); err != nil {
		t.Fatal(err)
	}
	u.repo.UseKeys(u.Keys)
	if u.editor, err = rekey.Open(u.repo, u.Keys, u.Confirmed); err != nil {
		t.Fatal(err)
	}
	cluster.RemoveLater(t, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, hubkeys.Namespace, hubkeys.SecretName)
	if keys, err := hubkeys.Prepare(t.Context(), u.kube, hubkeys.Request{}); err != nil || keys.Install(t.Context(), u.kube) != nil {
		t.Fatalf("the hub's keys are not there: %v", err)
	}
	for _, want := range []string{"as they were, group hub shared with it", "as they were"} {
		if text, err := u.hub(t.Context()); err != nil || text != want {
			t.Errorf("it says %q, %v; want %q", text, err, want)
		}
	}
}

// pod waits for the hub's, another than the former, and gives its UID.
func pod(t *testing.T, kube dynamic.Interface, former string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	pods := kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(hubkeys.Namespace)
	for {
		found, err := pods.Get(ctx, "plural-hub-0", metav1.GetOptions{})
		if err == nil && string(found.GetUID()) != former && found.GetDeletionTimestamp() == nil {
			return string(found.GetUID())
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no pod of the hub in place of %q: %v", former, err)
		case <-ticker.C:
		}
	}
}
