package charts

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/installer/hubkeys"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/test/support/podrun"
)

// fleet is an installation repo whose hub and agent run in a cluster, as their charts say.
type fleet struct {
	*cluster
	node       *podrun.Node
	hub, token string
	repo       string // the work tree
	bin        string
	values     values // of the hub's chart
}

// hubImage and agentImage are what the charts name by themselves.
const (
	hubImage   = "ghcr.io/pluralsh/plural"
	agentImage = "ghcr.io/pluralsh/plural-agent"
)

// pluginImage is one whose cp copies plugins.
const pluginImage = "registry.example.com/plugins"

// install has hub and agent run, the hub with what v says besides.
func install(t *testing.T, v values) *fleet {
	t.Helper()
	return installWith(t, v, agentValues("0.1.0"))
}

func installWith(t *testing.T, v, ofAgent values) *fleet {
	t.Helper()
	bin := binaries(t)
	return installed(t, v, ofAgent, func(_ *testing.T, origin string) string { return "file://" + origin }, []podrun.Program{
		{Image: hubImage, Command: []string{filepath.Join(bin, "plural")}, Args: []string{"--with-parent"}},
		{
			Image: agentImage, Command: []string{filepath.Join(bin, "plural-agent")},
			Args: []string{"--kubeconfig=$(KUBECONFIG)", "--with-parent"},
		},
		{Image: hubImage + ":crash", Command: []string{"/bin/false"}},
		{Image: agentImage + ":none"},
		{Image: pluginImage, Command: []string{"/bin/cp"}},
		{Image: agentImage + ":crash", Command: []string{"/bin/false"}},
	})
}

// installed has hub and agent run as programs say, from a repository that is at a URL.
func installed(t *testing.T, v, ofAgent values, url func(t *testing.T, origin string) string, programs []podrun.Program) *fleet {
	t.Helper()
	f := &fleet{cluster: newCluster(t), bin: binaries(t)}
	needs.Program(t, "git", "git")
	f.node = podrun.Start(t, podrun.Options{Kube: f.RESTConfig, Programs: programs})
	f.hub = "http://" + f.node.ServiceAddress(identity.Namespace, "plural-hub", 80)
	origin := f.begin(ofAgent)

	keys, err := hubkeys.Prepare(t.Context(), f.kube, hubkeys.Request{})
	if err == nil {
		err = keys.Install(t.Context(), f.kube)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.token = keys.Token()
	merge(v, values{
		"repo": values{"url": url(t, origin)}, "drain": values{"delaySeconds": 0, "graceSeconds": 1},
		"extraArgs": []any{"--allow-file-sources", "--allow-loopback", "--interval=1s", "--poll-interval=1s"},
	})
	f.values = v
	hub, err := chart(t, "hub", v)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := chart(t, "agent", ofAgent)
	if err != nil {
		t.Fatal(err)
	}
	f.apply(append(hub, agent...))
	t.Cleanup(func() {
		f.T = t
		f.delete(append(hub, agent...))
	})
	return f
}

// agentValues are those of an agent with a volume, as clusters with a default StorageClass have it.
func agentValues(tag string) values {
	return values{"progressDeadlineSeconds": 15, "image": values{"tag": tag}, "persistence": values{"enabled": "true"}}
}

// binaries is the folder of the built programs.
func binaries(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"plural", "plural-agent"} {
		needs.Program(t, filepath.Join(bin, program), "by make build")
	}
	return bin
}

// begin makes the repo, in which the cluster is registered and the agent is a service, and gives its origin.
func (f *fleet) begin(ofAgent values) string {
	f.Helper()
	dir := f.TempDir()
	origin := filepath.Join(dir, "origin.git")
	f.repo = filepath.Join(dir, "fleet")
	f.run("", "git", "init", "-q", "--bare", "-b", "main", origin)
	f.run("", "git", "clone", "-q", origin, f.repo)
	prepared, err := register.Prepare(register.Request{Cluster: "mgmt", HubURL: f.hub}, nil)
	if err == nil {
		err = prepared.Install(f.Context(), f.kube)
	}
	if err != nil {
		f.Fatal(err)
	}
	f.write("clusters/mgmt.yaml", prepared.File)
	f.write("plural.yaml", []byte("apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec:\n  hub: {url: \""+f.hub+"\"}\n"))
	for _, name := range []string{"hub", "agent"} {
		files, err := fs.Sub(templates.Catalog(), name)
		if err != nil {
			f.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(f.repo, name), files); err != nil {
			f.Fatal(err)
		}
	}
	f.service("agent", ofAgent)
	f.push()
	return origin
}

