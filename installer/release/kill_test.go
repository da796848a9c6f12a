package release_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/installer/release"
	"github.com/pluralsh/plural/test/support/faultproxy"
)

// installer is a process that applies all that a repo's last commit asks for: HOST of the API server, ROOT of the repo.
func installer(args []string) int {
	err := func() error {
		person, err := age.GenerateX25519Identity()
		if err != nil {
			return err
		}
		list, renderer, err := deployments(args[1], person)
		if err != nil {
			return err
		}
		cluster, err := release.Connect(clusterName, &rest.Config{Host: args[0]}, release.Options{})
		if err != nil {
			return err
		}
		defer cluster.Close()
		for i := range list {
			if _, err := cluster.Apply(context.Background(), &list[i], renderer, nil); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runInstaller applies the last commit in another process, which dies at its write number at; -1: it lives. It says whether the
// process came to its end.
func (w *world) runInstaller(at int, after bool) (ended bool) {
	w.Helper()
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(w.Context(), self, "installer", w.proxy.Config().Host, w.root)
	cmd.Stderr = &said
	var once sync.Once
	var mu sync.Mutex
	writes := 0
	started := make(chan struct{})
	kill := func() {
		<-started
		once.Do(func() { _ = cmd.Process.Kill() })
	}
	lift := w.proxy.Add(faultproxy.Rule{Fault: func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet {
			next.ServeHTTP(rw, r)
			return
		}
		mu.Lock()
		mine := writes == at
		writes++
		mu.Unlock()
		if mine && !after {
			kill()
			return
		}
		next.ServeHTTP(rw, r)
		if mine {
			kill()
		}
	}})
	defer lift()
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	close(started)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true
	case errors.As(err, &exit) && exit.ExitCode() == -1 && at >= 0:
		return false
	}
	w.Fatalf("installer: %v\n%s", err, said.String())
	return false
}

func (w *world) revision(n int) {
	w.Helper()
	for i := range 4 {
		w.write(fmt.Sprintf("apps/victim/cm-%d.yaml", i), fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: r%d-%d}\ndata: {revision: '%d'}\n", n*min(i, 1), i, n))
	}
	for _, hook := range []string{"PreSync", "PostSync"} {
		w.write("apps/victim/"+hook+".yaml", fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s, annotations: {argocd.argoproj.io/hook: %s, example.com/revision: "%d"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: main, env: [{name: REVISION, value: "%[3]d"}]}]}}}
`, strings.ToLower(hook), hook, n))
	}
	w.commit()
}

func TestAnInstallerThatIsKilledAtAnyWriteGoesOnAndRunsHooksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.service("victim", "{source: {path: apps/victim}, namespace: NS, renderer: raw, sync: {deletionBudget: 100%}}")
	runs := w.countJobs()
	revision, kills := 0, 0
	for at := 0; ; at += 3 { // before a write and after one, in turn
		after := at%2 == 1
		revision++
		w.revision(revision)
		if w.runInstaller(at, after) {
			break
		}
		kills++
		if !w.runInstaller(-1, false) {
			t.Fatalf("write %d: the next one does not end", at)
		}
		var want []string
		for i := range 4 {
			want = append(want, fmt.Sprintf("r%d-%d=%d", revision*min(i, 1), i, revision))
		}
		if diff := cmp.Diff(want, w.configMaps()); diff != "" {
			t.Errorf("write %d, after it %t (-want +got):\n%s", at, after, diff)
		}
		if at > 60 {
			t.Fatal("it never comes to its end")
		}
	}
	t.Logf("%d kills in %d revisions", kills, revision)
	want, got := map[string]int{}, map[string]int{}
	for n := 1; n <= revision; n++ {
		want[fmt.Sprintf("presync of %d", n)], want[fmt.Sprintf("postsync of %d", n)] = 1, 1
	}
	for run, uids := range runs() {
		got[run] = len(uids)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("how often each hook ran (-want +got):\n%s", diff)
	}
	if kills < 6 {
		t.Errorf("only %d kills", kills)
	}
}

// configMaps are those of the victim, as name=revision.
func (w *world) configMaps() (list []string) {
	w.Helper()
	all, err := w.of("", "configmaps").List(w.Context(), metav1.ListOptions{LabelSelector: object.ServiceLabel + "=" + w.name("victim")})
	if err != nil {
		w.Fatal(err)
	}
	for i := range all.Items {
		revision, _, _ := unstructured.NestedString(all.Items[i].Object, "data", "revision")
		list = append(list, all.Items[i].GetName()+"="+revision)
	}
	slices.Sort(list)
	return list
}

// countJobs watches which Jobs there ever are. What it returns ends that, and tells their uids by name and revision.
func (w *world) countJobs() func() map[string][]string {
	w.Helper()
	watch, err := w.of("batch", "jobs").Watch(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	runs := map[string][]string{}
	var following sync.WaitGroup
	following.Go(func() {
		for event := range watch.ResultChan() {
			job, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			run := job.GetName() + " of " + job.GetAnnotations()["example.com/revision"]
			if uid := string(job.GetUID()); !slices.Contains(runs[run], uid) {
				runs[run] = append(runs[run], uid)
			}
		}
	})
	return func() map[string][]string {
		watch.Stop()
		following.Wait()
		return runs
	}
}
