package document_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func TestAParameterIsSetCommittedPushedAndSeenToRun(t *testing.T) {
	w := newWorld(t)
	w.runs("service", "set", "web", "replicas=3", "tag=6.7.1")
	want := strings.Replace(webFile, `replicas: "2"`, "replicas: \"3\"\n    tag: 6.7.1", 1)
	if diff := cmp.Diff(want, w.pushed("services/web.yaml")); diff != "" {
		t.Error(diff)
	}
	if got := w.git(w.origin, "log", "-1", "--format=%s", "main"); got != "Set replicas=3, tag=6.7.1 of web" {
		t.Errorf("the commit says %q", got)
	}
	if !w.wasAsked("/v1/services/web") || !strings.Contains(w.errOut.String(), `+    replicas: "3"`) {
		t.Errorf("it was not shown, or not waited for:\n%s", w.errOut)
	}
	before := w.state()
	w.runs("service", "set", "web", "replicas=3")
	if w.state() != before {
		t.Error("what is so already made a commit")
	}
	w.runs("service", "set", "web", "replicas-", "tag-", "--namespace", "front", "-m", "Move web", "--confirm", "web")
	if got := w.pushed("services/web.yaml"); strings.Contains(got, "parameters") || !strings.Contains(got, "namespace: front") {
		t.Errorf("%s", got)
	}
}

func TestAServiceIsCreatedChangedAndDeleted(t *testing.T) {
	w := newWorld(t)
	w.runs("service", "create", "shop", "--path", "charts/shop", "-l", "env=prod", "replicas=2", "--value", "a.b=1", "--value", "a.c=1.10")
	want := header + `kind: Service
metadata:
  name: shop
spec:
  source:
    path: charts/shop
  helm:
    values:
      a:
        b: 1
        c: "1.10"
  clusters:
    matchLabels:
      env: prod
  parameters:
    replicas: "2"
`
	if diff := cmp.Diff(want, w.pushed("services/shop.yaml")); diff != "" {
		t.Error(diff)
	}
	w.refused([]string{"service", "create", "shop", "--path", "apps/web", "-l", "env=prod"}, "is there already, in services/shop.yaml")
	w.runs("service", "set", "shop", "--cluster", "edge-1", "--value", "a.c-")
	if got := w.pushed("services/shop.yaml"); strings.Contains(got, "matchLabels") || !strings.Contains(got, "names: [edge-1]") || strings.Contains(got, " c:") {
		t.Error(got)
	}
	w.refused([]string{"service", "delete", "shop"}, "give --confirm")
	w.refused([]string{"service", "delete", "shop", "--confirm", "web"}, "nothing was changed")
	w.runs("service", "delete", "shop", "--confirm", "shop")
	if w.pushed("services/shop.yaml") != "" || !strings.Contains(w.errOut.String(), "7 objects on 1 cluster go: edge-1") {
		t.Errorf("%s", w.errOut)
	}
	w.runs("service", "delete", "db", "--confirm=db")
	if got := w.pushed("services/two.yaml"); strings.Contains(got, "db") || !strings.Contains(got, "name: api") {
		t.Errorf("the other document of its file: %s", got)
	}
}

func TestADeletionBeyondTheBudgetNamesItsAgreement(t *testing.T) {
	w := newWorld(t)
	w.runs("service", "delete", "api", "--confirm=api", "--dry-run")
	if strings.Contains(w.errOut.String(), "ack") {
		t.Errorf("one of two services of edge-1 is within half: %s", w.errOut)
	}
	w.runs("service", "delete", "api", "--confirm=api")
	w.runs("service", "delete", "web", "--dry-run")
	if !strings.Contains(w.errOut.String(), "plural service ack --cluster-removals") {
		t.Errorf("the last service of a cluster: %s", w.errOut)
	}
	w.runs("service", "delete", "web", "--confirm=web")
	w.runs("service", "delete", "db", "--dry-run")
	if !strings.Contains(w.errOut.String(), "plural service ack --commit") {
		t.Errorf("the last service of all: %s", w.errOut)
	}
}

