package channel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
)

// chartFiles are a chart that asks the cluster what it is and has, with hooks that end by themselves.
var chartFiles = fstest.MapFS{
	"Chart.yaml":  {Data: []byte("apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: \"7\"\n")},
	"values.yaml": {Data: []byte("replicas: 1\ncolor: green\n")},
	"templates/NOTES.txt": {Data: []byte(`{{ .Release.Name }} has {{ .Values.replicas }} replicas
`)},
	"templates/objects.yaml": {Data: []byte(`
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data:
  color: {{ .Values.color | quote }}
  revision: {{ .Release.Revision | quote }}
  version: {{ .Capabilities.KubeVersion.Version | quote }}
  apps: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}
  namespace: {{ (lookup "v1" "Namespace" "" .Release.Namespace).metadata.name }}
  nodes: {{ len (lookup "v1" "Node" "" "").items | quote }}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {color: {{ .Values.color }}}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: none}]}
{{- if .Values.more }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: more}
{{- end }}
`)},
	"templates/hooks.yaml": {Data: []byte(`
apiVersion: batch/v1
kind: Job
metadata:
  name: before
  annotations:
    helm.sh/hook: pre-install,post-rollback
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    helm.sh/hook-output-log-policy: hook-succeeded
spec:
  template:
    metadata: {annotations: {plural.sh/simulated-log-lines: "3"}}
    spec: {restartPolicy: Never, containers: [{name: main, image: none}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: after, annotations: {helm.sh/hook: "post-install,post-upgrade"}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: trial, annotations: {helm.sh/hook: test, helm.sh/hook-delete-policy: hook-succeeded}}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}
`)},
}

