// Package hooks holds what is checked of hooks: that the engine has them go as Helm's own library has them go.
package hooks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// patience bounds one step of a release.
const patience = time.Minute

// The test binary is the child that renders. Helm's library keeps what it discovers in a folder of this process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	cache, err := os.MkdirTemp("", "hooks-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("KUBECACHEDIR", cache)
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // they mostly wait for Jobs
	code := m.Run()
	_ = os.RemoveAll(cache)
	os.Exit(code)
}

const chartYAML = "apiVersion: v2\nname: web\nversion: 1.2.3\n"

// journal is what somebody made and deleted in a cluster, in order, as the API server answered it.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		sign := ""
		switch {
		case err != nil || strings.Contains(r.URL.Path, "/plural-system/") || r.URL.Path == "/api/v1/namespaces/plural-system":
		case answer.StatusCode == http.StatusCreated:
			sign = "+ "
		case r.Method == http.MethodDelete && answer.StatusCode == http.StatusOK:
			sign = "- "
		}
		if sign == "" {
			return answer, err
		}
		kind, name := path.Split(r.URL.Path)
		if r.Method == http.MethodPost {
			kind = r.URL.Path
			if name, err = nameIn(answer); err != nil {
				return nil, err
			}
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, sign+path.Base(kind)+"/"+name)
		return answer, nil
	})
}

// nameIn reads which object an answer is about, and leaves the answer as it was.
func nameIn(answer *http.Response) (string, error) {
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	var object metav1.PartialObjectMetadata
	return object.Name, json.Unmarshal(body, &object)
}

// take returns what was journalled since the last call.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// helmRelease is a release in the hands of Helm's own library.
type helmRelease struct {
	*testing.T
	config    *action.Configuration
	namespace string
	there     bool
}

// getter is what Helm's library asks for connections.
type getter interface {
	ToRESTConfig() (*rest.Config, error)
	ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error)
	ToRESTMapper() (meta.RESTMapper, error)
	ToRawKubeConfigLoader() clientcmd.ClientConfig
}

// recorded is a getter whose connections are journalled.
type recorded struct {
	getter
	journal *journal
}

func (r recorded) ToRESTConfig() (*rest.Config, error) {
	config, err := r.getter.ToRESTConfig()
	if err == nil {
		config.Wrap(r.journal.wrap)
	}
	return config, err
}

func newHelmRelease(t *testing.T, cluster *kubetest.Cluster, j *journal) *helmRelease {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig, settings.QPS, settings.BurstLimit = cluster.Kubeconfig, 1000, 1000
	settings.SetNamespace(cluster.Namespace)
	h := &helmRelease{T: t, namespace: cluster.Namespace}
	h.config = action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := h.config.Init(recorded{settings.RESTClientGetter(), j}, cluster.Namespace, "memory"); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *helmRelease) apply(templates string) bool {
	var err error
	if !h.there {
		install := action.NewInstall(h.config)
		install.ReleaseName, install.Namespace, install.Timeout, install.WaitStrategy = "web", h.namespace, patience, kube.HookOnlyStrategy
		_, err = install.RunWithContext(h.Context(), h.chart(templates), nil)
		h.there = true
	} else {
		upgrade := action.NewUpgrade(h.config)
		upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy, upgrade.ServerSideApply = h.namespace, patience, kube.HookOnlyStrategy, "auto"
		_, err = upgrade.RunWithContext(h.Context(), "web", h.chart(templates), nil)
	}
	h.Logf("helm: %v", err)
	return err == nil
}

func (h *helmRelease) remove() bool {
	uninstall := action.NewUninstall(h.config)
	uninstall.Timeout, uninstall.WaitStrategy, uninstall.DeletionPropagation = patience, kube.HookOnlyStrategy, "background"
	_, err := uninstall.Run("web")
	h.Logf("helm: %v", err)
	return err == nil
}

func (h *helmRelease) chart(templates string) *chart.Chart {
	h.Helper()
	c, err := loader.LoadFiles([]*archive.BufferedFile{
		{Name: "Chart.yaml", Data: []byte(chartYAML)}, {Name: "templates/all.yaml", Data: []byte(templates)},
	})
	if err != nil {
		h.Error(err)
	}
	return c
}