func TestASourceIsAddedChangedAndDeleted(t *testing.T) {
	w := newWorld(t)
	w.runs("source", "add", "charts", "--helm", "https://charts.example.org", "--interval", "10m")
	want := header + "kind: Source\nmetadata:\n  name: charts\nspec:\n  helm:\n    url: https://charts.example.org\n  interval: 10m\n"
	if diff := cmp.Diff(want, w.pushed("sources/charts.yaml")); diff != "" {
		t.Error(diff)
	}
	w.runs("source", "set", "upstream", "--ref", "v2")
	if got := w.pushed("sources/upstream.yaml"); !strings.Contains(got, "ref: v2} # theirs") || !w.wasAsked("/v1/services/api") {
		t.Error(got)
	}
	w.runs("source", "set", "charts", "--oci", "oci://registry.example.org/charts", "--ref", "1.2", "--interval", "")
	want = header + "kind: Source\nmetadata:\n  name: charts\nspec:\n  oci:\n    url: oci://registry.example.org/charts\n    ref: \"1.2\"\n"
	if diff := cmp.Diff(want, w.pushed("sources/charts.yaml")); diff != "" {
		t.Error(diff)
	}
	w.refused([]string{"source", "delete", "upstream", "--confirm=upstream"}, "still named elsewhere", "services/two.yaml:5")
	w.refused([]string{"source", "add", "x", "--git", "https://user:secret@example.com/x"}, "sources/x.yaml:")
	w.refused([]string{"source", "set", "spare", "--ref", "v1"}, "sources/spare.yaml:")
	w.runs("source", "remove", "spare", "--confirm=spare")
	if w.pushed("sources/spare.yaml") != "" {
		t.Error("it is still there")
	}
}

func TestAClusterGetsTagsAndParameters(t *testing.T) {
	w := newWorld(t)
	w.runs("cluster", "create", "edge-2", "--tag", "env=dev", "domain=two.example.org")
	want := header + "kind: Cluster\nmetadata:\n  name: edge-2\nspec:\n  tags:\n    env: dev\n  parameters:\n    domain: two.example.org\n"
	if diff := cmp.Diff(want, w.pushed("clusters/edge-2.yaml")); diff != "" {
		t.Error(diff)
	}
	w.runs("cluster", "set", "edge-1", "tag.region=eu", "domain=one.example.org")
	want = header + "kind: Cluster\nmetadata: {name: edge-1}\nspec:\n  tags: {env: prod, region: eu} # where\n  parameters:\n    domain: one.example.org\n"
	if diff := cmp.Diff(want, w.pushed("clusters/edge-1.yaml")); diff != "" {
		t.Error(diff)
	}
	w.runs("cluster", "set", "edge-1", "tag.region-", "domain-")
	if got := w.pushed("clusters/edge-1.yaml"); strings.Contains(got, "region") || strings.Contains(got, "parameters") {
		t.Error(got)
	}
}

func TestATagThatIsWrittenAsAParameterIsAskedAbout(t *testing.T) {
	w := newWorld(t)
	w.refused([]string{"cluster", "set", "edge-1", "env=prod"}, "env is a tag of cluster edge-1, and env=prod would be a parameter", "plural cluster set edge-1 tag.env=prod")
	w.runs("cluster", "set", "edge-1", "--tag", "region=eu", "other=1")
	if got := w.pushed("clusters/edge-1.yaml"); !strings.Contains(got, "tags: {env: prod, region: eu}") || !strings.Contains(got, `other: "1"`) {
		t.Error(got)
	}
}

func TestFilesOfTheServiceThatAreNotCommittedAreNamed(t *testing.T) {
	w := newWorld(t)
	w.write(map[string]string{"apps/web/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n"})
	w.runs("service", "set", "web", "replicas=3")
	if got := w.errOut.String(); !strings.Contains(got, "warning: not committed, so that clusters do not get it with this change: apps/web/cm.yaml") {
		t.Error(got)
	}
}

