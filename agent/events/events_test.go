package events_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/events"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// world is a namespace of a real API server, and a reader of its Events.
type world struct {
	*testing.T
	*kubetest.Cluster
	reader *events.Reader
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Cluster: kubetest.Start(t)}
	w.reader = events.New(w.Dynamic, w.kinds(w.RESTConfig), slog.New(slog.DiscardHandler))
	return w
}

func (w *world) kinds(config *rest.Config) *kinds.Kinds {
	w.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		w.Fatal(err)
	}
	return kinds.New(client)
}

func (w *world) create(group, version, plural, text string) events.Object {
	w.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		w.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
	live, err := w.Dynamic.Resource(resource).Namespace(w.Namespace).Create(w.Context(), &o, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return events.Object{ID: object.Of(live), UID: string(live.GetUID())}
}

// await reads until what is told of an object is what is wanted.
func (w *world) await(o events.Object, enough func(texts []string) bool) []string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		told, err := w.reader.Read(ctx, []events.Object{o}, strings.Clone)
		if err != nil {
			w.Fatal(err)
		}
		if enough(told[o.UID]) {
			return told[o.UID]
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.Fatalf("of %s it is told: %q", o.ID, told[o.UID])
		}
	}
}

// event makes an Event about an object, so many seconds after the beginning.
func (w *world) event(about events.Object, version, kind, reason, message string, at int) {
	w.Helper()
	event, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"generateName": "e-"},
		"type": kind, "reason": reason, "message": message, "lastTimestamp": time.Unix(int64(1_700_000_000+at), 0).UTC().Format(time.RFC3339),
		"involvedObject": map[string]any{
			"apiVersion": version, "kind": about.ID.Kind, "namespace": w.Namespace, "name": about.ID.Name, "uid": about.UID,
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.create("", "v1", "events", string(event))
}

func TestAJobWithoutItsServiceAccountTellsWhy(t *testing.T) {
	w := newWorld(t)
	job := w.create("batch", "v1", "jobs", `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec: {template: {spec: {serviceAccountName: nobody, restartPolicy: Never, containers: [{name: main, image: none}]}}}`)
	got := w.await(job, func(texts []string) bool { return len(texts) > 0 })
	if !strings.HasPrefix(got[0], "FailedCreate: ") || !strings.Contains(got[0], `serviceaccount "nobody" not found`) {
		t.Errorf("it is told: %q", got)
	}
}

