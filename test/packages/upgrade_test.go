package packages

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/podrun"
)

var (
	pods    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// What is the matter with versions that the tests publish: their images crash, or are not there.
const (
	crashing = "0.3.0"
	missing  = "0.3.1"
	uneven   = "0.5.0" // crashes on the cluster edge alone
)

// bad are the images of versions that are of no use.
func bad() []podrun.Program {
	return []podrun.Program{
		{Image: hubImage + ":" + crashing, Command: []string{"/bin/false"}},
		{Image: agentImage + ":" + crashing, Command: []string{"/bin/false"}},
		{Image: agentImage + ":" + missing},
	}
}

// kept is a fleet of three clusters whose hub upgrades packages from a catalog in git: its own, those of the agents, and two that
// only lie there.
type kept struct {
	*operator
	mgmt, canary, edge *kubetest.Cluster
	node               *podrun.Node // of mgmt
	hub, token         string
	catalog            string // a clone
	// seen are the reasons that the hub gave for each installation, by code.
	seen map[string]map[v1.UpgradeCode]string
}

func newKept(t *testing.T) *kept {
	t.Helper()
	k := &kept{
		operator: &operator{TB: t, home: t.TempDir()}, seen: map[string]map[v1.UpgradeCode]string{},
		mgmt: kubetest.StartApart(t), canary: kubetest.StartApart(t), edge: kubetest.StartApart(t),
	}
	k.node = play(t, k.mgmt.RESTConfig, bad()...)
	play(t, k.canary.RESTConfig, bad()...)
	play(t, k.edge.RESTConfig, append(bad(), podrun.Program{Image: agentImage + ":" + uneven, Command: []string{"/bin/false"}})...)
	k.origin, k.dir = filepath.Join(k.home, "origin.git"), filepath.Join(k.home, "fleet")
	k.kubeconfig, k.catalog = filepath.Join(k.home, "kubeconfig"), filepath.Join(k.home, "catalog")
	k.contexts(map[string]string{"prod": k.mgmt.Kubeconfig, "canary": k.canary.Kubeconfig, "far": k.edge.Kubeconfig})
	k.settle("ada")
	k.run("git", "init", "--quiet", "--bare", "--initial-branch=main", k.origin)
	k.run("git", "init", "--quiet", "--bare", "--initial-branch=main", k.catalog+".git")
	k.run("git", "clone", "--quiet", k.catalog+".git", k.catalog)
	k.publish("0.1.0", "hub", "agent", "note")
	k.hub = "http://" + k.node.ServiceAddress("plural-system", "plural-hub", 80)
	k.begin()
	return k
}

// begin has the fleet come up, with the policies by which its packages move.
func (k *kept) begin() {
	k.Helper()
	k.plural("init", k.dir, "--name", "fleet", "--hub-url", k.hub, "--repo-url", "file://"+k.origin)
	k.write("sources/platform.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: platform}\n"+
		"spec: {git: {url: \"file://"+k.catalog+".git\", ref: main}}\n")
	k.edit("plural.yaml", func(text string) string {
		return text + "  catalogs:\n  - {name: platform, source: platform, path: catalog}\n"
	})
	k.commit("Begin")
	k.plural("up", k.dir, "--context", "prod", "--cluster", "mgmt", "--yes", "--set", "hub.edits=true",
		"--set", "hub.flags=--allow-file-sources,--allow-loopback,--interval=1s,--poll-interval=1s,--report-interval=2s")
	k.plural("package", "add", "note", "--yes")
	k.plural("package", "add", "note", "--as", "note-later", "--yes")
	k.plural("package", "add", "agent", "--as", "agent-canary", "--cluster-labels", "canary=true", "--yes")
	k.policy("hub", "", "policy: minor, deadline: 1m")
	k.policy("agent", `{matchExpressions: [{key: canary, operator: NotIn, values: ["true"]}]}`,
		"policy: minor, after: [agent-canary], soak: 2s, deadline: 1m")
	k.policy("agent-canary", `{matchLabels: {canary: "true"}}`, "policy: minor, deadline: 1m")
	closed := time.Now().UTC().AddDate(0, 0, 3).Format("Mon")
	k.policy("note-later", "", "policy: minor, windows: [{days: ["+closed+"], from: \"02:00\", to: \"03:00\"}]")
	k.commit("Say how packages move")
	k.plural("package", "set", "agent", "--yes")
	k.plural("cluster", "register", "canary", "--context", "canary", "--kubeconfig", k.kubeconfig, "--tag", "canary=true")
	k.plural("cluster", "register", "edge", "--context", "far", "--kubeconfig", k.kubeconfig)
	k.token = k.told("token")
}

// told is what the hub is told beside git under a key.
func (k *kept) told(key string) string {
	k.Helper()
	object, err := k.mgmt.Dynamic.Resource(secrets).Namespace("plural-system").Get(k.Context(), "plural-hub", metav1.GetOptions{})
	if err != nil {
		k.Fatal(err)
	}
	var secret corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &secret); err != nil {
		k.Fatal(err)
	}
	return string(secret.Data[key])
}

