package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pluralsh/plural/api/v1"
)

// TestMainJob is the life of one fleet, in the order in which people would live it. The parts share the fleet, since
// three control planes are what takes time; each leaves it converged.
func TestMainJob(t *testing.T) {
	l := up(t)
	part := func(name string, test func(*testing.T, *local)) {
		t.Run(name, func(t *testing.T) {
			own := *l
			own.t = t
			test(t, &own)
		})
	}
	part("a second up changes nothing", secondUp)
	part("one commit reaches every cluster", oneCommit)
	part("a commit elsewhere changes no key and downloads nothing", unrelatedCommit)
	part("a helm chart, plain manifests and a kustomization side by side", allRenderers)
	part("dependencies come first", dependencies)
	part("bad commits are refused or held, and nothing is lost", badCommits)
	part("processes are killed and come back", killed)
	part("the origin moves away", originAway)
	part("the hub is down and the agents go on", hubDown)
	part("a service that is removed goes, one too many stays", removal)
	part("status answers in every form", statusForms)
	part("nothing is left running", takeDown)
}

const timeout = 90 * time.Second

func (l *local) image(cluster string) string { return l.imageWatcher(cluster)() }

// imageWatcher asks a cluster's API server for podinfo's image, each time it is called.
func (l *local) imageWatcher(cluster string) func() string {
	podinfo := l.kube(cluster).Resource(deployments).Namespace("podinfo")
	return func() string {
		object, err := podinfo.Get(context.Background(), "podinfo", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return image(object)
	}
}

func secondUp(t *testing.T, l *local) {
	before, pids := l.git("rev-parse", "HEAD"), l.parts()
	l.run("up", "--local", l.repo)
	if after := l.git("rev-parse", "HEAD"); after != before {
		t.Errorf("HEAD moved from %s to %s", before, after)
	}
	for name, p := range l.parts() {
		if p.PID != pids[name].PID {
			t.Errorf("%s was restarted", name)
		}
	}
}

func oneCommit(t *testing.T, l *local) {
	l.replace("apps/podinfo/deployment.yaml.tmpl", `podinfo:.+`, "podinfo:6.7.1")
	commit := l.push("Update podinfo")
	l.eventually("every API server shows the new image", timeout, func() bool {
		return !slices.ContainsFunc(clusters, func(c string) bool { return !strings.HasSuffix(l.image(c), ":6.7.1") })
	})
	l.converged(commit, timeout)
}

func unrelatedCommit(t *testing.T, l *local) {
	keys := l.keys()
	downloads := l.metric("plural_hub_bundle_requests_total")
	l.write(map[string]string{"docs/notes.md": "nothing that runs\n", "apps/other/unused.yaml": "a: 1\n"})
	commit := l.push("Write notes")
	l.converged(commit, timeout)
	if after := l.keys(); !slices.Equal(keys, after) {
		t.Errorf("keys were %v, are %v", keys, after)
	}
	if now := l.metric("plural_hub_bundle_requests_total"); now != downloads {
		t.Errorf("%v bundles were downloaded", now-downloads)
	}
}

// keys are the desired keys of podinfo on every cluster.
func (l *local) keys() []string {
	l.t.Helper()
	return strings.Fields(l.run("service", "get", "podinfo", "--jq", ".deployments[].key"))
}

func allRenderers(t *testing.T, l *local) {
	l.write(map[string]string{
		"services/plain.yaml":                  service("plain", "apps/plain"),
		"apps/plain/config.yaml":               configMap("plain", "v1"),
		"services/chart.yaml":                  service("chart", "apps/chart") + "  helm:\n    values: {greeting: \"{{ .cluster.name }}\"}\n",
		"apps/chart/Chart.yaml":                "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
		"apps/chart/values.yaml":               "greeting: nobody\n",
		"apps/chart/templates/cm.yaml":         "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: chart\ndata:\n  greeting: {{ .Values.greeting | quote }}\n",
		"services/overlay.yaml":                service("overlay", "apps/overlay/prod"),
		"apps/overlay/base/kustomization.yaml": "resources: [config.yaml]\n",
		"apps/overlay/base/config.yaml":        configMap("overlay", "base"),
		"apps/overlay/prod/kustomization.yaml": "namePrefix: prod-\nresources: [../base]\n",
	})
	l.converged(l.push("Add three kinds of services"), timeout)
	for _, cluster := range clusters {
		if got := l.configValue(cluster, "chart", "greeting"); got != cluster {
			t.Errorf("%s: the chart greets %q", cluster, got)
		}
		if got := l.configValue(cluster, "prod-overlay", "value"); got != "base" {
			t.Errorf("%s: the overlay's base is %q", cluster, got)
		}
	}
	l.write(map[string]string{"apps/overlay/base/config.yaml": configMap("overlay", "changed")})
	l.converged(l.push("Change the base"), timeout)
	if got := l.configValue("edge-1", "prod-overlay", "value"); got != "changed" {
		t.Errorf("a change of the base did not reach the overlay: %q", got)
	}
}

func service(name, path string) string {
	return "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: " + name + "}\nspec:\n  source: {path: " + path +
		"}\n  namespace: demo\n  clusters: {matchLabels: {env: local}}\n"
}

func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  value: " + value + "\n"
}

