package release_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/installer/release"
)

func TestAReleaseWaitsUntilAllOfItIsHealthyAndSaysForWhat(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS, renderer: raw}")
	w.write("apps/app/web.yaml", web("one"))
	outcome := w.mustApply("app")
	want := map[string]apply.Action{"Deployment.apps " + w.kube.Namespace + "/one": apply.Created}
	if diff := cmp.Diff(want, outcome.Changed); diff != "" || outcome.Objects != 1 {
		t.Errorf("outcome %+v", outcome)
	}
	live, err := w.of("apps", "deployments").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ready, _, _ := unstructured.NestedInt64(live.Object, "status", "readyReplicas"); ready != 1 {
		t.Errorf("%d replicas are ready", ready)
	}
	if said := strings.Join(w.told, "\n"); !strings.Contains(said, "0 of 1 objects ready: Deployment.apps") || !strings.HasSuffix(said, "1 of 1 objects ready") {
		t.Errorf("it said:\n%s", said)
	}
}

func TestASuspendedServiceIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS, renderer: raw, suspend: true}")
	w.write("apps/app/cm.yaml", cm)
	if outcome := w.mustApply("app"); !outcome.Suspended || len(w.proxy.Requests()) > 0 {
		t.Errorf("outcome %+v, %v", outcome, w.proxy.Requests())
	}
}

func TestATestThatGatesKeepsAReleaseFromBeingDone(t *testing.T) {
	w := newWorld(t)
	spec := "{source: {path: apps/app}, namespace: NS, renderer: raw, tests: [{name: says, gate: %t, cel: [{version: v1, kind: ConfigMap, name: one, expression: self.data.a == 'c'}]}]}"
	w.write("apps/app/cm.yaml", cm)
	w.service("app", strings.Replace(fmt.Sprintf(spec, true), "NS", w.kube.Namespace, 1))
	_, err := w.apply("app")
	var told *release.NotReadyError
	if !errors.As(err, &told) || told.Reason != release.Test || !strings.Contains(err.Error(), "test says failed") {
		t.Errorf("%v", err)
	}
	w.service("app", strings.Replace(fmt.Sprintf(spec, false), "NS", w.kube.Namespace, 1))
	w.mustApply("app")
}

func TestWhatHelmLeftIsNoObstacle(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS}")
	w.write("apps/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n")
	w.write("apps/app/templates/cm.yaml", cm)
	w.create("", "secrets", "{apiVersion: v1, kind: Secret, type: helm.sh/release.v1, metadata: {name: sh.helm.release.v1.app-ID.v1, "+
		"labels: {owner: helm, name: app-ID, status: pending-install, version: '1'}}, data: {release: cGVuZGluZw==}}")
	w.create("", "configmaps", "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {app.kubernetes.io/managed-by: Helm}, "+
		"annotations: {meta.helm.sh/release-name: app-ID, meta.helm.sh/release-namespace: NS}}, data: {a: x, theirs: z}}")
	if outcome := w.mustApply("app"); outcome.Objects != 1 {
		t.Errorf("outcome %+v", outcome)
	}
	live, err := w.of("", "configmaps").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(live.Object, "data")
	if live.GetLabels()[object.ServiceLabel] != w.name("app") || data["a"] != "b" {
		t.Errorf("it was not taken over: %v", live.Object)
	}
	if _, err := w.of("", "secrets").Get(t.Context(), "sh.helm.release.v1.app-"+w.id+".v1", metav1.GetOptions{}); err != nil {
		t.Errorf("helm's own record is gone: %v", err)
	}
}

func TestAnObjectThatMovesToALaterServiceIsHandedOver(t *testing.T) {
	w := newWorld(t)
	w.options.DeferPrune = true
	w.connect()
	w.service("one", "{source: {path: apps/one}, namespace: NS, renderer: raw}")
	w.service("two", "{source: {path: apps/two}, namespace: NS, renderer: raw}")
	stays := strings.Replace(cm, "one", "stays-%s", 1)
	w.write("apps/one/all.yaml", fmt.Sprintf(stays, "one")+"---\n"+cm+"---\n"+strings.Replace(cm, "one", "goes", 1))
	w.write("apps/two/all.yaml", fmt.Sprintf(stays, "two"))
	w.mustApply("one")
	w.mustApply("two")
	before, err := w.of("", "configmaps").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.write("apps/one/all.yaml", fmt.Sprintf(stays, "one"))
	w.write("apps/two/all.yaml", fmt.Sprintf(stays, "two")+"---\n"+cm)
	if outcome := w.mustApply("one"); !outcome.Deferred {
		t.Errorf("outcome %+v", outcome)
	}
	w.mustApply("two")
	if err := w.cluster.Settle(t.Context(), w.tell); err != nil {
		t.Fatal(err)
	}
	after, err := w.of("", "configmaps").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || after.GetUID() != before.GetUID() || after.GetLabels()[object.ServiceLabel] != w.name("two") {
		t.Errorf("%v: %v", err, after)
	}
	if _, err := w.of("", "configmaps").Get(t.Context(), "goes", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what is to go is still there: %v", err)
	}
}

