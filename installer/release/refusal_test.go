package release_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/installer/release"
	"github.com/pluralsh/plural/test/support/faultproxy"
)

const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: b}\n"

func TestWhatStandsInTheWayIsNamedWithWhatHelps(t *testing.T) {
	type row struct {
		// before is done before the service is applied.
		before func(w *world)
		spec   string
		file   string
		// later takes the file's place once it was applied.
		later                string
		reason, object, said string
		fix                  string
	}
	for name, row := range map[string]row{
		"pod security": {
			before: func(w *world) {
				w.label("pod-security.kubernetes.io/enforce", "restricted")
			},
			file: web("one"), reason: "Progressing", object: "Deployment.apps NS/one", said: "violates PodSecurity", fix: "securityContext",
		},
		"a quota": {
			before: func(w *world) {
				w.create("", "resourcequotas", "{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {count/configmaps: '1'}}}")
				w.eventually("the quota is in force", func() bool {
					quota, err := w.of("", "resourcequotas").Get(w.Context(), "none", metav1.GetOptions{})
					return err == nil && quota.Object["status"] != nil && strings.Contains(fmt.Sprint(quota.Object["status"]), "used")
				})
			},
			file: cm, reason: "Denied", object: "ConfigMap NS/one", said: "exceeded quota", fix: "kubectl describe resourcequota -n NS",
		},
		"a webhook that is down": {
			before: func(w *world) { w.webhook() },
			file:   cm, reason: "Unavailable", object: "ConfigMap NS/one", said: "failed calling webhook", fix: "bring up what serves the webhook",
		},
		"a namespace that is going": {
			before: func(w *world) { w.terminating() },
			spec:   "namespace: gone-ID", file: cm, reason: "NamespaceTerminating", object: "ConfigMap gone-ID/one", said: "being terminated", fix: "kubectl get namespace gone-ID",
		},
		"an immutable field": {
			file: web("one"), later: strings.ReplaceAll(web("one"), "app: one", "app: two"),
			reason: "Immutable", object: "Deployment.apps NS/one", said: "immutable", fix: "plural.sh/recreate=allow",
		},
		"a field that is none": {
			file:   strings.Replace(web("one"), "replicas: 1", "replicas: many", 1),
			reason: "Invalid", object: "Deployment.apps NS/one", said: "replicas", fix: "correct the manifest",
		},
		"a kind that nobody defines": {
			file: "apiVersion: ID.example.com/v1\nkind: Nothing\nmetadata: {name: one}\n", reason: "MissingKind", object: "Nothing.ID.example.com", fix: "install its CustomResourceDefinition",
		},
		"an account that may do nothing": {
			spec: "namespace: NS, serviceAccount: default", file: cm, reason: "Forbidden", object: "ConfigMap NS/one", said: "cannot", fix: "grant that account",
		},
		"another namespace than is allowed": {
			spec: "namespace: NS, allowedNamespaces: [NS]", file: strings.Replace(cm, "name: one", "name: one, namespace: default", 1),
			reason: "OutOfBounds", object: "ConfigMap default/one", fix: "allowedNamespaces",
		},
		"more deletions than the budget": {
			spec: "namespace: NS, sync: {deletionBudget: '0'}", file: cm + "---\n" + strings.Replace(cm, "one", "two", 1), later: cm,
			reason: "Held", said: "deletion budget", fix: "plural service ack",
		},
		"a hook that fails": {
			file: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: one, annotations: {argocd.argoproj.io/hook: PreSync}}\n" +
				"spec: {activeDeadlineSeconds: 1, backoffLimit: 0, template: {spec: {restartPolicy: Never, nodeSelector: {no: where}, containers: [{name: main, image: main}]}}}\n",
			reason: "HookFailed", object: "Job.batch NS/one", fix: "kubectl logs -n NS job/one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.options.Timeout = 20 * time.Second
			if row.reason == "Progressing" || !final(row.reason) {
				w.options.Timeout = 5 * time.Second
			}
			w.connect()
			if row.before != nil {
				row.before(w)
			}
			if row.spec == "" {
				row.spec = "namespace: NS"
			}
			w.service("app", "{source: {path: apps/app}, renderer: raw, "+strings.NewReplacer("NS", w.kube.Namespace, "ID",
				w.id).Replace(row.spec)+"}")
			w.write("apps/app/all.yaml", row.file)
			if row.later != "" {
				w.mustApply("app")
				w.write("apps/app/all.yaml", row.later)
			}
			_, err := w.apply("app")
			var told *release.NotReadyError
			if !errors.As(err, &told) {
				t.Fatalf("%v\n%s", err, strings.Join(w.told, "\n"))
			}
			in := func(text string) string { return strings.NewReplacer("NS", w.kube.Namespace, "ID", w.id).Replace(text) }
			if told.Reason != row.reason || !strings.HasPrefix(told.Object, in(row.object)) || !strings.Contains(told.Message, in(row.said)) ||
				!strings.Contains(told.Fix(), in(row.fix)) {
				t.Errorf("reason %s\nobject %s\nmessage %s\nfix %s", told.Reason, told.Object, told.Message, told.Fix())
			}
			if !strings.Contains(err.Error(), "cluster edge-1: service app-") {
				t.Errorf("it does not say where: %v", err)
			}
			t.Log(err, "->", told.Fix())
		})
	}
}

func final(reason string) bool {
	switch apply.Reason(reason) {
	case apply.MissingKind, apply.Unavailable, apply.NamespaceTerminating:
		return false
	}
	return true
}