func (l *local) configValue(cluster, name, key string) string {
	object, err := l.kube(cluster).Resource(configMaps).Namespace("demo").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	data, _ := object.Object["data"].(map[string]any)
	value, _ := data[key].(string)
	return value
}

func dependencies(t *testing.T, l *local) {
	l.write(map[string]string{
		"services/late.yaml":  service("late", "apps/late") + "  dependsOn: [{service: early}]\n",
		"apps/late/cm.yaml":   configMap("late", "x"),
		"services/early.yaml": service("early", "apps/early"),
		"apps/early/job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: early}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: a, image: a}]\n",
	})
	l.converged(l.push("Add a service that waits for another"), timeout)
	for _, cluster := range clusters {
		kube := l.kube(cluster)
		early, err := kube.Resource(jobs).Namespace("demo").Get(context.Background(), "early", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		late, err := kube.Resource(configMaps).Namespace("demo").Get(context.Background(), "late", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if created, before := late.GetCreationTimestamp(), early.GetCreationTimestamp(); created.Before(&before) {
			t.Errorf("%s: late is of %v, early of %v", cluster, created, before)
		}
	}
}

// inventory is every object that a service owns, by cluster: what must not change while commits are bad.
func (l *local) inventory() map[string][]string {
	l.t.Helper()
	all := map[string][]string{}
	for _, cluster := range clusters {
		for _, resource := range owned {
			list, err := l.kube(cluster).Resource(resource).List(context.Background(), metav1.ListOptions{LabelSelector: "plural.sh/service"})
			if err != nil {
				l.t.Fatal(err)
			}
			for i := range list.Items {
				all[cluster] = append(all[cluster], resource.Resource+"/"+list.Items[i].GetName()+"/"+string(list.Items[i].GetUID()))
			}
		}
		slices.Sort(all[cluster])
	}
	return all
}

func killed(t *testing.T, l *local) {
	for i, names := range [][]string{{"hub"}, {"agent-edge-1"}, {"hub", "agent-edge-1", "agent-mgmt"}} {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			own := *l
			own.t = t
			version := "6.8." + strconv.Itoa(i)
			own.replace("apps/podinfo/deployment.yaml.tmpl", `podinfo:.+`, "podinfo:"+version)
			commit := own.push("Update podinfo while processes die")
			own.kill(names...)
			own.converged(commit, timeout)
			for _, cluster := range clusters {
				if got := own.image(cluster); !strings.HasSuffix(got, ":"+version) {
					t.Errorf("%s runs %s", cluster, got)
				}
			}
		})
	}
}