func TestAClusterIsAskedAboutBeforeServicesLeaveIt(t *testing.T) {
	w := newWorld(t)
	before := w.state()
	w.runs("cluster", "set", "edge-1", "tag.env=dev", "--dry-run")
	if got := w.errOut.String(); !strings.Contains(got, "cluster edge-1 loses web: what they have there is deleted") {
		t.Error(got)
	}
	w.refused([]string{"cluster", "set", "edge-1", "tag.env=dev"}, "--yes")
	w.editor(`sed -i 's/env: prod/env: dev/' "$1"`)
	w.refused([]string{"cluster", "edit", "edge-1"}, "--yes")
	if after := w.state(); after != before {
		t.Error(cmp.Diff(before, after))
	}
	w.runs("service", "delete", "api", "--confirm", "api") // then web is the last
	w.refused([]string{"cluster", "set", "edge-1", "tag.env=dev"}, "--confirm=edge-1")
	w.runs("cluster", "set", "edge-1", "tag.env=dev", "--confirm", "edge-1")
	if got := w.pushed("clusters/edge-1.yaml"); !strings.Contains(got, "env: dev") {
		t.Error(got)
	}
}

func TestWhatWouldBeAMistakeChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.write(map[string]string{"apps/new/cm.yaml": "a: b\n"})
	before := w.state()
	for name, test := range map[string]struct {
		args []string
		says []string
	}{
		"an unknown source":      {[]string{"service", "set", "web", "--source", "nowhere"}, []string{"services/web.yaml:7:", "nothing was changed", "fix:"}},
		"a folder of nothing":    {[]string{"service", "set", "web", "--path", "apps/nothing"}, []string{"services/web.yaml:6:", `no folder "apps/nothing"`}},
		"an uncommitted folder":  {[]string{"service", "create", "new", "--path", "apps/new", "-l", "env=prod"}, []string{"git add apps/new"}},
		"nowhere to run":         {[]string{"service", "create", "new", "--path", "apps/web"}, []string{"--cluster NAME"}},
		"a name of two words":    {[]string{"service", "create", "A b", "--path", "apps/web", "-l", "env=prod"}, []string{"name"}},
		"a name that leaves":     {[]string{"service", "create", "../x", "--path", "apps/web", "-l", "env=prod"}, []string{"name"}},
		"nothing to do":          {[]string{"service", "set", "web"}, []string{"PARAMETER=VALUE"}},
		"no assignment":          {[]string{"service", "set", "web", "replicas"}, []string{"KEY=VALUE"}},
		"the same twice":         {[]string{"service", "set", "web", "a=1", "a-"}, []string{"twice"}},
		"a place that is none":   {[]string{"service", "set", "web", "--value", "a..b=1"}, []string{"plural service edit web"}},
		"an unfinished list":     {[]string{"service", "set", "web", "--value", "a=[1"}, []string{"quotes"}},
		"a service that is not":  {[]string{"service", "set", "nothing", "a=1"}, []string{"plural service list"}},
		"a cluster that is not":  {[]string{"cluster", "set", "nothing", "a=1"}, []string{"plural cluster list"}},
		"a source without place": {[]string{"source", "add", "x"}, []string{"--git URL"}},
		"a cluster of that name": {[]string{"cluster", "create", "edge-1"}, []string{"plural cluster edit edge-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.refused(test.args, test.says...)
			if got := w.state(); got != before {
				t.Errorf("something was changed:\n%s", cmp.Diff(before, got))
			}
		})
	}
}

