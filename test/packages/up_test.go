package packages

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/podrun"
)

var (
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	claims       = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// What the packages hub and agent run.
const (
	hubImage   = "ghcr.io/pluralsh/plural"
	agentImage = "ghcr.io/pluralsh/plural-agent"
)

// play has a cluster's pods of hub and agent run as processes of this machine.
func play(t testing.TB, config *rest.Config, others ...podrun.Program) *podrun.Node {
	t.Helper()
	return podrun.Start(t, podrun.Options{Kube: config, Programs: append([]podrun.Program{
		{Image: hubImage, Command: []string{program(t, "plural")}, Args: []string{"--with-parent"}},
		{
			Image: agentImage, Command: []string{program(t, "plural-agent")},
			Args: []string{"--kubeconfig=$(KUBECONFIG)", "--with-parent"},
		},
	}, others...)})
}

// From an empty cluster to a fleet of two, unattended: nobody is at a terminal.
func TestAFleetComesUpOnAClusterThatIsThereAndTakesInAnother(t *testing.T) {
	mgmt, edge := kubetest.StartApart(t), kubetest.StartApart(t)
	node := play(t, mgmt.RESTConfig)
	play(t, edge.RESTConfig)
	o := &operator{TB: t, home: t.TempDir()}
	o.origin, o.dir = filepath.Join(o.home, "origin.git"), filepath.Join(o.home, "fleet")
	o.kubeconfig = filepath.Join(o.home, "kubeconfig")
	o.contexts(map[string]string{"prod": mgmt.Kubeconfig, "far": edge.Kubeconfig})
	o.settle("ada")
	o.run("git", "init", "--quiet", "--bare", "--initial-branch=main", o.origin)
	hub := "http://" + node.ServiceAddress("plural-system", "plural-hub", 80)

	up := []string{
		"up", o.dir, "--context", "prod", "--hub-url", hub, "--repo-url", "file://" + o.origin, "--yes",
		"--set", "hub.flags=--allow-file-sources,--allow-loopback,--interval=1s,--poll-interval=1s,--report-interval=2s",
	}
	o.plural(up...)

	var status struct {
		Clusters, Services map[string]int
	}
	if err := json.Unmarshal([]byte(o.plural("status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if status.Clusters["healthy"] != 1 || status.Services["healthy"] != 2 {
		t.Errorf("the hub says %+v", status)
	}
	for _, object := range []struct {
		resource schema.GroupVersionResource
		name     string
	}{{statefulSets, "plural-hub"}, {deployments, "plural-agent"}} {
		if _, err := mgmt.Dynamic.Resource(object.resource).Namespace("plural-system").Get(t.Context(), object.name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	ns, err := mgmt.Dynamic.Resource(namespaces).Get(t.Context(), "plural-system", metav1.GetOptions{})
	if err != nil || ns.GetLabels()["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("plural-system enforces %v, %v", ns.GetLabels(), err)
	}

	// A second up finds everything done, and writes nothing.
	refs := o.run("git", "ls-remote", o.origin)
	o.plural(up...)
	if now := o.run("git", "ls-remote", o.origin); now != refs {
		t.Errorf("a second up wrote\n%s before\n%s", now, refs)
	}

	// Another cluster: an agent is put there, and the hub hears of it.
	o.plural("cluster", "register", "edge", "--context", "far", "--kubeconfig", o.kubeconfig)
	out := o.plural("cluster", "list", "-o", "json")
	if !strings.Contains(out, `"edge"`) {
		t.Error(out)
	}
	if got := done(o.deployHere()); len(got) != 0 {
		t.Errorf("left to do after registering: %v", got)
	}

	// Both have a default StorageClass, so both agents have a volume.
	for name, on := range map[string]*kubetest.Cluster{"mgmt": mgmt, "edge": edge} {
		if file := o.run("git", "-C", o.dir, "show", "HEAD:clusters/"+name+".yaml"); !strings.Contains(file, `agentPersistence: "true"`) {
			t.Errorf("%s is written down as\n%s", name, file)
		}
		claim, err := on.Dynamic.Resource(claims).Namespace("plural-system").Get(t.Context(), "plural-agent", metav1.GetOptions{})
		if err != nil {
			t.Errorf("the agent of %s: %v", name, err)
			continue
		}
		if phase, _, _ := unstructured.NestedString(claim.Object, "status", "phase"); phase != "Bound" {
			t.Errorf("the claim of %s's agent is %s", name, phase)
		}
	}

	// All of it goes, agents first, and the repo stays.
	if _, said, err := o.try(program(t, "plural"), "down", "--confirm=other"); err == nil || !strings.Contains(said, "--confirm=fleet") {
		t.Errorf("another name took the fleet down: %v\n%s", err, said)
	}
	o.plural("down", "--confirm=fleet")
	for _, on := range []*kubetest.Cluster{mgmt, edge} {
		for _, resource := range []schema.GroupVersionResource{statefulSets, deployments} {
			list, err := on.Dynamic.Resource(resource).Namespace("plural-system").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 0 {
				t.Errorf("%d %s are left, %v", len(list.Items), resource.Resource, err)
			}
		}
	}
	if !o.exists(filepath.Join(o.dir, "plural.yaml")) {
		t.Error("the repo is gone")
	}
	o.plural("down", "--confirm=fleet") // finds nothing
}

// contexts makes a kubeconfig of others, a context each.
func (o *operator) contexts(files map[string]string) {
	o.Helper()
	merged, err := clientcmd.LoadFromFile(files["prod"])
	if err != nil {
		o.Fatal(err)
	}
	for name, file := range files {
		one, err := clientcmd.LoadFromFile(file)
		if err != nil {
			o.Fatal(err)
		}
		context := one.Contexts[one.CurrentContext]
		merged.Clusters[name], merged.AuthInfos[name] = one.Clusters[context.Cluster], one.AuthInfos[context.AuthInfo]
		copied := context.DeepCopy()
		copied.Cluster, copied.AuthInfo = name, name
		merged.Contexts[name] = copied
	}
	if err := clientcmd.WriteToFile(*merged, o.kubeconfig); err != nil {
		o.Fatal(err)
	}
}