// policy writes an Installation.
func (k *kept) policy(name, clusters, policy string) {
	k.Helper()
	text := "apiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata: {name: " + name + "}\nspec:\n  upgrade: {" + policy + "}\n"
	if of, _, again := strings.Cut(name, "-"); again {
		text += "  package: " + of + "\n"
	}
	if clusters != "" {
		text += "  clusters: " + clusters + "\n"
	}
	k.write("packages/"+name+"/package.yaml", text)
}

// publish puts a version of packages into the catalog. Hub and agent are those of the program, but for how long things take.
func (k *kept) publish(version string, names ...string) {
	k.Helper()
	quicker := strings.NewReplacer(
		"\n  version: 0.1.0\n", "\n  version: "+version+"\n", "minReadySeconds: 10", "minReadySeconds: 1", "minReadySeconds: 5", "minReadySeconds: 1",
		"progressDeadlineSeconds: 120", "progressDeadlineSeconds: 8", "retries: 14", "retries: 4", "{delaySeconds: 5, graceSeconds: 30}",
		"{delaySeconds: 0, graceSeconds: 1}",
	)
	for _, name := range names {
		to := filepath.Join(k.catalog, "catalog", name, version)
		if name == "note" {
			k.file(filepath.Join(to, "package.yaml"), "apiVersion: plural.sh/v1alpha1\nkind: Package\nmetadata: {name: note}\nspec:\n  version: "+version+
				"\n  steps:\n  - {name: note, manifests: {path: note, namespace: default, parameters: {name: \"${installation.name}\"}}}\n")
			k.file(filepath.Join(to, "note/note.yaml.tmpl"), configMap("{{ .parameters.name }}", "version", version))
			continue
		}
		from, err := fs.Sub(templates.Catalog(), name)
		if err == nil {
			err = fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				text, err := fs.ReadFile(from, path)
				k.file(filepath.Join(to, path), quicker.Replace(string(text)))
				return err
			})
		}
		if err != nil {
			k.Fatal(err)
		}
	}
	k.run("git", "-C", k.catalog, "add", "-A")
	k.run("git", "-C", k.catalog, "commit", "--quiet", "-m", "Publish "+version)
	k.run("git", "-C", k.catalog, "push", "--quiet", "origin", "HEAD:main")
}

func (k *kept) file(path, text string) {
	k.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.Fatal(err)
	}
}

// get asks the hub; false when it does not answer.
func (k *kept) get(path string, into any) bool {
	request, err := http.NewRequestWithContext(k.Context(), http.MethodGet, k.hub+path, http.NoBody)
	if err != nil {
		k.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+k.token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(into) == nil
}

// stands is where an installation stands; empty while the hub does not answer.
func (k *kept) stands(name string) v1.Upgrade {
	var list v1.List[v1.Upgrade]
	k.get("/v1/upgrades", &list)
	found := v1.Upgrade{}
	for _, each := range list.Items {
		if k.seen[each.Installation] == nil {
			k.seen[each.Installation] = map[v1.UpgradeCode]string{}
		}
		for _, r := range each.Reasons {
			k.seen[each.Installation][r.Code] = r.Message
		}
		if each.Installation == name {
			found = each
		}
	}
	return found
}

// until waits for an installation's version and state, and says how long that took.
func (k *kept) until(t *testing.T, name, version string, state v1.UpgradeState) v1.Upgrade {
	t.Helper()
	start, last := time.Now(), v1.Upgrade{}
	defer func() {
		if t.Failed() {
			text, _ := json.MarshalIndent(last, "", "  ") // a struct of texts
			t.Logf("%s\nlog:\n%s", text, k.log())
		}
	}()
	until(t, fmt.Sprintf("%s is %s at %s", name, state, version), func() bool {
		last = k.stands(name)
		return last.Version == version && last.State == state
	})
	t.Logf("%s %s was %s after %s", name, version, state, time.Since(start).Round(100*time.Millisecond))
	return last
}

func (k *kept) log() string { return k.run("git", "-C", k.origin, "log", "--format=%an: %s", "main") }

// readyPods are the pods of a program that are ready, with their images.
func readyPods(t *testing.T, on *kubetest.Cluster, app string) map[string]string {
	t.Helper()
	list, err := on.Dynamic.Resource(pods).Namespace("plural-system").List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app})
	if err != nil {
		t.Fatal(err)
	}
	ready := map[string]string{}
	for i := range list.Items {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &pod); err != nil {
			t.Fatal(err)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready[pod.Name] = pod.Spec.Containers[0].Image
			}
		}
	}
	return ready
}