// newChart reads a chart anew: helm changes those that it installs.
func newChart(t *testing.T) *chart.Chart {
	t.Helper()
	var files []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(chartFiles)) {
		files = append(files, &archive.BufferedFile{Name: name, Data: chartFiles[name].Data})
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// helmUser is somebody who uses helm, with the way it goes. What is done and seen is told.
type helmUser struct {
	*testing.T
	w         *world
	config    *action.Configuration
	namespace string
	told      []string
	printed   bytes.Buffer // by hooks
}

// written is a kubeconfig as people have one: for the cluster itself, or what `plural kube config` writes, of which the plugin
// then asks the hub for a token.
func (s side) written(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "XDG_STATE_HOME": home, "XDG_CACHE_HOME": home, "XDG_CONFIG_HOME": home, "KUBECONFIG": "", "KUBECACHEDIR": filepath.Join(home, "kube"),
	} {
		t.Setenv(name, value)
	}
	file := filepath.Join(home, "kubeconfig")
	if s.mount == "" {
		if err := clientcmd.WriteToFile(*s.kubeconfig(""), file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	authority := filepath.Join(home, "ca.pem")
	if err := os.WriteFile(authority, s.config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PLURAL_CA_FILE", authority)
	t.Setenv("PLURAL_TOKEN", s.config.BearerToken)
	cmd := exec.CommandContext(t.Context(), program(t, "plural"), "kube", "config", clusterName, "--hub", strings.TrimSuffix(s.base, s.mount), "--kubeconfig", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("plural kube config: %v\n%s", err, out)
	}
	return file
}

func (w *world) helm(t *testing.T, s side, namespace string) *helmUser {
	t.Helper()
	h := &helmUser{T: t, w: w, namespace: namespace}
	settings := cli.New()
	settings.KubeConfig, settings.QPS, settings.BurstLimit = s.written(t), 1000, 1000
	settings.SetNamespace(namespace)
	h.config = action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := h.config.Init(settings.RESTClientGetter(), namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	h.config.SetHookOutputFunc(func(string, string, string) io.Writer { return &h.printed })
	return h
}

// tell writes down what somebody did and saw.
func (h *helmUser) tell(what string, seen any, err error) {
	h.Helper()
	if h.Context().Err() != nil {
		h.Fatal("there is no time left")
	}
	text, isText := seen.(string)
	if found, ok := seen.(*release.Release); ok && found != nil {
		text, isText = describe(found), true
	}
	if !isText {
		raw, errRaw := json.Marshal(seen)
		var indented bytes.Buffer
		if errRaw == nil {
			errRaw = json.Indent(&indented, []byte(alike(string(raw), h.namespace)), "", " ")
		}
		if errRaw != nil {
			h.Fatal(errRaw)
		}
		text = indented.String()
	}
	if err != nil {
		text += "\nerror: " + err.Error()
	}
	h.told = append(h.told, "# "+what+"\n"+stamped.ReplaceAllString(alike(text, h.namespace), "TIME"))
}

// stamped is a moment, as helm writes it: by the calendar, in labels by the second.
var stamped = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^"\s]*|\b1\d{9}\b`)

func describe(r *release.Release) string {
	text := fmt.Sprintf("%s revision %d is %s: %s\nvalues %v, method %s\n%s\n%s", r.Name, r.Version, r.Info.Status, r.Info.Description, r.Config, r.ApplyMethod,
		r.Info.Notes, r.Manifest)
	for _, hook := range r.Hooks {
		text += fmt.Sprintf("hook %s %s at %v: %s\n", hook.Kind, hook.Name, hook.Events, hook.LastRun.Phase)
	}
	return text
}

var deploymentsResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// left tells what there is in the cluster, looked at directly.
func (h *helmUser) left(after string) {
	h.Helper()
	var found []any
	for _, kind := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "secrets"},
		deploymentsResource,
		{Group: "batch", Version: "v1", Resource: "jobs"},
	} {
		list, err := h.w.Dynamic.Resource(kind).Namespace(h.namespace).List(h.Context(), metav1.ListOptions{})
		if err != nil {
			h.Fatal(err)
		}
		for i := range list.Items {
			found = append(found, lasting(&list.Items[i]))
		}
	}
	h.tell("in the cluster after "+after, found, nil)
}

// lasting is an object without what controllers write into it when they please, and without what helm packs into its own.
func lasting(o *unstructured.Unstructured) any {
	var managers []string
	for _, m := range o.GetManagedFields() {
		if m.Manager != "kube-controller-manager" && m.Subresource == "" {
			managers = append(managers, fmt.Sprint(m.Manager, " ", m.Operation, " ", m.FieldsV1))
		}
	}
	slices.Sort(managers)
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(o.Object, "metadata", "generation")
	unstructured.RemoveNestedField(o.Object, "status")
	if o.GetKind() == "Secret" {
		unstructured.RemoveNestedField(o.Object, "data")
	}
	return map[string]any{"object": o.Object, "managers": managers}
}

// helm's own library does the same through the hub as directly, and leaves the same in the cluster.
func TestHelmWorksTheSame(t *testing.T) {
	w := newWorld(t)
	told := map[string][]string{}
	w.each(func(t *testing.T, s side, namespace string) {
		h := w.helm(t, s, namespace)
		h.session()
		told[s.name] = h.told
	})
	if diff := cmp.Diff(told["direct"], told["through"]); diff != "" {
		t.Errorf("(-direct +through):\n%s", diff)
	}
}

// session is the life of a release. Helm itself waits, for what localkube's controllers do.
func (h *helmUser) session() {
	h.Helper()
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.Timeout = "web", h.namespace, patience
	install.WaitStrategy, install.WaitForJobs = kube.StatusWatcherStrategy, true
	made, err := install.RunWithContext(h.Context(), newChart(h.T), map[string]any{})
	h.must("install", made, err)
	h.left("install")
	h.look("install")

	h.must(h.upgrade(kube.StatusWatcherStrategy, map[string]any{"replicas": 2, "color": "blue", "more": true}))
	h.left("upgrade")
	h.must(h.upgrade(kube.LegacyStrategy, map[string]any{"replicas": 2, "color": "red"}))
	h.left("an upgrade that takes something away")
	// What the API server refuses fails the release.
	what, failed, err := h.upgrade(kube.HookOnlyStrategy, map[string]any{"replicas": -1})
	if err == nil {
		h.Error("an upgrade to what the API server refuses does not fail")
	}
	h.tell(what, failed, err)

	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.Timeout, rollback.WaitStrategy, rollback.ServerSideApply = 1, patience, kube.StatusWatcherStrategy, "auto"
	h.must("roll back", "", rollback.Run("web"))
	h.left("rollback")
	h.look("rollback")

	trial := action.NewReleaseTesting(h.config)
	trial.Namespace, trial.Timeout = h.namespace, patience
	tested, end, err := trial.Run("web")
	h.must("test", tested, err)
	h.must("end the test", "", end())

	uninstall := action.NewUninstall(h.config)
	uninstall.Timeout, uninstall.WaitStrategy, uninstall.DeletionPropagation = patience, kube.StatusWatcherStrategy, "foreground"
	gone, err := uninstall.Run("web")
	if err != nil {
		h.Fatal(err)
	}
	h.tell("uninstall", gone.Info, nil)
	eventually(h.T, "what was uninstalled is gone", func() bool {
		_, err := h.w.Dynamic.Resource(deploymentsResource).Namespace(h.namespace).Get(h.Context(), "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	h.left("uninstall")
	h.tell("what hooks printed", h.printed.String(), nil)
	if !strings.Contains(h.printed.String(), "simulated") {
		h.Errorf("hooks printed %q", &h.printed)
	}
	_, err = action.NewStatus(h.config).Run("web")
	h.tell("status of what is gone", "", err)
}

// must tells what has to be without an error.
func (h *helmUser) must(what string, seen any, err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%s: %v", what, err)
	}
	h.tell(what, seen, nil)
}

func (h *helmUser) upgrade(wait kube.WaitStrategy, values map[string]any) (what string, upgraded any, err error) {
	h.Helper()
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy, upgrade.ServerSideApply = h.namespace, patience, wait, "auto"
	upgraded, err = upgrade.RunWithContext(h.Context(), "web", newChart(h.T), values)
	return fmt.Sprintf("upgrade to %v, waiting by %s", values, wait), upgraded, err
}

// look asks for all that helm shows of a release.
func (h *helmUser) look(after string) {
	h.Helper()
	after = " after " + after
	status, err := action.NewStatus(h.config).Run("web")
	h.must("status"+after, status, err)
	if found, ok := status.(*release.Release); ok {
		kinds := map[string]int{}
		for kind, objects := range found.Info.Resources {
			kinds[kind] = len(objects)
		}
		h.tell("resources"+after, kinds, nil)
	}
	manifest, err := action.NewGet(h.config).Run("web")
	h.must("manifest"+after, manifest, err)
	values, err := action.NewGetValues(h.config).Run("web")
	h.must("values"+after, values, err)
	metadata, err := action.NewGetMetadata(h.config).Run("web")
	h.must("metadata"+after, metadata, err)
	past, err := action.NewHistory(h.config).Run("web")
	if err != nil {
		h.Fatal(err)
	}
	for i := range past {
		h.tell(fmt.Sprint("history ", i, after), past[i], nil)
	}
	list := action.NewList(h.config)
	list.All = true
	list.SetStateMask()
	all, err := list.Run()
	if err != nil || len(all) != 1 {
		h.Fatalf("%d releases are listed: %v", len(all), err)
	}
	h.tell("list"+after, all[0], nil)
}