func (w *world) label(name, value string) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, name, value)
	if _, err := w.kube.Dynamic.Resource(gvr("", "v1", "namespaces")).Patch(w.Context(), w.kube.Namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

// webhook has every ConfigMap of the test's namespace judged by somebody who does not answer.
func (w *world) webhook() {
	w.Helper()
	all := w.kube.Dynamic.Resource(gvr("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"))
	_, err := all.Create(w.Context(), w.object(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: away-ID}
webhooks:
- name: away.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 1
`), metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := all.Delete(context.WithoutCancel(w.Context()), "away-"+w.id, metav1.DeleteOptions{}); err != nil {
			w.Error(err)
		}
	})
	w.eventually("the webhook is in force", func() bool {
		_, err := w.of("", "configmaps").Create(w.Context(), w.object("{apiVersion: v1, kind: ConfigMap, metadata: {generateName: try-}}"), metav1.CreateOptions{})
		return err != nil && strings.Contains(err.Error(), "failed calling webhook")
	})
}

// terminating makes a namespace that is being deleted and cannot go.
func (w *world) terminating() {
	w.Helper()
	name := "gone-" + w.id
	all := w.kube.Dynamic.Resource(gvr("", "v1", "namespaces"))
	if _, err := all.Create(w.Context(), w.object("{apiVersion: v1, kind: Namespace, metadata: {name: gone-ID}}"), metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	inside := w.kube.Dynamic.Resource(gvr("", "v1", "configmaps")).Namespace(name)
	if _, err := inside.Create(w.Context(), w.object("{apiVersion: v1, kind: ConfigMap, metadata: {name: stays, finalizers: [example.com/stay]}}"), metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	if err := all.Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if _, err := inside.Patch(context.WithoutCancel(w.Context()), "stays", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			w.Error(err)
		}
	})
}

func TestAClusterThatCannotBeWorkedOnIsToldApart(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS, renderer: raw}")
	w.write("apps/app/all.yaml", cm)
	d, renderer := w.deployment("app")
	as := func(config *rest.Config, o release.Options) error {
		cluster, err := release.Connect(clusterName, config, o)
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		_, err = cluster.Apply(t.Context(), d, renderer, nil)
		return err
	}
	t.Run("nobody is there", func(t *testing.T) {
		var away *release.UnreachableError
		err := as(&rest.Config{Host: "https://127.0.0.1:1"}, w.options)
		if !errors.As(err, &away) || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(away.Fix(), "--context edge-1=CONTEXT") {
			t.Error(err)
		}
	})
	t.Run("another certificate", func(t *testing.T) {
		var away *release.UnreachableError
		err := as(&rest.Config{Host: w.kube.RESTConfig.Host}, w.options)
		if !errors.As(err, &away) || !strings.Contains(away.Fix(), "certificate authority") {
			t.Error(err)
		}
	})
	t.Run("it goes away in the middle", func(t *testing.T) {
		lift := w.proxy.Add(faultproxy.Rule{Skip: 5, Fault: faultproxy.Reset()})
		defer lift()
		var away *release.UnreachableError
		if err := as(w.proxy.Config(), w.options); !errors.As(err, &away) {
			t.Error(err)
		}
	})
	t.Run("who may do nothing", func(t *testing.T) {
		config := rest.CopyConfig(w.kube.RESTConfig)
		config.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"system:authenticated"}}
		var refused *release.RefusedError
		if err := as(config, w.options); !errors.As(err, &refused) || !strings.Contains(err.Error(), "mallory") {
			t.Error(err)
		}
	})
	t.Run("whose credentials are no longer good", func(t *testing.T) {
		config := rest.AnonymousClientConfig(w.kube.RESTConfig)
		config.BearerToken = "expired"
		var refused *release.RefusedError
		if err := as(config, w.options); !errors.As(err, &refused) || !strings.Contains(refused.Fix(), "log in") {
			t.Error(err)
		}
	})
	w.register("https://hub.example.com")
	t.Run("another fleet's of that name", func(t *testing.T) {
		o := w.options
		o.Auth = "ed25519:of-somebody-else"
		var other *release.OtherClusterError
		if err := as(w.kube.RESTConfig, o); !errors.As(err, &other) || !strings.Contains(err.Error(), "hub.example.com") {
			t.Error(err)
		}
		o.Auth = w.keys.Public().Auth
		if err := as(w.kube.RESTConfig, o); err != nil {
			t.Error(err)
		}
	})
	t.Run("another cluster", func(t *testing.T) {
		cluster, err := release.Connect("edge-2", w.kube.RESTConfig, w.options)
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		var other *release.OtherClusterError
		if _, err := cluster.Apply(t.Context(), d, renderer, nil); !errors.As(err, &other) || other.Is != clusterName {
			t.Error(err)
		}
	})
}

func TestAChartThatDoesNotRenderTellsItsLineAndTouchesNothing(t *testing.T) {
	w := newWorld(t)
	w.service("app", "{source: {path: apps/app}, namespace: NS}")
	w.write("apps/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n")
	w.write("apps/app/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: '{{ required \"give it a color\" .Values.color }}'}\n")
	_, err := w.apply("app")
	var known *render.Error
	if !errors.As(err, &known) || known.File != "apps/app/templates/cm.yaml" || known.Line != 4 || !strings.Contains(err.Error(), "give it a color") {
		t.Errorf("%v: %+v", err, known)
	}
	if writes := w.writes(w.proxy, 0); len(writes) > 0 {
		t.Errorf("it has sent %v", writes)
	}
}