// runs waits until one pod of a program is ready, with an image.
func runs(t *testing.T, on *kubetest.Cluster, app, image string) {
	t.Helper()
	until(t, app+" runs from "+image, func() bool {
		return slices.Equal(slices.Collect(maps.Values(readyPods(t, on, app))), []string{image})
	})
}

// gave says that the hub gave a reason for an installation meanwhile.
func (k *kept) gave(t *testing.T, name string, code v1.UpgradeCode, message string) {
	t.Helper()
	if got := k.seen[name][code]; !strings.Contains(got, message) {
		t.Errorf("%s: the reason %s was %q", name, code, got)
	}
}

// From here on everything is the hub's doing, but for what is published.
func TestTheHubUpgradesAgentsAfterACanaryAndItselfAndGoesBackFromWhatIsBad(t *testing.T) {
	k := newKept(t)
	for _, name := range []string{"hub", "agent", "agent-canary", "note", "note-later"} {
		k.until(t, name, "0.1.0", v1.UpgradeCurrent)
	}
	t.Run("a good agent goes to the canary first, and to the others once it has been healthy for a while", k.goodAgent)
	t.Run("who leaves upgrades to people, and whose window is closed, stays and is told why", k.waits)
	t.Run("an agent that crashes stays on the canary, which goes back", func(t *testing.T) { k.badAgent(t, crashing) })
	t.Run("an agent without an image stays on the canary, which goes back", func(t *testing.T) { k.badAgent(t, missing) })
	t.Run("a good hub takes its own place", k.goodHub)
	t.Run("a hub that crashes is gone back from, and answers again", k.badHub)
	t.Run("the next good agent is taken, though the hub is killed meanwhile", k.goesOn)
	t.Run("an agent that crashes on one cluster only is taken back on all but the canary", k.unevenAgent)
	t.Run("people go on from what the hub did", k.people)
}

func (k *kept) goodAgent(t *testing.T) {
	k.publish("0.2.0", "agent", "note")
	k.until(t, "agent-canary", "0.2.0", v1.UpgradeRolling)
	k.until(t, "agent-canary", "0.2.0", v1.UpgradeCurrent)
	runs(t, k.canary, "plural-agent", agentImage+":0.2.0")
	k.until(t, "agent", "0.2.0", v1.UpgradeRolling)
	k.until(t, "agent", "0.2.0", v1.UpgradeCurrent)
	for _, on := range []*kubetest.Cluster{k.mgmt, k.edge} {
		runs(t, on, "plural-agent", agentImage+":0.2.0")
	}
	k.gave(t, "agent", v1.ReasonCanary, "waits for canary agent-canary")
	k.gave(t, "agent", v1.ReasonSoak, "canary agent-canary has been healthy for")
	if got := k.log(); !strings.HasPrefix(got, "plural hub: Upgrade package agent to 0.2.0\nplural hub: Upgrade package agent-canary to 0.2.0\n") {
		t.Errorf("log:\n%s", got)
	}
}

func (k *kept) waits(t *testing.T) {
	k.until(t, "note", "0.1.0", v1.UpgradeAvailable)
	k.gave(t, "note", v1.ReasonManual, "its policy leaves upgrades to people")
	later := k.until(t, "note-later", "0.1.0", v1.UpgradeWaiting)
	opens := time.Now().UTC().AddDate(0, 0, 3).Format("Mon") + " 02:00 UTC"
	k.gave(t, "note-later", v1.ReasonWindow, "outside of its window until "+opens)
	if until := later.Reasons[0].Until; until == nil || until.Hour() != 2 {
		t.Errorf("the window opens at %v", until)
	}
	_, said, err := k.try(program(t, "plural"), "package", "outdated")
	for _, line := range []string{
		"hub: note is available: its policy leaves upgrades to people", "hub: note-later is waiting: outside of its window until " + opens,
	} {
		if err != nil || !strings.Contains(said, line) {
			t.Errorf("outdated does not say %q: %v\n%s", line, err, said)
		}
	}
}

