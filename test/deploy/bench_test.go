package deploy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// figure prints a line "bench NAME VALUE UNIT", and a remark when the value is over its target; a target of zero is none.
func figure(name string, value float64, unit string, most float64) {
	fmt.Printf("bench %s %.4g %s\n", name, value, unit)
	if most > 0 && value > most {
		fmt.Printf("# %s is over its target of %g %s\n", name, most, unit)
	}
}

const mebibyte = 1 << 20

// monorepo puts n folders of applications into the repo, each of four objects.
func (f *fleet) monorepo(n int) {
	for i := range n {
		f.write("apps/"+appName(i)+"/app.yaml", application(appName(i), "1.0.0"))
	}
}

func appName(i int) string { return fmt.Sprintf("app-%04d", i) }

func (f *fleet) services(from, to int) {
	for i := from; i < to; i++ {
		f.service(appName(i))
	}
}

// firstStart commits, waits until the hub serves that, starts the agent, and returns how long it is until all is ready.
func (f *fleet) firstStart(within time.Duration) time.Duration {
	f.Helper()
	commit := f.commit("Deploy")
	f.hint()
	f.eventually("the hub serves the commit", time.Minute, func() bool {
		status, err := f.client.Status(f.Context())
		return err == nil && status.Commit.ID == commit
	})
	began := time.Now()
	f.startAgent()
	f.converged(commit, within)
	return time.Since(began)
}

// BenchmarkThousandServices applies 1,000 services of 4 objects. Then nothing changes.
func BenchmarkThousandServices(b *testing.B) {
	if b.N > 1 {
		return
	}
	f := newFleet(b, localPoll)
	f.monorepo(1000)
	f.services(0, 1000)
	took := f.firstStart(6 * time.Minute)
	figure("apply_1000_services_s", took.Seconds(), "s", 120)
	figure("apply_1000_services_peak_mb", f.agent.peak()/mebibyte, "MiB", 150)
	figure("apply_1000_services_requests", f.requests(), "requests", 0)
	f.write("docs/notes.md", "nothing that runs\n")
	f.deploy("Write notes", time.Minute)
	figure("idle_requests_per_object", f.idleRequests(2)/4000, "requests", 0)
}

// idleRequests is how many requests the agent makes in 40 s in which nothing changes; the quietest of several such
// stretches, since a watch that has lasted some minutes is begun anew.
func (f *fleet) idleRequests(stretches int) float64 {
	least := -1.0
	for range stretches {
		before := f.requests()
		f.idle(40 * time.Second)
		if now := f.requests() - before; least < 0 || now < least {
			least = now
		}
		if least == 0 {
			break
		}
	}
	return least
}

// BenchmarkConfigMaps applies 10,000 ConfigMaps, as ten services and then as one.
func BenchmarkConfigMaps(b *testing.B) {
	if b.N > 1 {
		return
	}
	for _, way := range []struct {
		suffix   string
		services int
	}{{"", 10}, {"_one_service", 1}} {
		b.Run(strconv.Itoa(way.services), func(b *testing.B) {
			f := newFleet(b, localPoll)
			for s := range way.services {
				var text strings.Builder
				for i := range 10_000 / way.services {
					text.WriteString("---\n" + configMapText(fmt.Sprintf("cm-%02d-%05d", s, i), strings.Repeat("x", 100)))
				}
				name := fmt.Sprintf("maps-%d", s)
				f.write("apps/"+name+"/maps.yaml", text.String())
				f.service(name)
			}
			took := f.firstStart(6 * time.Minute)
			figure("apply_10000_configmaps"+way.suffix+"_s", took.Seconds(), "s", 100)
			figure("apply_10000_configmaps"+way.suffix+"_peak_mb", f.agent.peak()/1e6, "MB", 200)
		})
	}
}

// BenchmarkMonorepo is 1,000 folders of which 300 are deployed from nothing.
func BenchmarkMonorepo(b *testing.B) {
	if b.N > 1 {
		return
	}
	f := newFleet(b, localPoll)
	f.monorepo(1000)
	f.services(0, 300)
	hub := f.hub.cpu()
	commit := f.commit("Deploy 300")
	f.startAgent()
	began := time.Now()
	f.hint()
	f.converged(commit, 5*time.Minute)
	figure("monorepo_first_300_s", time.Since(began).Seconds(), "s", 40)
	figure("monorepo_first_300_cpu_s", (f.hub.cpu() - hub + f.agent.cpu()).Seconds(), "s", 30)
}

