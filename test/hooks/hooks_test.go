package hooks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// hook is a document with annotations, of which each is "name value" with the name below helm.sh/.
func hook(document, name string, annotations ...string) string {
	var text strings.Builder
	for _, annotation := range annotations {
		key, value, _ := strings.Cut(annotation, " ")
		fmt.Fprintf(&text, "    helm.sh/%s: %q\n", key, value)
	}
	return fmt.Sprintf(document, name, text.String())
}

// Documents of hooks. Jobs and pods end by themselves; a job for which there is no node fails by its deadline.
const (
	named = "metadata:\n  name: %s\n  annotations:\n    of: test\n%s"
	core  = "---\napiVersion: v1\n"
	rbac  = "---\napiVersion: rbac.authorization.k8s.io/v1\n"
	pod   = "restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: main, image: none}]"

	account    = core + "kind: ServiceAccount\n" + named
	configMap  = core + "kind: ConfigMap\n" + named
	secret     = core + "kind: Secret\n" + named
	serviceDoc = core + "kind: Service\n" + named + "spec: {ports: [{port: 80}]}\n"
	role       = rbac + "kind: Role\n" + named + "rules: []\n"
	binding    = rbac + "kind: RoleBinding\n" + named +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: rights}\nsubjects: [{kind: ServiceAccount, name: runner}]\n"
	podHook    = core + "kind: Pod\n" + named + "spec: {nodeSelector: {nowhere: here}, " + pod + "}\n"
	job        = "---\napiVersion: batch/v1\nkind: Job\n" + named + "spec: {template: {spec: {" + pod + "}}}\n"
	accountJob = "---\napiVersion: batch/v1\nkind: Job\n" + named + "spec: {template: {spec: {serviceAccountName: runner, " + pod + "}}}\n"
	failingJob = "---\napiVersion: batch/v1\nkind: Job\n" + named +
		"spec: {activeDeadlineSeconds: 1, backoffLimit: 0, template: {spec: {nodeSelector: {nowhere: here}, " + pod + "}}}\n"
	neverReady = "---\napiVersion: apps/v1\nkind: Deployment\n" + named +
		"spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {nodeSelector: {nowhere: here}, " +
		"containers: [{name: main, image: none}]}}}\n"
)

// plain is an object that is no hook.
func plain(name string) string { return hook(configMap, name) }

const (
	both    = "hook-delete-policy before-hook-creation,hook-succeeded"
	done    = "hook-delete-policy hook-succeeded"
	failed  = "hook-delete-policy hook-failed"
	install = "hook pre-install,pre-upgrade"
)

// admission is what charts do that run a Job with rights of its own before their objects and another after them.
func admission(objects string) string {
	const events = "hook pre-install,pre-upgrade,post-install,post-upgrade"
	return objects +
		hook(account, "runner", events, both) + hook(role, "rights", events, both) + hook(binding, "rights", events, both) +
		hook(accountJob, "runner-create", install, both) + hook(accountJob, "runner-patch", "hook post-install,post-upgrade", both)
}

// oneName is a Job for each of several events, of one name.
var oneName = hook(job, "task", "hook pre-install", both) + hook(job, "task", "hook pre-upgrade", "hook-weight 1", both) +
	hook(job, "task", "hook post-install,post-upgrade") + hook(job, "task", "hook pre-delete")

