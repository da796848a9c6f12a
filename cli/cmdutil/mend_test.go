package cmdutil_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
)

func TestWhatMendsARefusalFollowsFromWhatIsRefused(t *testing.T) {
	for _, tt := range []struct {
		problem v1.Problem
		want    string
	}{
		{v1.Problem{File: "services", Token: "78e67c1858b8"}, "plural undo, or agree to exactly this: plural service ack --commit"},
		{v1.Problem{Cluster: "edge-1", Token: "78e67c1858b8"}, "plural undo, or agree to it: plural service ack --cluster-removals edge-1"},
		{v1.Problem{File: "services/web.yaml", Line: 12}, "mend services/web.yaml:12, commit and push; or plural undo"},
		{
			v1.Problem{File: "services/web.yaml", Line: 12, Since: &v1.Commit{ID: "1111111222222222"}},
			"mend services/web.yaml:12, commit and push; or plural undo 1111111",
		},
		{
			v1.Problem{File: "services/web.yaml", Line: 12, Since: &v1.Commit{ID: "1111111222222222", Subject: `Revert "Break web"`}},
			"mend services/web.yaml:12, commit and push; or git restore --source 5e12ed0 --staged --worktree :/ && " +
				"git commit -m 'Go back to 5e12ed0' && git push",
		},
		{v1.Problem{Message: "nobody knows where"}, "plural validate, mend it, commit and push; or plural undo"},
	} {
		if got := cmdutil.Mend(tt.problem, "5e12ed00000"); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.problem, got, tt.want)
		}
	}
}

func TestWhatMendsADeploymentThatIsHeldIsWhatItIsHeldFor(t *testing.T) {
	for _, tt := range []struct {
		d    v1.Deployment
		want string
	}{
		{v1.Deployment{Held: &v1.Waiting{Count: 3}}, "plural service ack web agrees; plural undo takes the newest change back"},
		{
			v1.Deployment{Leftover: true, Message: "its removal waits"},
			"plural service ack --cluster-removals edge-1 agrees; plural undo takes the newest change back",
		},
		{v1.Deployment{Suspended: true, Message: "suspended: what runs stays as it is"}, "plural service resume web"},
	} {
		tt.d.Service, tt.d.Cluster, tt.d.Phase = "web", "edge-1", v1.Held
		if got := cmdutil.MendDeployment(&tt.d, ""); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestAServiceThatIsNewIsNotRolledBack(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	commit := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", name}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v: %s", args, err, out)
			}
		}
	}
	const head = "apiVersion: plural.sh/v1alpha1\n"
	commit("plural.yaml", head+"kind: Workspace\nmetadata: {name: demo}\nspec: {}\n")
	commit("sources/apps.yaml", head+"kind: Source\nmetadata: {name: apps}\nspec: {git: {url: 'https://git.example.com/apps'}}\n")
	web := head + "kind: Service\nmetadata: {name: web}\nspec: {source: {path: apps/web}, namespace: web, clusters: {}}\n"
	f := &cmdutil.Factory{Globals: cmdutil.Globals{Dir: dir}, Getenv: os.Getenv}
	for _, step := range []struct{ text, want string }{
		{web, "plural why web says what to mend; it is new, and plural service delete web takes it away"},
		{web + "# changed\n", "plural why web says what to mend; plural service rollback web takes its last change back"},
		{
			strings.Replace(web, "path:", "name: apps, path:", 1),
			"plural why web says what to mend; where its source moved, plural service set web --ref COMMIT holds it at an earlier commit of source apps",
		},
		{strings.Replace(web, "path:", "name: apps, ref: v1.2.3, path:", 1), "plural why web says what to mend; plural service rollback web takes its last change back"},
	} {
		commit("services/web.yaml", step.text)
		if got := f.Mender(t.Context(), "")(&v1.Deployment{Service: "web", Cluster: "edge-1", Phase: v1.Failed}); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
}