// BenchmarkHundredServices is the same monorepo with 100 services deployed, and what they cost from then on.
func BenchmarkHundredServices(b *testing.B) {
	if b.N > 1 {
		return
	}
	f := newFleet(b, localPoll)
	f.monorepo(1000)
	f.services(0, 100)
	f.firstStart(3 * time.Minute)
	f.commits()
	f.restingCosts()
	f.drifts()
	f.foreigners()
}

// commits measures one-line commits: from the hint to the change at the API server, and what hub and agent spend on it.
func (f *fleet) commits() {
	const times = 9
	applied, spent := make([]time.Duration, times), make([]time.Duration, times)
	for i := range times {
		service := appName(i * 7)
		version := fmt.Sprintf("1.0.%d", i+1)
		f.write("apps/"+service+"/app.yaml", application(service, version))
		commit := f.commit("Update " + service)
		before := f.hub.cpu() + f.agent.cpu()
		live := f.watchDeployment(service)
		began := time.Now()
		f.hint()
		live.until(func(d *unstructured.Unstructured) bool { return d.GetLabels()["app.kubernetes.io/version"] == version })
		applied[i] = time.Since(began)
		live.Stop()
		f.converged(commit, time.Minute)
		f.idle(2 * time.Second) // what is done after it was applied is part of its cost
		spent[i] = f.hub.cpu() + f.agent.cpu() - before
	}
	slices.Sort(applied)
	slices.Sort(spent)
	figure("monorepo_commit_applied_s", applied[times/2].Seconds(), "s", 2)
	figure("monorepo_commit_cpu_s", spent[times/2].Seconds(), "s", 1)
}

// liveObject follows one object.
type liveObject struct {
	watch.Interface
	t testing.TB
}

func (f *fleet) watchDeployment(name string) *liveObject {
	f.Helper()
	return f.follow(f.objects.Resource(deployments).Namespace(workplace), name)
}

func (f *fleet) follow(of dynamic.ResourceInterface, name string) *liveObject {
	f.Helper()
	w, err := of.Watch(f.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	f.must(err)
	return &liveObject{w, f}
}

// until waits for a state of the object, two minutes at most.
func (l *liveObject) until(yes func(*unstructured.Unstructured) bool) {
	l.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case event, open := <-l.ResultChan():
			object, ok := event.Object.(*unstructured.Unstructured)
			if !open || !ok {
				l.t.Fatalf("the watch broke: %v", event)
			}
			if event.Type != watch.Deleted && yes(object) {
				return
			}
		case <-deadline:
			l.t.Fatal("the object never came to be as awaited")
		}
	}
}

// restingCosts measures an agent that has nothing to do.
func (f *fleet) restingCosts() {
	f.idle(5 * time.Second)
	const length = 30 * time.Second
	before := f.agent.cpu()
	f.idle(length)
	figure("agent_idle_millicores", 1000*(f.agent.cpu()-before).Seconds()/length.Seconds(), "millicores", 5)
	figure("agent_idle_rss_mb", f.agent.resident()/mebibyte, "MiB", 60)
}

// drifts changes and deletes objects as people with kubectl do, and measures how long each stays so.
func (f *fleet) drifts() {
	const times = 120
	took := make([]time.Duration, times)
	for i := range times {
		name := appName(i % 100)
		live := f.watchDeployment(name)
		took[i] = f.drift(live, name, i%3 == 0)
		live.Stop()
	}
	slices.Sort(took)
	figure("drift_heal_p50_ms", milliseconds(took[times/2]), "ms", 0)
	figure("drift_heal_p99_ms", milliseconds(took[times*99/100]), "ms", 1000)
}

