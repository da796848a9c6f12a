package deploy

import (
	"context"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/needs"
)

// corpusCase is what is known of one folder of manifests that others wrote.
type corpusCase struct {
	// expect is what one pass says, each a part of a line of it; "done" when all of it is applied. Its default is that.
	expect []string
	// refused is a part of what the render says, for folders that cannot be rendered.
	refused string
	// then looks at what came of it, and goes on from there.
	then func(c *corpusScene)
	// none is why the folder says nothing about the engine.
	none string
	// inputs change how it is rendered.
	inputs func(*render.Input)
}

type corpusScene struct {
	*scene
	objects []*unstructured.Unstructured
}

// corpusCases is the folder of the cases; the test is skipped without it.
func corpusCases(t *testing.T) string {
	t.Helper()
	return filepath.Join(needs.Corpus(t), "argo-cd-e2e", "cases")
}

// render is what the folder renders to, in a child process as the agent does it.
func (c corpusCase) render(t *testing.T, cases, name string) ([]*unstructured.Unstructured, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in := render.Input{Path: name, Service: "corpus", Files: os.DirFS(cases), Renderer: rendererOf(filepath.Join(cases, name)), KubeVersion: "v1.35.0"}
	if c.inputs != nil {
		c.inputs(&in)
	}
	out, err := (&render.Renderer{Command: []string{self, "render-child"}}).Render(t.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.Objects, nil
}

func rendererOf(dir string) string {
	for file, renderer := range map[string]string{"Chart.yaml": render.HelmChart, "kustomization.yaml": render.Kustomize, "kustomization.yml": render.Kustomize} {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return renderer
		}
	}
	return render.Raw
}

// outside guards what lies outside a scene's own namespace: folders share names there.
var outside sync.Mutex

func reachesOut(objects []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		_, known := resources[o.GetKind()]
		return !known || clusterWide(o.GetKind()) || o.GetNamespace() != ""
	})
}

// TestEveryCaseOfTheCorpusBehavesAsItIsDefined plays the folders, several at a time.
func TestEveryCaseOfTheCorpusBehavesAsItIsDefined(t *testing.T) {
	t.Parallel()
	cases := corpusCases(t)
	table := corpusTable()
	entries, err := os.ReadDir(cases)
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	group.SetLimit(8)
	for _, entry := range entries {
		name := entry.Name()
		test, known := table[name]
		delete(table, name)
		switch {
		case !known:
			t.Errorf("%s: nothing is said of this folder", name)
		case test.none != "":
			t.Logf("%s is not played: %s", name, test.none)
		default:
			group.Go(func() error {
				t.Run(name, func(t *testing.T) { test.play(t, cases, name) })
				return nil
			})
		}
	}
	_ = group.Wait() // none returns an error
	for name := range table {
		t.Errorf("%s is no folder of the corpus", name)
	}
}

func (c corpusCase) play(t *testing.T, cases, name string) {
	objects, err := c.render(t, cases, name)
	if c.refused != "" {
		if err == nil || !strings.Contains(err.Error(), c.refused) {
			t.Errorf("the render says %v, want %q", err, c.refused)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if reachesOut(objects) {
		outside.Lock()
		t.Cleanup(outside.Unlock) // when all is cleaned up
	}
	s := &corpusScene{newScene(t, 0), objects}
	t.Cleanup(s.clean)
	s.askFor(objects...)
	if len(c.expect) > 0 {
		s.shows(c.expect...)
	} else {
		s.becomes("the folder is applied")
	}
	if c.then != nil {
		c.then(s)
	}
}

// clean takes away what would be in the next folder's way.
func (c *corpusScene) clean() {
	ctx := context.WithoutCancel(c.Context())
	for _, object := range c.objects {
		resource, known := resources[object.GetKind()]
		if !known || !clusterWide(object.GetKind()) && (object.GetNamespace() == "" || object.GetNamespace() == c.namespace) {
			continue
		}
		namespace := object.GetNamespace()
		if clusterWide(object.GetKind()) {
			namespace = ""
		}
		all := c.cluster.Dynamic.Resource(resource).Namespace(namespace)
		_ = all.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
		if object.GetKind() == "CustomResourceDefinition" {
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
				if _, err := all.Get(ctx, object.GetName(), metav1.GetOptions{}); isGone(err) {
					break
				}
			}
		}
	}
}

// order is the order in which the proxy saw objects being applied first, by name; of what is created, which hooks are, it saw
// the kind alone.
func (c *corpusScene) order() (names []string) {
	for _, r := range c.proxy.Requests() {
		if r.Method != http.MethodPatch && r.Method != http.MethodPost || strings.Contains(r.Path, "/namespaces/plural-system/") {
			continue
		}
		file, _, _ := strings.Cut(r.Path, "?")
		if name := path.Base(file); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// before wants one object to have been applied before another.
func (c *corpusScene) before(first, second string) {
	c.Helper()
	order := c.order()
	if a, b := slices.Index(order, first), slices.Index(order, second); a < 0 || b < 0 || a > b {
		c.Errorf("%s came at %d and %s at %d: %v", first, a, second, b, order)
	}
}

// there says whether an object of the scene's namespace is live.
func (c *corpusScene) there(kind, name string) bool {
	c.Helper()
	_, err := c.of(kind).Get(c.Context(), name, metav1.GetOptions{})
	if err != nil && !isGone(err) {
		c.Fatal(err)
	}
	return err == nil
}

func (c *corpusScene) isThere(kind, name string, want bool) {
	c.Helper()
	if got := c.there(kind, name); got != want {
		c.Errorf("%s %s is there: %t, want %t", kind, name, got, want)
	}
}

// ends lets a pod end well, as its container does where containers run.
func (c *corpusScene) ends(namespace, pod string) {
	c.Helper()
	c.eventually(pod+" runs", func() bool { return c.runs(namespace, pod) })
	done := `{"status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]}}`
	_, err := c.cluster.Dynamic.Resource(pods).Namespace(namespace).Patch(c.Context(), pod, "application/strategic-merge-patch+json", []byte(done), metav1.PatchOptions{}, "status")
	c.must(err)
}

func (c *corpusScene) runs(namespace, pod string) bool {
	live, err := c.cluster.Dynamic.Resource(pods).Namespace(namespace).Get(c.Context(), pod, metav1.GetOptions{})
	if err != nil {
		return false
	}
	phase, _, _ := unstructured.NestedString(live.Object, "status", "phase")
	return phase == "Running"
}