// badAgent is published, and the canary's agent that runs goes on all the time.
func (k *kept) badAgent(t *testing.T, version string) {
	before := readyPods(t, k.canary, "plural-agent")
	k.publish(version, "agent")
	k.until(t, "agent-canary", version, v1.UpgradeRolling)
	silent := time.Duration(0)
	start := time.Now()
	until(t, "the canary goes back from "+version, func() bool {
		if now := readyPods(t, k.canary, "plural-agent"); !maps.Equal(now, before) {
			t.Errorf("ready on the canary are %v, and were %v", now, before)
			return true
		}
		var cluster v1.Cluster
		if k.get("/v1/clusters/canary", &cluster) && cluster.LastReport != nil {
			silent = max(silent, time.Since(*cluster.LastReport))
		}
		if at := k.stands("agent"); at.Version != "0.2.0" {
			t.Errorf("agent is at %s", at.Version)
		}
		return k.stands("agent-canary").State == v1.UpgradeReverted
	})
	t.Logf("gone back from after %s; the canary was silent for %s at most", time.Since(start).Round(100*time.Millisecond),
		silent.Round(100*time.Millisecond))
	if silent > 10*time.Second {
		t.Errorf("the canary was silent for %s", silent)
	}
	at := k.until(t, "agent-canary", "0.2.0", v1.UpgradeReverted)
	if why := at.Reasons[0].Message; !strings.Contains(why, version+" was taken back: agent-canary "+version+" failed a test on canary") {
		t.Errorf("the reason is %q", why)
	}
	skip := k.run("git", "-C", k.origin, "show", "main:packages/agent-canary/package.yaml")
	if !strings.Contains(skip, version) {
		t.Errorf("%s is not skipped:\n%s", version, skip)
	}
	k.until(t, "agent", "0.2.0", v1.UpgradeWaiting)
	until(t, "the canary is healthy", func() bool {
		var cluster v1.Cluster
		return k.get("/v1/clusters/canary", &cluster) && cluster.Phase == v1.Healthy
	})
}

func (k *kept) goodHub(t *testing.T) {
	k.publish("0.2.0", "hub") // which may go before it says that it is rolling, and its follower find all of it healthy
	runs(t, k.mgmt, "plural-hub", hubImage+":0.2.0")
	k.until(t, "hub", "0.2.0", v1.UpgradeCurrent)
}

func (k *kept) badHub(t *testing.T) {
	k.publish(crashing, "hub")
	until(t, "the hub goes", func() bool { return !k.get("/v1/upgrades", new(v1.List[v1.Upgrade])) })
	start := time.Now()
	until(t, "the hub answers again", func() bool { return k.get("/v1/upgrades", new(v1.List[v1.Upgrade])) })
	t.Logf("the hub was away for %s", time.Since(start).Round(100*time.Millisecond))
	at := k.until(t, "hub", "0.2.0", v1.UpgradeReverted)
	if why := at.Reasons[0].Message; !strings.Contains(why, crashing+" was taken back: hub "+crashing+" failed a test on mgmt") {
		t.Errorf("the reason is %q", why)
	}
	runs(t, k.mgmt, "plural-hub", hubImage+":0.2.0")
}

func (k *kept) goesOn(t *testing.T) {
	k.publish("0.4.0", "agent")
	k.until(t, "agent-canary", "0.4.0", v1.UpgradeRolling)
	k.node.Kill("plural-system", "plural-hub-0")
	k.until(t, "agent", "0.4.0", v1.UpgradeCurrent)
	for _, on := range []*kubetest.Cluster{k.mgmt, k.edge, k.canary} {
		runs(t, on, "plural-agent", agentImage+":0.4.0")
	}
}

func (k *kept) unevenAgent(t *testing.T) {
	k.publish(uneven, "agent")
	k.until(t, "agent", uneven, v1.UpgradeRolling)
	at := k.until(t, "agent", "0.4.0", v1.UpgradeReverted)
	if why := at.Reasons[0].Message; !strings.Contains(why, uneven+" was taken back: agent "+uneven+" failed a test on edge") {
		t.Errorf("the reason is %q", why)
	}
	for _, on := range []*kubetest.Cluster{k.mgmt, k.edge} {
		runs(t, on, "plural-agent", agentImage+":0.4.0")
	}
	k.until(t, "agent-canary", uneven, v1.UpgradeCurrent)
	runs(t, k.canary, "plural-agent", agentImage+":"+uneven)
}

// people take a package that is left to them, and deploy: what the hub did is neither undone nor in the way.
func (k *kept) people(t *testing.T) {
	k.run("git", "pull", "--quiet", "--rebase")
	k.plural("package", "upgrade", "note", "--yes")
	k.until(t, "note", "0.2.0", v1.UpgradeCurrent)
	k.run("git", "pull", "--quiet", "--rebase")
	for _, s := range k.deployHere() {
		if s.Error != "" {
			t.Errorf("%s %s: %s", s.Action, s.Step, s.Error)
		}
	}
	if got := done(k.deployHere()); len(got) != 0 {
		t.Errorf("left to do after deploying: %v", got)
	}
	for app, image := range map[string]string{"plural-agent": agentImage + ":0.4.0", "plural-hub": hubImage + ":0.2.0"} {
		runs(t, k.mgmt, app, image)
	}
}
