package login

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/test/support/kubetest"
)

// ofClusters has pods of two clusters log in, whose API servers the hub cannot reach: it never hears of their addresses.
func ofClusters(t *testing.T, w *world) {
	edge1, edge2 := kubetest.Start(t), kubetest.StartApart(t)
	operator := w.person("operator")
	operator.env = append(operator.env, "PLURAL_TOKEN_FILE="+w.path("hub/token"))
	for name, cluster := range map[string]*kubetest.Cluster{"edge-1": edge1, "edge-2": edge2} {
		operator.plural("cluster", "register", name, "--kubeconfig", cluster.Kubeconfig, "--no-agent", "-C", w.path("fleet"))
		w.agent(name, cluster)
	}
	rules := w.path("fleet/access/pods.yaml")
	text := fmt.Sprintf(`apiVersion: plural.sh/v1alpha1
kind: Federation
metadata: {name: pods}
spec:
  user: ci-deploy
  issuer: cluster/edge-1
  claims: {sub: "system:serviceaccount:%s:deployer"}
`, edge1.Namespace)
	if err := os.WriteFile(rules, []byte(strings.Replace(text, "edge-1", "edge-7", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, code := operator.fails("validate", "-C", w.path("fleet")); code != 1 || !strings.Contains(said, `"edge-7", which does not exist`) {
		t.Errorf("of an unknown cluster: %d\n%s", code, said)
	}
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	operator.plural("validate", "-C", w.path("fleet"))
	operator.git("add", "-A")
	operator.git("commit", "-qm", "Let pods in")
	operator.git("push", "-q")

	pod := w.person("pod-of-edge-1")
	file := filepath.Join(pod.home, "token")
	show := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pod.env = append(pod.env, "PLURAL_ID_TOKEN_FILE="+file)
	show(tokenOf(t, edge1, "deployer", w.hub))
	said := ""
	defer func() {
		if t.Failed() {
			t.Logf("the last login: %s", said)
		}
	}()
	w.until("the pod is let in", func() bool {
		_, stderr, err := pod.try(program(t, "plural"), "auth", "login")
		said = stderr
		return err == nil
	})
	if got := pod.status(); got.Name != "ci-deploy" || got.Login == nil || got.Login.Through != "federation/pods" {
		t.Errorf("%+v", got)
	}
	pod.plural("status")

	stranger := w.person("pod-of-edge-2")
	stranger.env = append(stranger.env, "PLURAL_ID_TOKEN_FILE="+file)
	edge2.Namespace = edge1.Namespace // it has any namespace that it likes
	for name, token := range map[string]string{
		"of another service account": tokenOf(t, edge1, "other", w.hub), "of another cluster": tokenOf(t, edge2, "deployer", w.hub),
		"for another hub": tokenOf(t, edge1, "deployer", "https://other"), "for the API server": tokenOf(t, edge1, "deployer", ""),
	} {
		show(token)
		if said, code := stranger.fails("auth", "login"); code != 4 {
			t.Errorf("a token %s: %d\n%s", name, code, said)
		}
	}
	operator.git("rm", "-q", "access/pods.yaml")
	operator.git("commit", "-qm", "Let pods in no longer")
	operator.git("push", "-q")
	w.until("the login of the pod has ended", func() bool {
		_, said, err := pod.try(program(t, "plural"), "status")
		return err != nil && strings.Contains(said, `federation "pods" is not what it was`)
	})
}

// agent starts the agent of a cluster.
func (w *world) agent(name string, cluster *kubetest.Cluster) {
	w.Helper()
	var said bytes.Buffer
	cmd := exec.Command(program(w, "plural-agent"), "run", "--kubeconfig", cluster.Kubeconfig,
		"--data", w.path("agent-"+name), "--listen", "", "--with-parent")
	cmd.Stdout, cmd.Stderr = &said, &said
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = lifeline.Close()
		_ = cmd.Wait()
		if w.Failed() {
			w.Logf("the agent of %s said:\n%s", name, said.String()[max(0, said.Len()-4000):])
		}
	})
}

// tokenOf is what a pod of a service account gets by a projected volume. An empty audience is the API server's own.
func tokenOf(t *testing.T, cluster *kubetest.Cluster, account, audience string) string {
	t.Helper()
	accounts := cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(cluster.Namespace)
	object := func(kind, version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": account, "namespace": cluster.Namespace},
		}}
	}
	namespaces := cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": cluster.Namespace},
	}}
	_, _ = namespaces.Create(t.Context(), namespace, metav1.CreateOptions{})
	_, _ = accounts.Create(t.Context(), object("ServiceAccount", "v1"), metav1.CreateOptions{}) // it may be there
	request := object("TokenRequest", "authentication.k8s.io/v1")
	spec := map[string]any{"expirationSeconds": int64(600)}
	if audience != "" {
		spec["audiences"] = []any{audience}
	}
	request.Object["spec"] = spec
	made, err := accounts.Create(t.Context(), request, metav1.CreateOptions{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := unstructured.NestedString(made.Object, "status", "token")
	if err != nil || token == "" {
		text, _ := json.Marshal(made.Object["spec"])
		t.Fatalf("no token for %s: %v", text, err)
	}
	return token
}