// service writes the Service that a package's first step comes to, with the chart's values.
func (f *fleet) service(name string, v values) {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(f.repo, name, "package.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	var pkg struct {
		Spec struct {
			Steps []struct{ Service struct{ Spec values } }
		}
	}
	if err := yaml.Unmarshal(text, &pkg); err != nil {
		f.Fatal(err)
	}
	spec := pkg.Spec.Steps[0].Service.Spec
	spec["source"] = values{"path": name + "/chart"}
	spec["clusters"] = values{"names": []string{"mgmt"}}
	spec["helm"] = values{"release": "plural-" + name, "values": v}
	for _, test := range spec["tests"].([]any) {
		if v["replicas"] == nil || v["replicas"] == 1 { // others are replaced one after the other
			test.(values)["retries"] = 4 // no test has minutes
		}
	}
	service, err := yaml.Marshal(values{
		"apiVersion": "plural.sh/v1alpha1", "kind": "Service", "metadata": values{"name": name},
		"spec": spec,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.write("services/"+name+".yaml", service)
}

func (f *fleet) write(name string, content []byte) {
	f.Helper()
	path := filepath.Join(f.repo, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) push() {
	f.Helper()
	f.run(f.repo, "git", "add", "-A")
	f.run(f.repo, "git", "commit", "-q", "-m", "Change")
	f.run(f.repo, "git", "push", "-q", "origin", "HEAD:main")
}

func (f *fleet) run(dir, program string, args ...string) string {
	f.Helper()
	out, err := f.command(dir, program, args...).CombinedOutput()
	if err != nil {
		f.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func (f *fleet) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(f.Context()), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "PLURAL_HUB="+f.hub, "PLURAL_TOKEN="+f.token, "NO_COLOR=1")
	return cmd
}

// seen is what the hub says of a service on the cluster.
type seen struct{ Phase, Message, Key, Applied string }

func (s seen) well() bool { return s.Phase == "healthy" && s.Key == s.Applied }

func (f *fleet) seen(service string) (s seen) {
	out, err := f.command(f.repo, filepath.Join(f.bin, "plural"), "service", "get", service, "-o", "json").Output()
	if err != nil {
		return s
	}
	var answer struct {
		Deployments []struct{ Phase, Message, Key, AppliedKey string }
	}
	if json.Unmarshal(out, &answer) == nil && len(answer.Deployments) == 1 {
		d := answer.Deployments[0]
		s.Phase, s.Message, s.Key, s.Applied = d.Phase, d.Message, d.Key, d.AppliedKey
	}
	return s
}

func TestHubAndAgentRunFromTheirChartsAndFindEachOther(t *testing.T) {
	f := install(t, values{})
	f.runs("plural-hub", 1)
	f.eventually("the agent takes itself in, and is well", func() bool { return f.seen("agent").well() })
	if out := f.run(f.repo, filepath.Join(f.bin, "plural"), "status", "--exit-code"); !strings.Contains(out, "mgmt") {
		t.Errorf("plural status says %s", out)
	}
	for _, pod := range f.pods("plural-agent") {
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("the agent was started again %d times", restarts)
		}
		if strings.Contains(f.node.Log(identity.Namespace, pod.Name), f.token) {
			t.Error("the hub's token is in the agent's log")
		}
	}

	keys, err := hubkeys.Prepare(t.Context(), f.kube, hubkeys.Request{Rotate: []hubkeys.Part{hubkeys.Token, hubkeys.Replicas}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(keys.Install(t.Context(), f.kube), keys.Restart(t.Context(), f.kube)); err != nil {
		t.Fatal(err)
	}
	former := f.token
	f.token = keys.Token()
	f.eventually("the hub takes its new token", func() bool { return f.seen("agent").well() })
	if f.token = former; f.seen("agent").well() {
		t.Error("the hub takes its former token")
	}
}

func TestAnAgentThatDoesNotStartIsGoneBackFromAndOneThatDoesReplacesIt(t *testing.T) {
	f := install(t, values{})
	f.eventually("the agent is well", func() bool { return f.seen("agent").well() })
	before := f.pods("plural-agent")[0].Name
	for _, tag := range []string{"none", "crash"} {
		t.Run(tag, func(t *testing.T) {
			f.T = t
			bad := agentValues(tag)
			bad["progressDeadlineSeconds"] = 11 // just above minReadySeconds: it never will
			f.service("agent", bad)
			f.push()
			f.eventually("the new agent is tried", func() bool { return f.image("Deployment", "plural-agent") == agentImage+":"+tag })
			f.eventually("the former agent is back", func() bool { return f.image("Deployment", "plural-agent") == agentImage+":0.1.0" })
			f.eventually("people are told why", func() bool {
				s := f.seen("agent")
				return s.Phase == "failed" && strings.Contains(s.Message, "the new agent did not become ready")
			})
			f.eventually("the pods of the new agent are gone", func() bool { return len(f.pods("plural-agent")) == 1 })
			if pods := f.pods("plural-agent"); pods[0].Name != before {
				t.Errorf("the former agent was replaced by %s", pods[0].Name)
			}
		})
	}
	f.T = t
	f.service("agent", agentValues("0.1.1"))
	f.push()
	f.eventually("the new agent is alone, and well", func() bool {
		pods := f.pods("plural-agent")
		return len(pods) == 1 && pods[0].Name != before && pods[0].Spec.Containers[0].Image == agentImage+":0.1.1" && f.seen("agent").well()
	})
}

func TestAHubThatDoesNotStartIsGoneBackFrom(t *testing.T) {
	f := install(t, values{})
	f.service("hub", f.values)
	f.push()
	f.eventually("the agent takes the hub in", func() bool { return f.seen("hub").well() })
	bad := values{"image": values{"tag": "crash"}}
	merge(bad, f.values)
	f.service("hub", bad)
	f.push()
	f.eventually("the new hub is tried", func() bool { return f.image("StatefulSet", "plural-hub") == hubImage+":crash" })
	f.eventually("the former hub is back", func() bool { return f.image("StatefulSet", "plural-hub") == hubImage+":0.1.0" })
	f.eventually("it serves, and says why", func() bool {
		s := f.seen("hub")
		return s.Phase == "failed" && strings.Contains(s.Message, "not every replica of the new hub became ready")
	})
}

func TestAHubThatBelievesNoCommitIsGoneBackFrom(t *testing.T) {
	f := install(t, values{})
	f.service("hub", f.values)
	f.push()
	f.eventually("the agent takes the hub in", func() bool { return f.seen("hub").well() })
	verifying := values{"repo": values{"keys": []any{stranger}}}
	merge(verifying, f.values)
	f.service("hub", verifying)
	f.push()
	verifies := func() bool {
		return slices.ContainsFunc(f.pods("plural-hub"), func(p corev1.Pod) bool { return p.Labels["plural.sh/repo-keys"] != "" })
	}
	f.eventually("the new hub is tried", verifies)
	f.eventually("the former hub is back", func() bool { return len(f.pods("plural-hub")) == 1 && !verifies() })
	f.eventually("it serves, and says why", func() bool {
		s := f.seen("hub")
		return s.Phase == "failed" && strings.Contains(s.Message, "not every replica of the new hub became ready")
	})
}

func TestThreeReplicasTurnToSignedCommitsOneAfterTheOther(t *testing.T) {
	needs.Program(t, "ssh-keygen", "openssh-client")
	f := install(t, values{"replicas": 3})
	f.service("hub", f.values)
	f.push()
	f.eventually("the agent takes the hub in", func() bool { return f.seen("hub").well() })
	set := func() types.UID {
		found, err := f.resource("apps/v1", "StatefulSet", identity.Namespace).Get(t.Context(), "plural-hub", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found.GetUID()
	}
	before := set()
	key := filepath.Join(t.TempDir(), "ada")
	f.run("", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"gpg.format": "ssh", "user.signingKey": key, "commit.gpgSign": "true"} {
		f.run(f.repo, "git", "config", name, value)
	}
	merge(f.values, values{"repo": values{"keys": []any{string(public)}}})
	f.service("hub", f.values)
	f.push()
	f.eventually("all of them verify, and are well", func() bool {
		verify := 0
		for _, p := range f.pods("plural-hub") {
			if p.Labels["plural.sh/repo-keys"] != "" {
				verify++
			}
		}
		return verify == 3 && f.seen("hub").well()
	})
	if set() != before {
		t.Error("the set was made anew: nobody served meanwhile")
	}
}

// stranger is the public key of somebody who has signed nothing.
const stranger = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK3pS3qtzdndXZlRHm2F2R6gzBVKZzhRsg45y8v61+q9 eve"

// image is what a workload names.
func (f *fleet) image(kind, name string) string {
	object, err := f.resource("apps/v1", kind, identity.Namespace).Get(f.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	image, _, _ := unstructured.NestedString(containers[0].(values), "image")
	return image
}

func TestAHubOfOneReplicaBecomesOneOfThree(t *testing.T) {
	f := install(t, values{})
	f.service("hub", f.values)
	f.push()
	f.eventually("the agent takes the hub in", func() bool { return f.seen("hub").well() })
	f.values["replicas"] = 3
	f.service("hub", f.values)
	f.push()
	f.eventually("three replicas are well", func() bool { return len(f.pods("plural-hub")) == 3 && f.seen("hub").well() })
	f.values["replicas"] = 1
	f.service("hub", f.values)
	f.push()
	f.eventually("one replica is well", func() bool { return len(f.pods("plural-hub")) == 1 && f.seen("hub").well() })
}

func TestThreeReplicasOfAHubGoOnWithoutOneAndFiveWithoutTwo(t *testing.T) {
	f := install(t, values{"replicas": 3})
	f.runs("plural-hub", 3)
	f.service("hub", f.values)
	f.push()
	f.eventually("the agent takes the hub in", func() bool { return f.seen("hub").well() })
	f.node.Kill(identity.Namespace, "plural-hub-0")
	f.deliver("one")
	f.values["replicas"] = 5
	f.service("hub", f.values)
	f.push()
	f.eventually("five replicas are well", func() bool { return len(f.pods("plural-hub")) == 5 && f.seen("hub").well() })
	f.eventually("five are live", func() bool {
		out, err := f.command(f.repo, filepath.Join(f.bin, "plural"), "hub", "status").Output()
		return err == nil && strings.Count(string(out), "live") == 5
	})
	f.stop("plural-hub-0", "plural-hub-4")
	f.deliver("two")
}

// deliver makes a commit that the agent gets to hear of.
func (f *fleet) deliver(name string) {
	f.Helper()
	f.write("services/"+name+".yaml", []byte(strings.NewReplacer("NAMESPACE", f.Namespace, "more", name).Replace(more)))
	f.write("apps/"+name+"/config.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\n"))
	f.push()
	start := time.Now()
	f.eventually("the others deliver", func() bool {
		_, err := f.resource("v1", "ConfigMap", f.Namespace).Get(f.Context(), name, metav1.GetOptions{})
		return err == nil
	})
	f.Logf("a commit arrived after %s", time.Since(start).Round(100*time.Millisecond))
}

// stop ends pods, and has their successors wait: no node takes any.
func (f *fleet) stop(pods ...string) {
	f.Helper()
	nodes := f.resource("v1", "Node", "")
	list, err := nodes.List(f.Context(), metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	for i := range list.Items { // the test's end takes this node away, and gives the others back
		if _, err := nodes.Patch(f.Context(), list.Items[i].GetName(), types.MergePatchType, []byte(`{"spec": {"unschedulable": true}}`),
			metav1.PatchOptions{}); err != nil {
			f.Fatal(err)
		}
	}
	for _, pod := range pods {
		if err := f.resource("v1", "Pod", identity.Namespace).Delete(f.Context(), pod, metav1.DeleteOptions{}); err != nil {
			f.Fatal(err)
		}
	}
	f.eventually("they are gone, and wait", func() bool {
		waiting := 0
		for _, p := range f.pods("plural-hub") {
			if slices.Contains(pods, p.Name) && p.Status.Phase == corev1.PodPending {
				waiting++
			}
		}
		return waiting == len(pods)
	})
}

const more = `apiVersion: plural.sh/v1alpha1
kind: Service
metadata: {name: more}
spec: {source: {path: apps/more}, namespace: NAMESPACE, clusters: {names: [mgmt]}}
`