// The table is of releases: revisions that are applied one after another, and a removal.
func TestHooksGoAsWithHelm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		revisions []string
		remove    bool
	}{
		{"what a Job needs stays until it has ended", []string{
			plain("web") + hook(account, "runner", install, both, "hook-weight -10") + hook(role, "rights", install, both, "hook-weight -9") +
				hook(binding, "rights", install, both, "hook-weight -8") + hook(configMap, "script", install, done, "hook-weight -7") +
				hook(accountJob, "migrate", install, both, "hook-weight -1"),
		}, false},
		{"around the objects, at each revision", []string{
			admission(plain("web")), admission(hook(configMap, "web", "changed yes")),
		}, true},
		{"one weight", []string{
			hook(job, "same", install, done) + hook(account, "same", install, done) + hook(secret, "same", install, done) +
				hook(configMap, "same", install, done) + hook(role, "same", install, done) + hook(serviceDoc, "same", install, done) +
				hook(job, "first", install, done) + hook(configMap, "zero", install, done) + hook(podHook, "same", install, done) +
				hook(configMap, "lower", install, "hook-weight -1"),
		}, false},
		{"a job that fails and is to go then", []string{
			plain("web") + hook(account, "runner", install, both, "hook-weight -1") + hook(configMap, "stays", install) +
				hook(failingJob, "migrate", install, failed) + hook(job, "never", install, "hook-weight 1"),
		}, false},
		{"a job that fails and stays", []string{
			plain("web") + hook(configMap, "script", install, done, "hook-weight -2") + hook(configMap, "again", install, done, "hook-weight -1") +
				hook(failingJob, "migrate", install, done),
		}, false},
		{"a job that fails with no policy", []string{plain("web") + hook(failingJob, "migrate", install)}, false},
		{"a job that fails after the objects", []string{
			plain("web") + hook(job, "before", install, done) + hook(configMap, "script", "hook post-install", done) +
				hook(failingJob, "report", "hook post-install", failed, "hook-weight 5"),
		}, false},
		{"pods", []string{
			plain("web") + hook(podHook, "one", install, both) + hook(podHook, "two", install, "hook-weight 1"),
			plain("web") + hook(podHook, "one", install, both) + hook(podHook, "two", install, "hook-weight 1") + plain("more"),
		}, false},
		{"hooks of installs and of upgrades", []string{
			plain("web") + hook(job, "first", "hook pre-install") + hook(job, "later", "hook pre-upgrade", done) + hook(configMap, "after", "hook post-upgrade"),
			plain("web") + hook(job, "first", "hook pre-install") + hook(job, "later", "hook pre-upgrade", done) + hook(configMap, "after", "hook post-upgrade") + plain("more"),
			plain("web") + hook(job, "first", "hook pre-install") + hook(job, "later", "hook pre-upgrade", done) + hook(configMap, "after", "hook post-upgrade") + plain("more") + plain("most"),
		}, false},
		{"hooks of a removal", []string{
			plain("web") + hook(account, "runner", "hook pre-delete", both, "hook-weight -1") + hook(accountJob, "backup", "hook pre-delete", both) +
				hook(job, "stays", "hook pre-delete", "hook-weight 1") + hook(configMap, "list", "hook post-delete", done) +
				hook(job, "sweep", "hook post-delete", both, "hook-weight 2") + hook(job, "before", install),
		}, true},
		{"a hook of a removal that fails", []string{
			plain("web") + hook(account, "runner", "hook pre-delete", both, "hook-weight -1") + hook(failingJob, "backup", "hook pre-delete", failed) +
				hook(job, "never", "hook pre-delete", "hook-weight 1"),
		}, true},
		{"one name in several stages", []string{
			plain("web") + oneName, hook(configMap, "web", "changed yes") + oneName,
		}, true},
		{"what does not run is not waited for", []string{
			plain("web") + hook(neverReady, "cache", install, "hook-weight -1") + hook(job, "fill", install),
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			theirs, ours := kubetest.Start(t), kubetest.Start(t)
			endPods(t, theirs)
			endPods(t, ours)
			var wants, does journal
			helm, engine := newHelmRelease(t, theirs, &wants), newService(t, ours, &does)
			for i, templates := range test.revisions {
				step := fmt.Sprintf("revision %d", i+1)
				want, got := beside(func() bool { return helm.apply(templates) }, func() bool { return engine.apply(templates) })
				compare(t, step, want, got, wants.take(), does.take())
				if diff := cmp.Diff(left(t, theirs), left(t, ours)); diff != "" {
					t.Errorf("%s: left (-helm +engine):\n%s", step, diff)
				}
			}
			if !test.remove {
				return
			}
			removed, got := beside(helm.remove, engine.remove)
			remains, events := left(t, theirs), does.take()
			if got { // what hooks have left goes with the service, which Helm leaves behind
				var leftovers []string
				for _, name := range remains {
					leftovers = append(leftovers, "- "+name)
				}
				kept := slices.Clone(events[:len(events)-len(leftovers)])
				last := slices.Sorted(slices.Values(events[len(kept):]))
				if diff := cmp.Diff(slices.Sorted(slices.Values(leftovers)), last); diff != "" {
					t.Errorf("deleted last (-left by helm +engine):\n%s", diff)
				}
				events, remains = kept, nil
			}
			compare(t, "removal", removed, got, wants.take(), events)
			if diff := cmp.Diff(remains, left(t, ours)); diff != "" {
				t.Errorf("removal: left (-want +engine):\n%s", diff)
			}
		})
	}
}