func TestADeploymentTellsWhatItsReplicaSetIsRefused(t *testing.T) {
	w := newWorld(t)
	web := w.create("apps", "v1", "deployments", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {serviceAccountName: nobody, containers: [{name: main, image: none}]}}`)
	got := w.await(web, func(texts []string) bool { return len(texts) > 0 })
	if !strings.HasPrefix(got[0], "ReplicaSet web-") || !strings.Contains(got[0], `FailedCreate: `) ||
		!strings.Contains(got[0], `serviceaccount "nobody" not found`) {
		t.Errorf("it is told: %q", got)
	}
}

func TestTheNewestWarningsOfWhatIsNotWellAreToldOnceAndCleaned(t *testing.T) {
	w := newWorld(t)
	pod := func(name, owner, uid, phase string) events.Object {
		o := w.create("", "v1", "pods", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: %s, uid: %s}]}
spec: {nodeName: nowhere, containers: [{name: main, image: none}]}`, name, owner, uid))
		ready := map[bool]string{true: "True", false: "False"}[phase == "Running"]
		patch := fmt.Appendf(nil, `{"status": {"phase": %q, "conditions": [{"type": "Ready", "status": %q}]}}`, phase, ready)
		if _, err := w.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(w.Namespace).Patch(
			t.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		return o
	}
	// A set whose pods nobody makes, so that those of the test stay as they are.
	set := w.create("apps", "v1", "statefulsets", `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 0
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: none}]}}`)
	waiting, well := pod("db-one", "db", set.UID, "Pending"), pod("db-two", "db", set.UID, "Running")
	strange := pod("db-three", "other", "11111111-2222-3333-4444-555555555555", "Pending")
	// Of the claim the controller of volumes tells, later than all of these.
	w.create("", "v1", "persistentvolumeclaims", `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-0}
spec: {accessModes: [ReadWriteOnce], storageClassName: none-such, resources: {requests: {storage: 1Gi}}}`)
	w.event(set, "apps/v1", "Warning", "Oldest", "it is the fourth", 1)
	w.event(waiting, "v1", "Warning", "Failed", "cannot pull\x1b[31m\n  the image "+strings.Repeat("é", 200), 3)
	w.event(set, "apps/v1", "Warning", "Again", "the same", 4)
	w.event(set, "apps/v1", "Warning", "Again", "the same", 5)
	w.event(set, "apps/v1", "Normal", "Created", "all is fine", 6)
	w.event(well, "v1", "Warning", "Unhealthy", "it was not ready at first", 7)
	w.event(strange, "v1", "Warning", "Failed", "another one's", 8)
	former := events.Object{ID: set.ID, UID: "11111111-2222-3333-4444-666666666666"}
	w.event(former, "apps/v1", "Warning", "Failed", "one of its name that is gone", 9)
	gone := events.Object{ID: object.ID{Kind: "Pod", Name: "db-gone"}, UID: "11111111-2222-3333-4444-777777777777"}
	w.event(gone, "v1", "Warning", "Failed", "a pod that is gone", 10)
	got := w.await(set, func(texts []string) bool { return len(texts) == 3 && strings.HasPrefix(texts[1], "Persistent") })
	want := []string{
		"Again: the same",
		`PersistentVolumeClaim data-db-0: ProvisioningFailed: storageclass.storage.k8s.io "none-such" not found`,
		"Pod db-one: Failed: cannot pull [31m the image " + strings.Repeat("é", 114) + "…",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAContainerThatEndsAgainAndAgainIsToldWithHowItEnded(t *testing.T) {
	w := newWorld(t)
	set := w.create("apps", "v1", "statefulsets", `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 0
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: none}]}}`)
	pod := w.create("", "v1", "pods", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: db-one, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: %s}]}