// TestADryRunLeavesTheRepoAsItWas goes over every command of these nouns that changes the repo.
func TestADryRunLeavesTheRepoAsItWas(t *testing.T) {
	w := newWorld(t)
	w.editor(`echo "# more" >> "$1"`)
	before := w.state()
	for _, args := range [][]string{
		{"service", "create", "shop", "--path", "charts/shop", "-l", "env=prod"},
		{"service", "set", "web", "replicas=3"},
		{"service", "edit", "web"},
		{"service", "delete", "web"},
		{"service", "suspend", "web"},
		{"source", "add", "x", "--git", "https://example.com/x"},
		{"source", "set", "upstream", "--ref", "v2"},
		{"source", "edit", "upstream"},
		{"source", "delete", "spare"},
		{"cluster", "create", "edge-2"},
		{"cluster", "set", "edge-1", "tag.a=b"},
		{"cluster", "edit", "edge-1"},
		{"cluster", "delete", "spare"},
		{"cluster", "register", "edge-3", "--kubeconfig", w.env["KUBECONFIG"]},
		{"cluster", "register", "edge-4", "--print"},
	} {
		w.runs(append(args, "--dry-run")...)
		if got := w.state(); got != before {
			t.Fatalf("plural %s: %s", strings.Join(args, " "), cmp.Diff(before, got))
		}
		if w.out.Len() == 0 {
			t.Errorf("plural %s shows nothing", strings.Join(args, " "))
		}
	}
}

func TestAChangeIsCarriedAsFarAsIsWanted(t *testing.T) {
	w := newWorld(t)
	was := w.git(w.dir, "rev-parse", "HEAD")
	w.runs("service", "set", "web", "replicas=3", "--no-commit")
	if w.git(w.dir, "rev-parse", "HEAD") != was || w.git(w.dir, "status", "--porcelain") != "M services/web.yaml" {
		t.Errorf("%s", w.state())
	}
	w.git(w.dir, "checkout", "-q", ".")
	w.runs("service", "set", "web", "replicas=3", "--no-push")
	if w.git(w.dir, "rev-parse", "HEAD~1") != was || w.git(w.origin, "rev-parse", "main") != was {
		t.Errorf("%s", w.state())
	}
}

// TestTwoPeopleChangeTheFleetAtOnce has a push lose to one that came before it.
func TestTwoPeopleChangeTheFleetAtOnce(t *testing.T) {
	w := newWorld(t)
	other := filepath.Join(t.TempDir(), "other")
	w.git(".", "clone", "-q", w.origin, other)
	mine := w.dir
	w.dir = other
	w.runs("cluster", "set", "edge-1", "tag.region=eu")
	w.dir = mine
	w.runs("service", "set", "web", "replicas=3")
	if !strings.Contains(w.pushed("clusters/edge-1.yaml"), "region: eu") || !strings.Contains(w.pushed("services/web.yaml"), `"3"`) {
		t.Error("one of the two changes is lost")
	}
	w.dir = other
	w.refused([]string{"service", "set", "web", "replicas=4"}, "not pushed", "services/web.yaml")
}

func TestAnEditIsCheckedShownAndCommitted(t *testing.T) {
	w := newWorld(t)
	w.editor(`sed -i 's/"2"/"5"/' "$1"`)
	w.runs("service", "edit", "web", "-m", "Five of web")
	if !strings.Contains(w.pushed("services/web.yaml"), `replicas: "5"`) || w.git(w.origin, "log", "-1", "--format=%s", "main") != "Five of web" {
		t.Error(w.pushed("services/web.yaml"))
	}
	before := w.state()
	w.editor("true")
	w.runs("service", "edit", "web")
	w.editor(`: > "$1"`)
	w.runs("service", "edit", "web")
	w.editor(`sed -i 's/^spec:/spec:\n  nameSpace: x/' "$1"`)
	w.refused([]string{"service", "edit", "web"}, "services/web.yaml:5:3", `did you mean "namespace"?`, "what you edited is in ")
	kept, err := filepath.Glob(filepath.Join(w.env["XDG_RUNTIME_DIR"], "plural-edit-*", "web.yaml"))
	if err != nil || len(kept) != 1 {
		t.Errorf("kept: %v, %v", kept, err)
	}
	w.editor("exit 3")
	w.refused([]string{"service", "edit", "web"}, "the editor")
	if after := w.state(); after != before {
		t.Error(cmp.Diff(before, after))
	}
	if left, err := filepath.Glob(filepath.Join(w.env["XDG_RUNTIME_DIR"], "*")); err != nil || len(left) != 1 {
		t.Errorf("drafts that nobody needs stay: %v, %v", left, err)
	}
}

