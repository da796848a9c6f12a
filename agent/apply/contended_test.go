package apply_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pluralsh/plural/agent/apply"
)

// contended returns an engine before whose writes of the inventory somebody else writes it, as long as that says so.
func (w *world) contended(other func(n int32) bool) (engine *apply.Engine, writes *atomic.Int32) {
	w.Helper()
	writes = new(atomic.Int32)
	var over atomic.Bool
	engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "plural-inventory-") && !over.Load() {
				over.Store(!other(writes.Add(1)))
			}
			return next.RoundTrip(r)
		})
	})
	return engine, writes
}

func TestTwoPassesOfOneServiceAtOnceDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second, third := configMap("first", "1"), configMap("second", "1"), configMap("third", "1")
	w.apply(first)
	engine, writes := w.contended(func(int32) bool {
		w.apply(first, second)
		return false
	})
	req := w.request(third)
	req.Prune = false

	result, err := engine.Apply(t.Context(), req)

	if err != nil || !result.Done {
		t.Fatalf("error %v, done %v: want what the other one wrote to be read, and the pass done on top of it", err, result.Done)
	}
	w.expect(result, "created ConfigMap/third", "kept ConfigMap/second", "kept ConfigMap/first")
	if writes.Load() != 1 {
		t.Errorf("%d collisions, want 1", writes.Load())
	}
	w.mustExist(first, second, third)
	// Whoever comes next knows of the objects of both.
	w.engine = w.newEngine(nil)
	w.expect(w.follows(w.request(third), isDone), "unchanged ConfigMap/third", "deleted ConfigMap/second", "deleted ConfigMap/first")
}

func TestAPassThatOthersKeepInterferingWithEndsAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(configMap("first", "1"))
	theirs := []string{"first"}
	engine, writes := w.contended(func(n int32) bool {
		theirs = append(theirs, fmt.Sprintf("other-%d", n))
		req := w.request(configMap(theirs[len(theirs)-1], "1"))
		req.Prune = false
		w.pass(req)
		return true
	})

	_, err := engine.Apply(t.Context(), w.request(configMap("mine", "1")))

	if !errors.Is(err, apply.ErrContended) {
		t.Errorf("error %v, want %v", err, apply.ErrContended)
	}
	if n := writes.Load(); n < 2 || n > 10 {
		t.Errorf("the inventory was written %d times", n)
	}
	w.engine = w.newEngine(nil)
	w.follows(w.request(configMap("mine", "1")), isDone)
	for _, name := range theirs {
		if w.exists(configMap(name, "1")) {
			t.Errorf("%s was forgotten", name)
		}
	}
}

func TestAHookRunsOnceAndAtOnceThoughSomebodyElseWritesTheInventoryBeforeIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(configMap("first", "1"))
	hook := manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: before, annotations: {argocd.argoproj.io/hook: PreSync}}}`)
	engine, _ := w.contended(func(n int32) bool {
		req := w.request(configMap("first", fmt.Sprint(n)))
		w.pass(req)
		return n < 2
	})

	result, err := engine.Apply(t.Context(), w.request(configMap("first", "1"), hook))

	if err != nil || !result.Done || !result.Complete() {
		t.Errorf("error %v, result %+v: want it done in one call", err, result)
	}
}

func TestTheRulesOfAnAggregatedClusterRoleAreLeftToTheCluster(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]string{
		"none": "[]", "of its own": "[{apiGroups: [apps], resources: [deployments], verbs: [get]}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			part := manifest(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
				metadata: {name: ` + w.namespace + `-part, labels: {part-of: ` + w.namespace + `}},
				rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`)
			whole := manifest(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ` + w.namespace + `},
				aggregationRule: {clusterRoleSelectors: [{matchLabels: {part-of: ` + w.namespace + `}}]}, rules: ` + rules + `}`)
			w.removeLater(part)
			w.removeLater(whole)
			req := w.request(part, whole)
			var writes atomic.Int32
			w.engine = w.newEngine(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPatch || r.Method == http.MethodPut {
						writes.Add(1)
					}
					return next.RoundTrip(r)
				})
			})
			w.settles(req)
			w.eventually("the cluster to fill the rules in", func() bool {
				rules, _ := w.live(whole).Object["rules"].([]any)
				return len(rules) == 1 && fmt.Sprint(rules[0]) == "map[apiGroups:[] resources:[pods] verbs:[get]]"
			})
			w.noticed(w.live(whole))

			before, version := writes.Load(), w.live(whole).GetResourceVersion()
			w.expect(w.pass(req), "unchanged ClusterRole/"+w.namespace, "unchanged ClusterRole/"+w.namespace+"-part")

			if writes.Load() != before || w.live(whole).GetResourceVersion() != version {
				t.Error("the cluster's rules were taken away again")
			}
			req.Key = "of another manifest that is the same"
			w.settles(req)
			if got := w.live(whole).GetResourceVersion(); got != version {
				t.Errorf("another apply changed the role from %s to %s", version, got)
			}
			changes, err := w.engine.Diff(t.Context(), req)
			if err != nil || len(changes) != 0 {
				t.Errorf("differences %+v, %v", changes, err)
			}
		})
	}
}