func (f *fleet) drift(live *liveObject, name string, remove bool) time.Duration {
	f.Helper()
	objects := f.objects.Resource(deployments).Namespace(workplace)
	before, err := objects.Get(f.Context(), name, metav1.GetOptions{})
	f.must(err)
	want := before.GetLabels()["app.kubernetes.io/version"]
	if remove {
		f.must(objects.Delete(f.Context(), name, metav1.DeleteOptions{}))
	} else {
		_, err := objects.Patch(f.Context(), name, types.MergePatchType, []byte(`{"metadata": {"labels": {"app.kubernetes.io/version": "drifted"}}}`),
			metav1.PatchOptions{FieldManager: "kubectl-edit"})
		f.must(err)
	}
	began := time.Now()
	drifted := false
	live.until(func(d *unstructured.Unstructured) bool {
		version := d.GetLabels()["app.kubernetes.io/version"]
		drifted = drifted || version == "drifted" || d.GetUID() != before.GetUID()
		return drifted && version == want
	})
	return time.Since(began)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// foreigners puts 20,000 objects of others into the cluster, and measures what the agent keeps of them.
func (f *fleet) foreigners() {
	const count, hands = 20_000, 8
	f.create(namespaces, "", "{apiVersion: v1, kind: Namespace, metadata: {name: foreign}}")
	f.idle(5 * time.Second)
	before := f.agent.resident()
	var group sync.WaitGroup
	for hand := range hands {
		group.Go(func() {
			for i := hand; i < count; i += hands {
				object := yamlObject(f, configMapText(fmt.Sprintf("foreign-%05d", i), strings.Repeat("y", 200)))
				if _, err := f.objects.Resource(configMaps).Namespace("foreign").Create(f.Context(), object, metav1.CreateOptions{}); err != nil {
					f.Errorf("create %d: %v", i, err)
					return
				}
			}
		})
	}
	group.Wait()
	f.idle(5 * time.Second)
	figure("rss_foreign_20000_delta_mb", (f.agent.resident()-before)/mebibyte, "MiB", 5)
}

// BenchmarkFairness compares how long a healthy service's commit takes alone, and beside 50 services that fail.
func BenchmarkFairness(b *testing.B) {
	if b.N > 1 {
		return
	}
	f := newFleet(b, 20*time.Millisecond) // else when the agent happens to ask is most of what is measured
	f.write("apps/good/maps.yaml", configMapText("good", "v0"))
	f.service("good")
	f.firstStart(time.Minute)
	const times = 41
	alone := f.latency(times, "alone")
	const others = 50
	for i := range others {
		name := fmt.Sprintf("other-%02d", i)
		f.write("apps/"+name+"/maps.yaml", configMapText(name, "fine"))
		f.service(name)
	}
	f.deploy("Add services that are fine", time.Minute)
	healthy := f.latency(times, "beside-healthy")
	for i := range others {
		name := fmt.Sprintf("other-%02d", i)
		f.write("apps/"+name+"/maps.yaml", failing(i, name))
	}
	f.commit("Have them fail")
	f.hint()
	f.eventually("50 services fail", 2*time.Minute, func() bool {
		status, err := f.client.Status(f.Context())
		return err == nil && status.Deployments["failed"]+status.Deployments["degraded"]+status.Deployments["progressing"] >= others
	})
	f.idle(20 * time.Second) // each is tried again more and more rarely
	before, asked := f.agent.cpu(), f.requests()
	f.idle(10 * time.Second)
	figure("fair_50_failing_requests", (f.requests()-asked)/10, "1/s", 0)
	figure("fair_50_failing_millicores", 100*(f.agent.cpu()-before).Seconds(), "millicores", 0)
	beside := f.latency(times, "beside")
	f.git("rm", "-rq", "services")
	f.service("good")
	f.deploy("Take them away", time.Minute)
	alone = (alone + f.latency(times, "alone-again")) / 2 // the machine may have been busier at one end
	figure("fair_alone_ms", milliseconds(alone), "ms", 0)
	figure("fair_beside_50_healthy_ms", milliseconds(healthy), "ms", 0)
	figure("fair_beside_50_failing_ms", milliseconds(beside), "ms", 0)
	figure("fair_latency_ratio", beside.Seconds()/alone.Seconds(), "ratio", 1.1)
}

// failing is manifests that cannot be applied, for one of several reasons.
func failing(i int, name string) string {
	fine := configMapText(name, "fine") + "---\n"
	switch i % 5 {
	case 0:
		return fine + "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: " + name + "}\n"
	case 1:
		return fine + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "-x, labels: {bad: 'no/label/at all!'}}\n"
	case 2:
		return fine + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "-x, namespace: nowhere}\n"
	case 3: // no container runs, and none is ready
		return fine + "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {nodeSelector: {no: node}, containers: [{name: a, image: a}]}\n"
	default:
		return fine + "{{ this is no YAML\n"
	}
}

// latency is the median over several commits of the time from the hint to the change at the API server.
func (f *fleet) latency(times int, stage string) time.Duration {
	f.Helper()
	took := make([]time.Duration, times)
	live := f.follow(f.objects.Resource(configMaps).Namespace(workplace), "good")
	defer live.Stop()
	for i := range times {
		value := fmt.Sprintf("%s-%d", stage, i)
		f.write("apps/good/maps.yaml", configMapText("good", value))
		f.commit("Update")
		f.idle(time.Duration(rand.IntN(50)) * time.Millisecond)
		began := time.Now()
		f.hint()
		live.until(func(c *unstructured.Unstructured) bool {
			got, _, _ := unstructured.NestedString(c.Object, "data", "value")
			return got == value
		})
		took[i] = time.Since(began)
	}
	slices.SortFunc(took, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return took[times/2]
}
