// Package charts owns the promises of the charts of hub and agent, kept against a real API server and real processes.
package charts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// The test binary is the child that renders.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// values of a chart, nested.
type values = map[string]any

// chart renders the chart of a package of the embedded catalog, as an agent would.
func chart(t *testing.T, name string, v values) ([]*unstructured.Unstructured, error) {
	t.Helper()
	files, err := fs.Sub(templates.Catalog(), name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := (&render.Renderer{Command: []string{self, "render-child"}}).Render(t.Context(), render.Input{
		Renderer: render.HelmChart, Path: "chart", Namespace: identity.Namespace, Service: name, Files: files,
		Helm: &render.Helm{Release: "plural-" + name, ValuesJSON: text},
	})
	if err != nil {
		return nil, err
	}
	if len(out.Warnings) > 0 {
		t.Errorf("%s %v: rendered with warnings: %v", name, v, out.Warnings)
	}
	return out.Objects, nil
}

// cluster is one whose API server's warnings are failures.
type cluster struct {
	*testing.T
	*kubetest.Cluster
	kube dynamic.Interface
}

// warnings fail a test.
type warnings struct {
	t  *testing.T
	mu sync.Mutex
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Errorf("the API server warns: %s", text)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, Cluster: kubetest.Start(t)}
	config := rest.CopyConfig(c.RESTConfig)
	config.WarningHandler = &warnings{t: t}
	kube, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.kube = kube
	if err := identity.MakeNamespace(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	c.eventually("the namespace takes pods", func() bool {
		_, err := c.resource("v1", "ServiceAccount", identity.Namespace).Get(c.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return c
}

// resource is the client of a kind; all kinds here have simple plurals but two.
func (c *cluster) resource(apiVersion, kind, namespace string) dynamic.ResourceInterface {
	c.Helper()
	group, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		c.Fatal(err)
	}
	plural := strings.ToLower(kind) + "s"
	if base, y := strings.CutSuffix(plural, "ys"); y {
		plural = base + "ies"
	}
	plural = strings.Replace(plural, "ingresss", "ingresses", 1)
	client := c.kube.Resource(group.WithResource(plural))
	if namespace == "" {
		return client
	}
	return client.Namespace(namespace)
}

func (c *cluster) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	return c.resource(o.GetAPIVersion(), o.GetKind(), o.GetNamespace())
}

// apply puts objects into the cluster, strictly.
func (c *cluster) apply(objects []*unstructured.Unstructured) {
	c.Helper()
	for _, o := range objects {
		text, err := json.Marshal(o.Object)
		if err != nil {
			c.Fatal(err)
		}
		force := true
		_, err = c.of(o).Patch(c.Context(), o.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
			FieldManager: "plural", FieldValidation: metav1.FieldValidationStrict, Force: &force,
		})
		if err != nil {
			c.Errorf("%s %s is not accepted: %v\n%s", o.GetKind(), o.GetName(), err, text)
		}
	}
}

// delete takes objects away until they and their pods are gone: the controller that aggregates roles makes one again that it was
// about to write.
func (c *cluster) delete(objects []*unstructured.Unstructured) {
	c.Helper()
	ctx := context.WithoutCancel(c.Context())
	c.eventually("all of it is gone", func() bool {
		left := 0
		for _, o := range slices.Backward(objects) {
			how := metav1.DeletePropagationBackground
			if _, workload, _ := unstructured.NestedMap(o.Object, "spec", "template"); workload {
				how = metav1.DeletePropagationForeground // with its pods
			}
			err := c.of(o).Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &how})
			if !apierrors.IsNotFound(err) {
				left++
			}
			if err != nil && !apierrors.IsNotFound(err) {
				c.Errorf("delete %s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
		return left == 0
	})
}

func (c *cluster) eventually(what string, is func() bool) {
	c.Helper()
	deadline := time.After(90 * time.Second)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !is() {
		select {
		case <-deadline:
			c.Fatalf("not after 90 s: %s", what)
		case <-ticker.C:
		}
	}
}

// pods are those of the hub or the agent.
func (c *cluster) pods(name string) []corev1.Pod {
	c.Helper()
	list, err := c.resource("v1", "Pod", identity.Namespace).List(c.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
	if err != nil {
		c.Fatal(err)
	}
	pods := make([]corev1.Pod, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &pods[i]); err != nil {
			c.Fatal(err)
		}
	}
	return pods
}

// runs waits until the controllers have made as many pods, which the API server admitted.
func (c *cluster) runs(name string, pods int) {
	c.Helper()
	c.eventually(fmt.Sprintf("%d pods of %s run", pods, name), func() bool {
		running := 0
		for _, p := range c.pods(name) {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == pods
	})
}

// check holds the pod templates against what every workload of ours promises.
func check(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range objects {
		if id := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName(); seen[id] {
			t.Errorf("%s is there twice", id)
		} else {
			seen[id] = true
		}
		raw, ok, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		if !ok {
			continue
		}
		var spec corev1.PodSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
			t.Fatal(err)
		}
		for _, container := range spec.Containers {
			_, tag, tagged := strings.Cut(container.Image[strings.LastIndex(container.Image, "/")+1:], ":")
			switch {
			case !tagged, tag == "", tag == "latest":
				t.Errorf("%s: image %q is not pinned", o.GetName(), container.Image)
			case container.Resources.Requests.Cpu().IsZero(), container.Resources.Requests.Memory().IsZero(), container.Resources.Limits.Memory().IsZero():
				t.Errorf("%s: resources are not set: %v", o.GetName(), container.Resources)
			case container.ReadinessProbe == nil, container.LivenessProbe == nil, container.StartupProbe == nil:
				t.Errorf("%s: %s lacks a probe", o.GetName(), container.Name)
			case container.SecurityContext.ReadOnlyRootFilesystem == nil, !*container.SecurityContext.ReadOnlyRootFilesystem:
				t.Errorf("%s: %s may write to its image", o.GetName(), container.Name)
			}
		}
		for _, v := range spec.Volumes {
			if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o400) {
				t.Errorf("%s: the files of %s can be read by others", o.GetName(), v.Name)
			}
		}
	}
}

// choice is one of the things that a chart can be told, and what to tell it.
type choice struct {
	name string
	set  values
}

// pairs are combinations in which every two choices meet in all four ways: none, all, and each alone; besides them all but each.
// They are by a name that says which were made.
func pairs(choices []choice) map[string]values {
	all := map[string]values{}
	add := func(made func(i int) bool) {
		var name []string
		v := values{}
		for i, c := range choices {
			if made(i) {
				name = append(name, c.name)
				merge(v, c.set)
			}
		}
		all[cmp.Or(strings.Join(name, " "), "plain")] = v
	}
	add(func(int) bool { return false })
	add(func(int) bool { return true })
	for one := range choices {
		add(func(i int) bool { return i == one })
		add(func(i int) bool { return i != one })
	}
	return all
}

func merge(into, from values) {
	for key, value := range from {
		below, isMap := value.(values)
		if !isMap {
			into[key] = value
			continue
		}
		if into[key] == nil {
			into[key] = values{}
		}
		merge(into[key].(values), below)
	}
}

// some are the combinations whose pods are run: none, all, and each alone. The others are only applied.
func some(name string, choices int) bool {
	made := 1 + strings.Count(name, " ")
	return made == 1 || made == choices
}

func TestEveryKindOfHubIsAcceptedWhereNothingButTheRestrictedIs(t *testing.T) {
	c := newCluster(t)
	choices := []choice{
		{"replicas", values{"replicas": 3}},
		{"ingress", values{"ingress": values{
			"enabled": true, "host": "hub.example.com", "className": "nginx",
			"tlsSecret": "hub-tls",
		}}},
		{"no-volume", values{"storage": values{"enabled": false}}},
		{"tls", values{"tls": true, "service": values{"type": "LoadBalancer", "port": 443, "annotations": values{"a/b": "c"}}}},
		{"edits", values{"edits": true, "url": "https://hub.example.com"}},
		{"keys", values{"repo": values{"keys": []any{"ssh-ed25519 AAAA ada", "ssh-ed25519 BBBB eve"}, "floor": strings.Repeat("c", 40)}}},
		{"placed", values{
			"nodeSelector": values{"kubernetes.io/os": "linux"}, "tolerations": []any{
				"dedicated=hub:NoSchedule", "gpu:NoExecute",
				values{"operator": "Exists"},
			},
			"networkPolicy": values{"enabled": false}, "extraArgs": []any{"--interval=1m"},
			"image": values{"digest": "sha256:" + strings.Repeat("ab", 32), "pullSecrets": []any{"mirror"}},
		}},
	}
	for _, name := range slices.Sorted(maps.Keys(pairs(choices))) {
		t.Run(name, func(t *testing.T) {
			c.T = t
			v := pairs(choices)[name]
			merge(v, values{"repo": values{"url": "https://git.example.com/fleet.git"}})
			objects, err := chart(t, "hub", v)
			if err != nil {
				t.Fatal(err)
			}
			check(t, objects)
			if !some(name, len(choices)) {
				c.dryRun(objects)
				return
			}
			c.apply(objects)
			replicas := 1
			if v["replicas"] == 3 {
				replicas = 3
			}
			c.runs("plural-hub", replicas)
			c.delete(objects)
		})
	}
}

// A pod waits without end for a volume of a key that is not there, and a hub that never starts does not say what it lacks.
func TestAHubStartsToSayThatItsSecretHasNoSigningKey(t *testing.T) {
	objects, err := chart(t, "hub", values{"edits": true, "repo": values{"url": "https://git.example.com/fleet.git", "keys": []any{stranger}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
		for _, volume := range volumes {
			if v := volume.(values); v["name"] == "signing" {
				if optional, _, _ := unstructured.NestedBool(v, "secret", "optional"); !optional {
					t.Errorf("its pods wait for %v", v)
				}
				return
			}
		}
	}
	t.Error("the key is mounted nowhere")
}

func TestEveryKindOfAgentIsAcceptedWhereNothingButTheRestrictedIs(t *testing.T) {
	c := newCluster(t)
	choices := []choice{
		{"minimal", values{"permissions": values{"deploy": false, "secrets": false, "impersonate": []any{c.Namespace + "/deployer"}}}},
		{"no-reach", values{"permissions": values{"reach": false}}},
		{"admin", values{"permissions": values{"admin": true, "deploy": false}}},
		{"operators", values{"permissions": values{"operators": true, "people": []any{"platform=view", "user:ana=edit@" + c.Namespace}}}},
		{"volume", values{"persistence": values{"enabled": true, "storageClass": "standard"}}},
		{"plugins", values{
			"plugins":     values{"image": "registry.example.com/plugins@sha256:" + strings.Repeat("ab", 32)},
			"concurrency": 8, "log": values{"verbose": true},
		}},
		{"way-out", values{
			"proxy":   values{"http": "http://proxy:3128", "noProxy": "10.0.0.0/8"},
			"extraCA": "-----BEGIN CERTIFICATE-----\n",
		}},
		{"placed", values{
			"nodeSelector": values{"kubernetes.io/os": "linux"}, "tolerations": []any{"dedicated=system:NoSchedule"},
			"image": values{"tag": "1.2.3", "pullSecrets": []any{"mirror"}}, "priorityClassName": "system-cluster-critical",
		}},
	}
	for _, name := range slices.Sorted(maps.Keys(pairs(choices))) {
		t.Run(name, func(t *testing.T) {
			c.T = t
			objects, err := chart(t, "agent", pairs(choices)[name])
			if err != nil {
				t.Fatal(err)
			}
			check(t, objects)
			if !some(name, len(choices)) {
				c.dryRun(objects)
				return
			}
			c.apply(objects)
			c.runs("plural-agent", 1)
			c.delete(objects)
		})
	}
}

// dryRun has the API server judge objects without keeping them.
func (c *cluster) dryRun(objects []*unstructured.Unstructured) {
	c.Helper()
	for _, o := range objects {
		if _, err := c.of(o).Create(c.Context(), o, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		}); err != nil && !apierrors.IsAlreadyExists(err) {
			c.Errorf("%s %s is not accepted: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func TestReplicasOfAHubKnowEachOtherByTheNamesOfTheirPods(t *testing.T) {
	for _, replicas := range []int{3, 5, 7} {
		objects, err := chart(t, "hub", values{"replicas": replicas, "repo": values{"url": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		check(t, objects)
		var routes []string
		for i := range replicas {
			routes = append(routes, fmt.Sprintf("plural-hub-%d.plural-hub-replicas.%s.svc:6222", i, identity.Namespace))
		}
		text, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		if want := `"--cluster-routes=` + strings.Join(routes, ",") + `"`; !strings.Contains(string(text), want) {
			t.Errorf("%d replicas lack %s", replicas, want)
		}
	}
}

func TestChartsRefuseWhatCannotWork(t *testing.T) {
	for name, tt := range map[string]struct {
		chart string
		set   values
		want  string
	}{
		"no replica":    {"hub", values{"replicas": 0, "repo": values{"url": "x"}}, "a hub has 1, 3, 5 or 7"},
		"two replicas":  {"hub", values{"replicas": 2, "repo": values{"url": "x"}}, "an even number stands no more failures"},
		"four replicas": {"hub", values{"replicas": 4, "repo": values{"url": "x"}}, "an even number stands no more failures"},
		"nine replicas": {"hub", values{"replicas": 9, "repo": values{"url": "x"}}, "each change waits for more of them"},
		"no repo":       {"hub", values{}, "which installation repo does the hub serve?"},
		"no host": {
			"hub",
			values{"repo": values{"url": "x"}, "ingress": values{"enabled": true}},
			"under which name is the hub reached?",
		},
		"a volume, or not": {"agent", values{"persistence": values{"enabled": "maybe"}}, "neither true nor false"},
		"plugins of anybody": {
			"agent",
			values{"plugins": values{"image": "registry.example.com/plugins:1"}},
			"somebody else can put other programs into",
		},
		"a claim of anybody": {"agent", values{"plugins": values{"claim": "plugins"}}, "somebody else can put other programs into"},
		"plugins of two": {
			"agent",
			values{"plugins": values{"claim": "plugins", "image": "a@sha256:b"}},
			"not from both",
		},
		"an account": {"agent", values{"permissions": values{"impersonate": []any{"deployer"}}}, `"deployer" is not NAMESPACE/NAME`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := chart(t, tt.chart, tt.set); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: %v", tt.set, err)
			}
		})
	}
}