// service is the same chart as a service, in the hands of our renderer and engine.
type service struct {
	*testing.T
	engine          *apply.Engine
	name, namespace string
	objects         []*unstructured.Unstructured // of the last render
}

func newService(t *testing.T, cluster *kubetest.Cluster, j *journal) *service {
	t.Helper()
	config := rest.CopyConfig(cluster.RESTConfig)
	config.Wrap(j.wrap)
	engine, err := apply.New(config, apply.Options{DigestKey: []byte("of this test")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	t.Cleanup(func() { cluster.RemoveLater(t, configMaps, "plural-system", "plural-inventory-"+cluster.Namespace) })
	return &service{T: t, engine: engine, name: cluster.Namespace, namespace: cluster.Namespace}
}

func (s *service) apply(templates string) bool {
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	out, err := (&render.Renderer{Command: []string{self, "render-child"}}).Render(s.Context(), render.Input{
		Renderer: render.HelmChart, Path: "web", Namespace: s.namespace, Service: "web",
		Files: fstest.MapFS{"web/Chart.yaml": {Data: []byte(chartYAML)}, "web/templates/all.yaml": {Data: []byte(templates)}},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.objects = out.Objects
	request := apply.Request{
		Service: s.name, Namespace: s.namespace, Key: fmt.Sprintf("%x", sha256.Sum256([]byte(templates))), Prune: true, Heal: true, Objects: s.rendered,
	}
	return s.follow(func() (*apply.Result, error) { return s.engine.Apply(s.Context(), request) })
}

func (s *service) rendered(context.Context) ([]*unstructured.Unstructured, error) {
	return s.objects, nil
}

func (s *service) remove() bool {
	removal := apply.Removal{Service: s.name, Namespace: s.namespace, Objects: s.rendered}
	return s.follow(func() (*apply.Result, error) { return s.engine.Remove(s.Context(), removal) })
}

// follow calls the engine whenever it says that something changed, as an agent does, until it is done or a hook has failed.
func (s *service) follow(pass func() (*apply.Result, error)) (succeeded bool) {
	deadline := time.After(patience)
	for {
		result, err := pass()
		if err != nil {
			s.Fatal(err)
		}
		failed := slices.IndexFunc(result.Objects, func(o apply.ObjectResult) bool { return o.Err != nil && o.Err.Reason == apply.HookFailed })
		if failed >= 0 {
			s.Logf("engine: %v", result.Objects[failed].Err)
		}
		if result.Done || failed >= 0 {
			return result.Done
		}
		retry := time.NewTimer(patience)
		if result.Retry > 0 {
			retry.Reset(result.Retry)
		}
		select {
		case <-s.engine.Changed():
			s.engine.Take()
		case <-retry.C:
		case <-deadline:
			s.Fatalf("it never comes to an end: waiting for %q: %+v", result.Waiting, result.Objects)
		}
	}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// endPods has the namespace's own pods succeed, in the place of nodes: simulated ones let pods run for ever that are of no Job.
func endPods(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	pods := cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(cluster.Namespace)
	changes, err := pods.Watch(t.Context(), metav1.ListOptions{LabelSelector: "!" + batchv1.JobNameLabel})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for change := range changes.ResultChan() {
			if pod, ok := change.Object.(*unstructured.Unstructured); ok && change.Type == watch.Added {
				// One that is gone by now has no need of it.
				_, _ = pods.Patch(t.Context(), pod.GetName(), types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			}
		}
	}()
	t.Cleanup(func() {
		changes.Stop()
		<-ended
	})
}

// left lists what is in the namespace, without what Kubernetes puts there and without what Jobs made.
func left(t *testing.T, cluster *kubetest.Cluster) []string {
	t.Helper()
	var found []string
	for _, kind := range []schema.GroupVersionResource{
		configMaps,
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	} {
		list, err := cluster.Dynamic.Resource(kind).Namespace(cluster.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			byKubernetes := o.GetName() == "kube-root-ca.crt" || kind.Resource == "serviceaccounts" && o.GetName() == "default"
			if !byKubernetes && len(o.GetOwnerReferences()) == 0 && o.GetDeletionTimestamp() == nil {
				found = append(found, kind.Resource+"/"+o.GetName())
			}
		}
	}
	return found
}
