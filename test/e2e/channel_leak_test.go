package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// contents is what a Secret of a cluster holds, which alice reads and writes through the hub.
const contents = "what only one Secret holds 8c21e7d0a4f6"

// nothingLeaks reads a Secret in every way that kubectl has, and looks for it, and for every token, wherever the programs
// write something.
func nothingLeaks(t *testing.T, r *reached, p *people) {
	kubectl := func(args ...string) []string { return append([]string{"-n", namespace}, args...) }
	s := &site{r.local, r.kube("edge-1"), nil}
	s.make(secrets, namespace, "apiVersion: v1\nkind: Secret\nmetadata: {name: kept}\nstringData: {password: "+contents+"}\n")
	p.alice.can("name: kept", "kubectl", kubectl("get", "secret", "kept", "-o", "yaml")...)
	p.alice.can("SecretList", "kubectl", kubectl("get", "--raw", "/k8s/edge-1/api/v1/namespaces/"+namespace+"/secrets?fieldSelector=metadata.name%3D"+
		strings.ReplaceAll(contents, " ", "-"))...)
	r.commit("Let alice open shells", map[string]string{"access/shells.yaml": shells})
	session := p.alice.execs("edge-1")
	session.echoes(t, contents)

	// The environment of what runs beside the hub's API holds no token, nor does the kubeconfig that it is given.
	inside := p.alice.can("KUBECONFIG=", "plural", "kube", "run", "edge-1", "--", "sh", "-c", "env; cat $KUBECONFIG; kubectl -n demo get configmap shop -o name")
	if !strings.Contains(inside, "configmap/shop") {
		t.Errorf("kube run says\n%s", inside)
	}

	tokens := slices.Concat(p.alice.secrets(), p.bob.secrets(), []string{r.operator.token, "eyJhbGciOi"}) // the last begins whatever is signed
	for _, cluster := range clusters {
		tokens = append(tokens, r.agentKeys(cluster)...)
	}
	h := newHunt(t, append(slices.Clone(tokens), contents, signingKey))
	for name, part := range r.parts() {
		if !strings.HasPrefix(name, "cluster-") { // Kubernetes' own logs and disks are not ours
			h.started(t, name, part.PID)
		}
	}
	h.started(t, "hub", r.hubProcess.cmd.Process.Pid)
	h.search("plural kube run", []byte(inside))
	keys := filepath.Join(r.dir, "keys") // agents' keys outlive the clusters, for the person alone
	for name, want := range map[string]os.FileMode{keys: 0o700 | os.ModeDir, filepath.Join(keys, "edge-1.json"): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, and not %v", name, info, err, want)
		}
	}
	h.tree(t, r.dir, func(path string) bool {
		base := filepath.Base(path)
		return path == filepath.Join(r.dir, "clusters") || path == keys || path == filepath.Join(r.data, "token") || strings.HasPrefix(base, "cluster-") && strings.HasSuffix(base, ".log")
	})
	for f := range h.finds {
		t.Errorf("%s: %s of %.20q...", f.Where, f.How, f.Canary)
	}
	if h.bytes < 100_000 {
		t.Errorf("only %d bytes were looked through", h.bytes)
	}
	control := newHunt(t, []string{r.operator.token, "alice"})
	control.tree(t, r.data, func(string) bool { return false })
	if !control.saw(r.operator.token, filepath.Join(r.data, "token")) || !control.saw("alice", "audit.jsonl") {
		t.Errorf("the hunt misses what is there: %v", control.found())
	}
}

// agentKeys are the private halves of what an agent shows to the hub, and opens sealed files with.
func (r *reached) agentKeys(cluster string) []string {
	r.t.Helper()
	object, err := r.kube(cluster).Resource(secrets).Namespace("plural-system").Get(context.Background(), "plural-agent", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	held := decoded(r.t, object)
	if held["auth-key"] == "" || held["age-key"] == "" {
		r.t.Fatalf("the agent's Secret holds no keys, but %d other things", len(held))
	}
	return []string{held["auth-key"], held["age-key"]}
}

// started looks through what a process was started with, and its children.
func (h *hunt) started(t testing.TB, name string, pid int) {
	t.Helper()
	if pid == 0 {
		return
	}
	pids := []string{fmt.Sprint(pid)}
	for i := 0; i < len(pids); i++ {
		for _, file := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile(filepath.Join("/proc", pids[i], file))
			if os.IsNotExist(err) && i > 0 { // a child that has ended
				continue
			}
			if os.IsPermission(err) {
				cannotRead(t, "what another process was started with, which keeps it to itself: be root")
			}
			if err != nil {
				t.Fatal(err)
			}
			h.search(name+" "+file, data)
		}
		tasks, _ := filepath.Glob(filepath.Join("/proc", pids[i], "task/*/children"))
		for _, task := range tasks {
			children, _ := os.ReadFile(task)
			pids = append(pids, strings.Fields(string(children))...)
		}
	}
}