func TestSettlingRendersAgainWhatAsksForKindsThatCameLater(t *testing.T) {
	w := newWorld(t)
	w.service("asks", "{source: {path: apps/asks}, namespace: NS}")
	w.write("apps/asks/Chart.yaml", "apiVersion: v2\nname: asks\nversion: 1.0.0\n")
	w.write("apps/asks/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: asks}\n"+
		"data: {things: '{{ .Capabilities.APIVersions.Has \"ID.example.com/v1\" }}'}\n")
	w.service("chart", "{source: {path: apps/chart}, namespace: NS}")
	w.chart("apps/chart")
	w.mustApply("asks")
	things := func() string {
		live, err := w.of("", "configmaps").Get(t.Context(), "asks", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		value, _, _ := unstructured.NestedString(live.Object, "data", "things")
		return value
	}
	if things() != "false" {
		t.Error("the kind is there already")
	}
	w.mustApply("chart")
	if err := w.cluster.Settle(t.Context(), w.tell); err != nil {
		t.Fatal(err)
	}
	if things() != "true" {
		t.Error("the chart was not rendered again")
	}
}

func TestAServiceIsRemovedAndWhatStaysIsNamed(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: new-ID, renderer: raw}")
	w.write("apps/app/all.yaml", cm+"---\n"+
		"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}\n---\n"+
		strings.Replace(cm, "name: one", "name: kept, annotations: {helm.sh/resource-policy: keep}", 1))
	w.options.Timeout = 5 * time.Second
	w.connect()
	if _, err := w.apply("app"); err == nil || !strings.Contains(err.Error(), "PersistentVolumeClaim") {
		t.Logf("a claim that is never bound: %v", err)
	}
	left, err := w.cluster.Remove(t.Context(), w.name("app"), "new-"+w.id, w.tell)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range left.Kept {
		names = append(names, l.Object)
		t.Log(l.Object, ":", l.Reason)
	}
	in := "new-" + w.id
	if diff := cmp.Diff([]string{"ConfigMap " + in + "/kept", "Namespace " + in, "PersistentVolumeClaim " + in + "/data"}, names); diff != "" || len(left.Stuck) > 0 {
		t.Errorf("kept (-want +got):\n%s\nstuck %v", diff, left.Stuck)
	}
	configMaps := w.kube.Dynamic.Resource(gvr("", "v1", "configmaps")).Namespace(in)
	if _, err := configMaps.Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
	if left, err = w.cluster.Remove(t.Context(), w.name("app"), "", w.tell); err != nil || len(left.Kept)+len(left.Stuck) > 0 {
		t.Errorf("a second time: %+v, %v", left, err)
	}
}

func TestARemovalThatIsStuckNamesTheFinalizersAndGoesOn(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS, renderer: raw}")
	w.write("apps/app/all.yaml", cm+"---\n"+strings.Replace(cm, "name: one",
		"name: two, annotations: {argocd.argoproj.io/sync-wave: '1'}, finalizers: [example.com/stay]", 1))
	w.mustApply("app")
	w.options.Timeout = 2 * time.Second
	w.connect()
	left, err := w.cluster.Remove(t.Context(), w.name("app"), w.kube.Namespace, w.tell)
	var stuck *release.StuckError
	if !errors.As(err, &stuck) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(stuck.Fix(), "finalizers") {
		t.Fatalf("%v", err)
	}
	if len(left.Stuck) != 2 || left.Stuck[0].Object != "ConfigMap "+w.kube.Namespace+"/two" || !strings.Contains(left.Stuck[0].Reason, "example.com/stay") ||
		!strings.Contains(left.Stuck[1].Reason, "it goes after") {
		t.Errorf("stuck %+v", left.Stuck)
	}
	if _, err := w.of("", "configmaps").Patch(t.Context(), "two", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.options.Timeout = 20 * time.Second
	w.connect()
	if left, err = w.cluster.Remove(t.Context(), w.name("app"), w.kube.Namespace, w.tell); err != nil || len(left.Stuck) > 0 {
		t.Errorf("%+v, %v", left, err)
	}
}

func TestHooksOfDeletionRunWhenADeploymentRetires(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS}")
	w.write("apps/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n")
	w.write("apps/app/templates/cm.yaml", cm)
	w.write("apps/app/templates/bye.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: bye, annotations: {helm.sh/hook: pre-delete}}\n"+
		"spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: main}]}}}\n")
	runs := w.countJobs()
	w.mustApply("app")
	d, renderer := w.deployment("app")
	if left, err := w.cluster.Retire(t.Context(), d, renderer, w.tell); err != nil || len(left.Stuck) > 0 {
		t.Fatalf("%+v, %v", left, err)
	}
	if got := runs(); len(got) != 1 || len(got["bye of "]) != 1 {
		t.Errorf("jobs %v", got)
	}
}

func TestNobodyWaitsLongerThanTheyWantTo(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS, renderer: raw}")
	w.write("apps/app/web.yaml", strings.Replace(web("one"), "containers:", "nodeSelector: {no: where}, containers:", 1))
	d, renderer := w.deployment("app")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := w.cluster.Apply(ctx, d, renderer, func(text string) {
		if strings.Contains(text, "0 of 1 objects ready") {
			cancel()
		}
	})
	var told *release.NotReadyError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &told) || told.Object == "" {
		t.Errorf("%v", err)
	}
}

func TestWhoeverInterruptsAnOutageIsNotToldOfIt(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS, renderer: raw}")
	w.write("apps/app/cm.yaml", cm)
	d, renderer := w.deployment("app")
	cluster, err := release.Connect(clusterName, &rest.Config{Host: "https://127.0.0.1:1"}, release.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = cluster.Apply(ctx, d, renderer, func(text string) {
		if strings.Contains(text, "trying again") {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