func TestAnEditIsAskedAboutOnceItIsShown(t *testing.T) {
	w := newWorld(t)
	w.env["CI"] = ""
	w.editor(`sed -i 's/"2"/"5"/' "$1"`)
	before := w.state()
	w.refused([]string{"service", "edit", "web", "--ask"}, "nobody can be asked", "--yes", "what you edited is in ")
	w.answers = "n\n"
	w.refused([]string{"service", "edit", "web", "--ask"}, "nothing was changed", "what you edited is in ")
	said := w.errOut.String()
	shown, asked := strings.Index(said, `+    replicas: "5"`), strings.Index(said, "Make this change?")
	if shown < 0 || asked < shown {
		t.Errorf("shown at %d, asked at %d:\n%s", shown, asked, said)
	}
	if after := w.state(); after != before {
		t.Error(cmp.Diff(before, after))
	}
	w.answers = "y\n"
	w.runs("service", "edit", "web", "--ask")
	if !strings.Contains(w.pushed("services/web.yaml"), `replicas: "5"`) {
		t.Error(w.pushed("services/web.yaml"))
	}
}

func TestAnEditKeepsTheName(t *testing.T) {
	w := newWorld(t)
	before := w.state()
	w.editor(`sed -i s/web/nope/ "$1"`)
	w.refused([]string{"service", "edit", "web"}, `services/web.yaml is without service "web"`, "plural service delete web", "what you edited is in ")
	w.editor(`sed -i s/spare/sparse/ "$1"`)
	w.refused([]string{"cluster", "edit", "spare"}, `is without cluster "spare"`)
	if after := w.state(); after != before {
		t.Error(cmp.Diff(before, after))
	}
}

func TestAnEditDoesNotOverwriteWhatCameMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.editor(`sed -i 's/"2"/"5"/' "$1"; echo "# theirs" >> ` + filepath.Join(w.dir, "services/web.yaml"))
	w.refused([]string{"service", "edit", "web"}, "meanwhile", "what you edited is in ")
	if text, err := os.ReadFile(filepath.Join(w.dir, "services/web.yaml")); err != nil || string(text) != webFile+"# theirs\n" {
		t.Errorf("%s, %v", text, err)
	}
}

func TestAMistakeThatIsThereIsMendedInTheEditor(t *testing.T) {
	w := newWorld(t)
	w.write(map[string]string{"services/web.yaml": strings.Replace(webFile, "spec:", "spec:\n  nameSpace: x", 1)})
	w.git(w.dir, "commit", "-qam", "slip")
	w.refused([]string{"service", "set", "web", "replicas=3"}, "services/web.yaml:5:3")
	w.editor(`sed -i 's/nameSpace/namespace/' "$1"`)
	w.runs("service", "edit", "web")
	if !strings.Contains(w.pushed("services/web.yaml"), "namespace: x") {
		t.Error(w.pushed("services/web.yaml"))
	}
}

// TestAnInterruptedCommandLeavesAConsistentRepo interrupts before the commit, and while the hub is waited for.
func TestAnInterruptedCommandLeavesAConsistentRepo(t *testing.T) {
	w := newWorld(t)
	before := w.state()
	interrupted := func(ctx context.Context) error {
		t.Helper()
		err := cmdutil.Explain(w.pluralIn(ctx, "service", "set", "web", "replicas=3"))
		if ui.CodeOf(err) != ui.ExitInterrupted {
			t.Errorf("%v", err)
		}
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = interrupted(ctx)
	if after := w.state(); after != before {
		t.Error(cmp.Diff(before, after))
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	w.meanwhile = func() { // the hub is asked before the commit too
		if strings.Contains(w.pushed("services/web.yaml"), `"3"`) {
			cancel()
		}
	}
	if err := interrupted(ctx); !strings.Contains(err.Error(), "interrupted; the change is pushed as ") {
		t.Errorf("%v", err)
	}
	if w.git(w.dir, "status", "--porcelain") != "" || !strings.Contains(w.pushed("services/web.yaml"), `"3"`) {
		t.Errorf("%s", w.state())
	}
}