// beside does two things at a time, as they mostly wait: the second on the caller's goroutine.
func beside(first, second func() bool) (bool, bool) {
	ended := make(chan bool, 1)
	go func() { ended <- first() }()
	got := second()
	return <-ended, got
}

func compare(t *testing.T, step string, want, got bool, helm, engine []string) {
	t.Helper()
	if want != got {
		t.Errorf("%s: it succeeded with helm: %t, with the engine: %t", step, want, got)
	}
	if diff := cmp.Diff(helm, engine); diff != "" {
		t.Errorf("%s: created and deleted (-helm +engine):\n%s", step, diff)
	}
	if len(helm) == 0 {
		t.Errorf("%s: nothing happened", step)
	}
}

func TestKindsOfOneNameAndWeightGoInTheOrderOfHelm(t *testing.T) {
	t.Parallel()
	var items []order.Item
	for _, kind := range releaseutil.InstallOrder {
		items = append(items, order.Item{ID: object.ID{Kind: kind, Name: "same"}, Turn: order.Turn{Hook: true, Family: order.Helm}})
	}
	slices.Reverse(items)
	steps, err := order.Plan(items)
	if err != nil {
		t.Fatal(err)
	}
	var got releaseutil.KindSortOrder
	for _, step := range steps {
		for _, i := range step.Items {
			got = append(got, items[i].ID.Kind)
		}
	}
	if diff := cmp.Diff(releaseutil.InstallOrder, got); diff != "" {
		t.Errorf("(-helm +ours):\n%s", diff)
	}
}

func TestHooksWithAGenerateNameRunOnceForEachRevision(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Start(t)
	var does journal
	engine := newService(t, cluster, &does)
	unnamed := func(document string) string { return strings.Replace(document, "  name: ", "  generateName: ", 1) }
	templates := plain("web") + unnamed(hook(job, "migrate-", install)) + unnamed(hook(configMap, "note-", install, done)) +
		unnamed(hook(configMap, "note-", install, done))
	seen := map[string]bool{}
	for i, revision := range []string{templates, templates, templates + plain("more")} {
		if i == 1 {
			engine = newService(t, cluster, &does) // as after a restart
		}
		if !engine.apply(revision) {
			t.Fatalf("revision %d fails", i+1)
		}
		var made []string
		for _, line := range does.take() {
			sign, name, _ := strings.Cut(line, " ")
			kind, generated := strings.CutPrefix(name, "jobs/migrate-")
			if sign == "+" && generated {
				made = append(made, kind)
			}
			if seen[line] && sign == "+" {
				t.Errorf("%s was made twice", name)
			}
			seen[line] = true
		}
		if want := []int{1, 0, 1}[i]; len(made) != want {
			t.Errorf("round %d made jobs %q, want %d", i+1, made, want)
		}
	}
	notes := 0
	for line := range seen {
		if strings.Contains(line, "configmaps/note-") {
			notes++
		}
	}
	if notes != 8 { // two for each of two revisions, made and deleted
		t.Errorf("hooks that begin alike: %v", seen)
	}
	if !engine.remove() {
		t.Error("the removal fails")
	}
	if remains := left(t, cluster); len(remains) > 0 {
		t.Errorf("left behind: %q", remains)
	}
}