func originAway(t *testing.T, l *local) {
	origin := strings.TrimPrefix(l.git("remote", "get-url", "origin"), "file://")
	if err := os.Rename(origin, origin+".away"); err != nil {
		t.Fatal(err)
	}
	l.eventually("status says that the origin does not answer", timeout, func() bool {
		s := l.status()
		return s != nil && len(s.Sources) > 0 && s.Sources[0].Error != ""
	})
	before := l.inventory()
	l.kill("hub", "agent-edge-2")
	l.eventually("the hub serves from its mirror after a restart", timeout, func() bool {
		s := l.status()
		return s != nil && s.Commit.ID != "" && s.Clusters[v1.Healthy] == len(clusters)
	})
	l.delete("edge-2")
	l.eventually("what was deleted is back", timeout, func() bool { return strings.Contains(l.image("edge-2"), "podinfo:") })
	if err := os.Rename(origin+".away", origin); err != nil {
		t.Fatal(err)
	}
	l.replace("apps/podinfo/deployment.yaml.tmpl", `podinfo:.+`, "podinfo:6.9.0")
	l.converged(l.push("Update podinfo after the outage"), timeout)
	if len(l.inventory()["mgmt"]) != len(before["mgmt"]) {
		t.Errorf("objects were %v, are %v", before["mgmt"], l.inventory()["mgmt"])
	}
}

func (l *local) delete(cluster string) {
	l.t.Helper()
	if err := l.kube(cluster).Resource(deployments).Namespace("podinfo").Delete(context.Background(), "podinfo", metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

func hubDown(t *testing.T, l *local) {
	l.run("local", "stop", "hub")
	l.delete("edge-1")
	l.eventually("edge-1 heals without the hub", timeout, func() bool { return strings.Contains(l.image("edge-1"), "podinfo:") })
	l.kill("agent-edge-1")
	l.delete("edge-1")
	l.eventually("edge-1 heals without the hub, after the agent's own restart", timeout, func() bool { return strings.Contains(l.image("edge-1"), "podinfo:") })
	l.run("local", "start", "hub")
	l.converged(l.git("rev-parse", "HEAD"), timeout)
}

func removal(t *testing.T, l *local) {
	l.write(map[string]string{"services/plain.yaml": "", "apps/plain": ""})
	l.converged(l.push("Remove a service"), timeout)
	l.eventually("its object is gone", timeout, func() bool {
		_, err := l.kube("edge-1").Resource(configMaps).Namespace("demo").Get(context.Background(), "plain", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	before := l.inventory()
	l.git("rm", "-rq", "services")
	l.refused(l.push("Remove all services"), "deletion budget")
	if after := l.inventory(); !equal(before, after) {
		t.Errorf("objects were %v, are %v", before, after)
	}
	l.git("revert", "--no-edit", "HEAD")
	l.git("push", "-q", "origin", "HEAD")
	l.converged(l.git("rev-parse", "HEAD"), timeout)
}

func statusForms(t *testing.T, l *local) {
	for _, args := range [][]string{{"status"}, {"cluster", "list"}, {"cluster", "get", "mgmt"}, {"service", "list"}, {"service", "get", "podinfo"}, {"source", "list"}, {"source", "get", "."}, {"source", "sync", "."}, {"hub", "status"}} {
		for _, output := range []string{"table", "json", "yaml", "name"} {
			if out := l.run(append(args, "-o", output)...); strings.TrimSpace(out) == "" || strings.Contains(out, "\x1b") {
				t.Errorf("plural %v -o %s: %q", args, output, out)
			}
		}
	}
	missing := l.command(filepath.Join(l.bin, "plural"), "service", "get", "nobody")
	if out, err := missing.CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "error: ") {
		t.Errorf("service get nobody: %v %s", err, out)
	}
	stranger := l.command(filepath.Join(l.bin, "plural"), "status")
	stranger.Env = append(stranger.Env, "PLURAL_TOKEN=not-the-token-of-this-hub")
	if out, _ := stranger.CombinedOutput(); stranger.ProcessState.ExitCode() != 4 {
		t.Errorf("status with a wrong token: exit %d, %s", stranger.ProcessState.ExitCode(), out)
	}
}

func takeDown(t *testing.T, l *local) {
	parts := l.parts()
	began := time.Now()
	l.run("down", l.repo)
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("down took %v", took)
	}
	for name, p := range parts {
		if p.PID != 0 && syscall.Kill(p.PID, 0) == nil {
			t.Errorf("%s (%d) is still running", name, p.PID)
		}
	}
	if _, err := os.Stat(filepath.Join(l.repo, "plural.yaml")); err != nil {
		t.Errorf("the repo is gone: %v", err)
	}
}
