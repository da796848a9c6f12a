package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// informer is client-go's own, of the ConfigMaps in a namespace. It notes everything that it was told.
type informer struct {
	store cache.Store

	mu   sync.Mutex
	seen map[string]int // by name: how often it was told of an addition
}

// informs starts an informer that goes on until the test ends.
func (u *user) informs(cluster string) *informer {
	u.t.Helper()
	maps := u.kube(cluster).Resource(configMaps).Namespace(namespace)
	i := &informer{seen: map[string]int{}}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return maps.Watch(ctx, o)
			},
		},
		ObjectType: &unstructured.Unstructured{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.seen[object.(*unstructured.Unstructured).GetName()]++
		}},
	})
	i.store = store
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); controller.RunWithContext(ctx) }()
	u.t.Cleanup(func() { cancel(); <-done })
	u.eventually("the informer has listed", timeout, controller.HasSynced)
	return i
}

// has says whether it was told of every one of the named once.
func (i *informer) has(names []string) (missing []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, name := range names {
		if i.seen[name] != 1 {
			missing = append(missing, fmt.Sprintf("%s: told %d times", name, i.seen[name]))
		}
	}
	return missing
}

// makes creates ConfigMaps straight at the cluster's API server, and gives their names.
func (r *reached) makes(cluster, when string) (names []string) {
	r.t.Helper()
	for i := range 5 {
		name := fmt.Sprintf("made-%s-%d", when, i)
		s := &site{r.local, r.kube(cluster), nil}
		s.make(configMaps, namespace, configMap(name, when))
		names = append(names, name)
	}
	return names
}

func hubDies(t *testing.T, r *reached, p *people) {
	informers := map[string]*informer{"edge-1": p.alice.informs("edge-1"), "mgmt": r.operator.informs("mgmt")}
	made := map[string][]string{}
	for cluster := range informers {
		made[cluster] = r.makes(cluster, "before")
	}
	r.killHub()
	for cluster := range informers {
		made[cluster] = append(made[cluster], r.makes(cluster, "while-it-is-dead")...)
	}
	began := time.Now()
	r.startHub()
	r.reachable()
	t.Logf("all clusters could be reached again %v after the hub's start", time.Since(began).Round(time.Millisecond))
	for cluster, i := range informers {
		made[cluster] = append(made[cluster], r.makes(cluster, "after")...)
		var missing []string
		for deadline := time.Now().Add(timeout); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
			if missing = i.has(made[cluster]); len(missing) == 0 {
				break
			}
		}
		if len(missing) > 0 {
			t.Errorf("the informer of %s misses %v", cluster, missing)
		}
	}
	p.alice.can("made-after-0", "plural", "kubectl", "edge-1", "-n", namespace, "get", "configmaps")
}

func agentDies(t *testing.T, r *reached, p *people) {
	session, watched := r.operator.execs("edge-1"), p.alice.watches("edge-1")
	elsewhere := r.operator.execs("mgmt")
	agent := r.parts()["agent-edge-1"].PID
	killed := time.Now()
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	session.endsWithin(t, promise, killed)
	watched.endsWithin(t, promise, killed)
	r.eventually("kubectl works again", timeout, func() bool {
		cmd := p.alice.command("plural", "kubectl", "edge-1", "-n", namespace, "get", "configmap", "shop")
		return cmd.Run() == nil
	})
	t.Logf("kubectl worked again %v after the agent was killed", time.Since(killed).Round(time.Millisecond))
	elsewhere.echoes(t, "nothing happened here")
}

func tokenTakenBack(t *testing.T, r *reached, p *people) {
	r.commit("Let alice open shells", map[string]string{"access/shells.yaml": shells})
	followed := p.alice.follow("")
	watched, session := p.alice.watches("edge-1"), p.alice.execs("edge-1")
	others, bystander := p.bob.watches("edge-1"), r.operator.execs("edge-1")
	began := time.Now()
	r.run("auth", "token", "delete", "alice", "laptop")
	watched.endsWithin(t, promise, began)
	session.endsWithin(t, promise, began)
	followed.endsWithin(t, promise, began)
	p.alice.cannot("does not know you", "plural", "kubectl", "edge-1", "-n", namespace, "get", "pods")
	p.alice.cannot("does not know you", "kubectl", "-n", namespace, "get", "pods")
	p.alice.cannot("does not know you", "plural", "auth", "status")
	if status := p.alice.asks("edge-1", "/api/v1/namespaces/demo/pods"); status != http.StatusUnauthorized {
		t.Errorf("the token that was taken back is answered %d", status)
	}
	others.goesOn(t)
	bystander.goesOn(t)
	bystander.echoes(t, "nothing happened here")
	r.recorded("why the session ended", func(one record) bool {
		return one.Person == "alice" && one.Subresource == "exec" && one.Stage == "end" && one.Decision == "allowed" && strings.Contains(one.Cause, "withdrawn")
	})
}

func roleTakenAway(t *testing.T, r *reached, p *people) {
	watched, bystander := p.bob.watches("edge-1"), r.operator.watches("edge-1")
	began := time.Now()
	r.commit("Take bob's role away", map[string]string{"access/bob-reads.yaml": ""})
	watched.endsWithin(t, promise, began)
	p.bob.cannot(`cluster "edge-1" not found`, "plural", "kubectl", "edge-1", "-n", namespace, "get", "pods")
	bystander.goesOn(t)
}

func clustersLeave(t *testing.T, r *reached, _ *people) {
	open := map[string][]*open{}
	for _, cluster := range clusters {
		open[cluster] = append(open[cluster], r.operator.watches(cluster), r.operator.execs(cluster).open)
	}
	began := time.Now()
	r.run("cluster", "delete", "edge-2", "--confirm", "edge-2")
	for _, o := range open["edge-2"] {
		o.endsWithin(t, promise, began)
	}
	if status := r.operator.asks("edge-2", "/version"); status != http.StatusNotFound {
		t.Errorf("a cluster that left answers %d", status)
	}

	began = time.Now()
	r.replace("clusters/edge-1.yaml", `ed25519:[A-Za-z0-9+/=]+`, "ed25519:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	r.push("Give edge-1 another key")
	for _, o := range open["edge-1"] {
		o.endsWithin(t, promise, began)
	}
	for _, o := range open["mgmt"] {
		o.goesOn(t)
	}
	began = time.Now()
	if status := r.operator.asks("edge-1", "/version"); status != http.StatusServiceUnavailable {
		t.Errorf("a cluster whose agent has a key of before answers %d", status)
	}
	t.Logf("that nobody reaches edge-1 was said after %v", time.Since(began).Round(time.Millisecond))
}