spec: {nodeName: nowhere, containers: [{name: main, image: none}]}`, set.UID))
	status := []byte(`{"status": {"phase": "Running", "containerStatuses": [{"name": "main", "image": "none", "imageID": "", "ready": false,
		"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
		"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}}`)
	if _, err := w.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(w.Namespace).Patch(
		t.Context(), "db-one", "application/merge-patch+json", status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	w.event(pod, "v1", "Warning", "BackOff", "Back-off restarting failed container main in pod db-one", 1)
	got := w.await(set, func(texts []string) bool { return len(texts) > 0 })
	want := []string{"container main: CrashLoopBackOff: its last run ended: OOMKilled, exit code 137"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhoMayNotReadEventsIsToldNothing(t *testing.T) {
	w := newWorld(t)
	config := rest.CopyConfig(w.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.Namespace + ":default"}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	reader := events.New(objects, w.kinds(w.RESTConfig), slog.New(slog.DiscardHandler))
	pod := events.Object{ID: object.ID{Kind: "Pod", Namespace: w.Namespace, Name: "a"}, UID: "a"}
	_, err = reader.Read(t.Context(), []events.Object{pod}, strings.Clone)
	if !apierrors.IsForbidden(err) {
		t.Errorf("error = %v", err)
	}
}

func TestANamespaceThatMayNotBeReadSilencesNoOther(t *testing.T) {
	w := newWorld(t)
	server := &answers{}
	config := &rest.Config{Host: "http://cluster.test", Transport: server}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	server.closed = "first"
	reader := events.New(objects, w.kinds(w.RESTConfig), slog.New(slog.DiscardHandler))
	masked := func(text string) string { return strings.NewReplacer("no  such", "***", "Failed", "***").Replace(text) }
	said, err := reader.Read(t.Context(), []events.Object{
		{ID: object.ID{Kind: "Pod", Namespace: "first", Name: "b"}, UID: "b"}, {ID: object.ID{Kind: "Pod", Namespace: "web", Name: "a"}, UID: "a"},
	}, masked)
	if diff := cmp.Diff(map[string][]string{"a": {"***: *** image"}}, said); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// answers is an API server of a few kinds, which counts how often it is asked for Events.
type answers struct {
	asked   atomic.Int64
	refuses atomic.Bool
	closed  string // a namespace whose Events nobody may read
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body, status := `{}`, http.StatusNotFound
	switch {
	case a.closed != "" && r.URL.Path == "/api/v1/namespaces/"+a.closed+"/events", r.URL.Path == "/api/v1/namespaces/web/events" && a.refuses.Load():
		a.asked.Add(1)
		body, status = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`, http.StatusForbidden
	case r.URL.Path == "/api/v1/namespaces/web/events":
		a.asked.Add(1)
		body, status = `{"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [
			{"kind": "Event", "apiVersion": "v1", "reason": "Failed", "message": "no  such image",
			"involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a"}}]}`, http.StatusOK
	case r.URL.Path == "/api", r.URL.Path == "/apis":
		body, status = `{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []}`, http.StatusOK
	}
	w := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if status == http.StatusOK && strings.HasPrefix(r.URL.Path, "/api") && !strings.Contains(r.URL.Path, "events") {
		w.Header.Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	}
	w.Body = readCloser{strings.NewReader(body)}
	return w, nil
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestAnObjectThatStaysUnhealthyIsAskedAboutEverLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server answers
		config := &rest.Config{Host: "http://cluster.test", Transport: &server}
		objects, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		reader := events.New(objects, kinds.New(client), slog.New(slog.DiscardHandler))
		unhealthy := []events.Object{{ID: object.ID{Kind: "Pod", Namespace: "web", Name: "a"}, UID: "a"}}
		if _, again := reader.Of(t.Context(), "web", nil, strings.Clone); again != 0 || server.asked.Load() != 0 {
			t.Fatalf("all is well, and it asks: %d times, again in %s", server.asked.Load(), again)
		}
		said, again := reader.Of(t.Context(), "web", unhealthy, strings.Clone)
		if len(said) > 0 || again <= 0 || server.asked.Load() != 0 {
			t.Fatalf("it asks at once: %v, again in %s", said, again)
		}
		begun := time.Now()
		for range 8 {
			<-time.After(again)
			said, again = reader.Of(t.Context(), "web", unhealthy, strings.Clone)
			if diff := cmp.Diff([]string{"Failed: no such image"}, said["a"]); diff != "" {
				t.Fatal(diff)
			}
			if _, sooner := reader.Of(t.Context(), "web", unhealthy, strings.Clone); sooner != again {
				t.Fatalf("news of the service has it asked again in %s, not %s", sooner, again)
			}
		}
		if asked := server.asked.Load(); asked != 8 || time.Since(begun) < 5*time.Minute || again != 5*time.Minute {
			t.Errorf("asked %d times in %s, again in %s", asked, time.Since(begun), again)
		}
		if got := reader.Said("web", "a"); len(got) != 1 {
			t.Errorf("it is known: %q", got)
		}
		reader.Of(t.Context(), "web", nil, strings.Clone)
		if got := reader.Said("web", "a"); got != nil {
			t.Errorf("what is well is still complained of: %q", got)
		}

		server.refuses.Store(true)
		_, again = reader.Of(t.Context(), "web", unhealthy, strings.Clone)
		<-time.After(again)
		if said, again = reader.Of(t.Context(), "web", unhealthy, strings.Clone); len(said) > 0 || again != 5*time.Minute {
			t.Errorf("it may not ask, and does so again in %s: %v", again, said)
		}
		stopped, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stopped"))
		<-time.After(again)
		if _, again = reader.Of(stopped, "web", unhealthy, strings.Clone); again <= 0 {
			t.Errorf("after a question that was stopped it asks again in %s", again)
		}
	})
}
