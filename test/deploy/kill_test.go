package deploy

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	revisions = 10
	kills     = 5 // of each revision
	size      = 200
	victim    = "victim"
)

// TestAgentIsKilledFiftyTimesAndConverges kills the agent without a warning at random moments of syncs of 200 objects with
// hooks. Each revision changes every object, takes ten away and adds ten.
func TestAgentIsKilledFiftyTimesAndConverges(t *testing.T) {
	t.Parallel()
	f := newFleet(t, localPoll)
	f.service(victim)
	f.writeRevision(0)
	f.startAgent()
	f.deploy("Revision 0", time.Minute)
	runs := f.countHooks()
	seed := rand.Uint64()
	t.Logf("moments are made of the seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for revision := 1; revision <= revisions; revision++ {
		f.writeRevision(revision)
		commit := f.commit(fmt.Sprintf("Revision %d", revision))
		f.hint()
		var met []int
		for kill := range kills {
			if some := random.IntN(size - 3); kill%2 == 0 {
				f.idle(time.Duration(random.IntN(900)) * time.Millisecond)
			} else { // in the middle of applying, deleting, or what comes after
				f.within(3*time.Second, 15*time.Millisecond, func() bool { return f.arrived(revision) > some })
				f.idle(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			f.agent.kill()
			met = append(met, f.arrived(revision))
			f.startAgent()
		}
		t.Logf("revision %d: kills met it with so many objects in place: %v", revision, met)
		f.converged(commit, 40*time.Second)
		if diff := cmp.Diff(wantedAt(revision), f.owned()); diff != "" {
			t.Errorf("objects with the service's label after revision %d (-want +got):\n%s", revision, diff)
		}
	}
	f.checkRuns(runs())
	f.git("rm", "-q", "services/"+victim+".yaml")
	f.commit("Remove the service")
	f.hint()
	f.eventually("nothing is left of a service that is removed", time.Minute, func() bool { return len(f.owned()) == 0 })
}

// writeRevision is 200 objects, hooks included.
func (f *fleet) writeRevision(revision int) {
	f.Helper()
	var text strings.Builder
	for _, name := range wantedAt(revision) {
		if kind, name, _ := strings.Cut(name, "/"); kind == "configmaps" {
			text.WriteString("---\n" + configMapText(name, fmt.Sprint(revision)))
		}
	}
	for _, hook := range []string{"PreSync", "PostSync", "SyncFail"} {
		fmt.Fprintf(&text, `---
apiVersion: batch/v1
kind: Job
metadata: {name: %s, annotations: {argocd.argoproj.io/hook: %s, example.com/revision: "%d"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: main, env: [{name: REVISION, value: "%[3]d"}]}]}}}
`, strings.ToLower(hook), hook, revision)
	}
	f.write("apps/"+victim+"/all.yaml", text.String())
}

// wantedAt is what has to be live at a revision, sorted. The hook for failures is not.
func wantedAt(revision int) []string {
	names := []string{"jobs/postsync", "jobs/presync"}
	for i := range size - 3 {
		first := revision * 10
		names = append(names, fmt.Sprintf("configmaps/cm-%04d", first+i))
	}
	slices.Sort(names)
	return names
}

// arrived is how many ConfigMaps are of a revision.
func (f *fleet) arrived(revision int) (n int) {
	f.Helper()
	list, err := f.objects.Resource(configMaps).Namespace(workplace).List(f.Context(), metav1.ListOptions{LabelSelector: serviceLabel + "=" + victim})
	f.must(err)
	for i := range list.Items {
		if value, _, _ := unstructured.NestedString(list.Items[i].Object, "data", "value"); value == fmt.Sprint(revision) {
			n++
		}
	}
	return n
}

// owned is every object that the service's label is on, whatever made it, sorted.
func (f *fleet) owned() (names []string) {
	f.Helper()
	for _, resource := range []schema.GroupVersionResource{configMaps, jobs, secrets, accounts, deployments} {
		list, err := f.meta.Resource(resource).List(context.WithoutCancel(f.Context()), metav1.ListOptions{LabelSelector: serviceLabel + "=" + victim})
		f.must(err)
		for i := range list.Items {
			names = append(names, resource.Resource+"/"+list.Items[i].GetName())
		}
	}
	slices.Sort(names)
	return names
}

// countHooks follows the Jobs from now on. What it returns ends that, and gives the uids of each hook of each revision.
func (f *fleet) countHooks() (stop func() map[string][]string) {
	f.Helper()
	w, err := f.objects.Resource(jobs).Namespace(workplace).Watch(f.Context(), metav1.ListOptions{})
	f.must(err)
	runs := map[string][]string{}
	var following sync.WaitGroup
	var stopped atomic.Bool
	following.Go(func() {
		for event := range w.ResultChan() {
			job, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				if !stopped.Load() {
					f.Errorf("the watch of Jobs broke: %v", event.Object)
				}
				return
			}
			run := job.GetName() + " of revision " + job.GetAnnotations()["example.com/revision"]
			if uid := string(job.GetUID()); !slices.Contains(runs[run], uid) {
				runs[run] = append(runs[run], uid)
			}
		}
	})
	return func() map[string][]string {
		stopped.Store(true)
		w.Stop()
		following.Wait()
		return runs
	}
}

// checkRuns wants each hook of each revision to have run once, and the one for failures never.
func (f *fleet) checkRuns(runs map[string][]string) {
	f.Helper()
	want, got := map[string]int{}, map[string]int{}
	for revision := range revisions + 1 {
		for _, hook := range []string{"presync", "postsync"} {
			want[fmt.Sprintf("%s of revision %d", hook, revision)] = 1
		}
	}
	for run, uids := range runs {
		got[run] = len(uids)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("how often each hook ran (-want +got):\n%s", diff)
	}
	if len(runs) == 0 {
		f.Errorf("no hook was seen: %v", slices.Collect(maps.Keys(runs)))
	}
}
