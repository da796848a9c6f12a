package cluster

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/workspace/fleet"
)

// An invitation changes one file, which holds a hash; the token is on the one line of standard output and nowhere else.
func TestAnInvitationIsOneLineAndAHash(t *testing.T) {
	for name, isSealed := range map[string]bool{"plain": false, "sealed": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, isSealed)
			before := w.git(w.dir, "rev-parse", "HEAD")
			if err := w.plural("register", "edge-9", "--print", "--tag", "env=prod"); err != nil {
				t.Fatal(err)
			}
			line := regexp.MustCompile(`^printf 'Authorization: Bearer %s' '(plural_join_[A-Za-z0-9_-]{43})' \| ` +
				`curl -fsS -H @- 'https://hub\.example\.com/join/edge-9\.yaml' \| ` +
				`kubectl apply --server-side --force-conflicts --field-manager plural -f -\n$`).FindStringSubmatch(w.out.String())
			if line == nil {
				t.Fatalf("printed:\n%s", w.out)
			}
			snap := w.pushed()
			f, err := fleet.Load(snap.FS())
			if err != nil {
				t.Fatal(err)
			}
			c, ok := f.Cluster("edge-9")
			if !ok || c.Spec.Join == nil || c.Spec.Join.Hash != fleet.HashToken(line[1]) || c.Spec.Tags["env"] != "prod" || c.Spec.Agent != (fleet.AgentKeys{}) {
				t.Fatalf("%+v", c)
			}
			if left := time.Until(c.Spec.Join.Until()); left <= 0 || left > fleet.JoinLifetime {
				t.Errorf("good for %s", left)
			}
			if got := w.git(w.dir, "diff", "--name-only", before, "origin/main"); got != "clusters/edge-9.yaml" {
				t.Errorf("changed: %s", got)
			}
			text, err := fs.ReadFile(snap.FS(), "clusters/edge-9.yaml")
			if err != nil || strings.Contains(string(text)+w.errOut.String(), line[1]) {
				t.Errorf("the token is in git or on standard error: %v", err)
			}
			if said := w.errOut.String(); strings.Contains(said, "plural crypto share cluster/edge-9") != isSealed || !strings.Contains(said, "once, before") {
				t.Errorf("said:\n%s", said)
			}
			if err := w.plural("register", "edge-9", "--print"); err != nil {
				t.Fatal(err)
			}
			if f, err = fleet.Load(w.pushed().FS()); err != nil {
				t.Fatal(err)
			}
			if again, _ := f.Cluster("edge-9"); again.Spec.Join.Hash == c.Spec.Join.Hash {
				t.Error("the first token is still good")
			}
		})
	}
}

func TestAnInvitationIsForNoClusterOfThisMachine(t *testing.T) {
	w := newWorld(t, false)
	before := w.untouched()
	for _, flag := range []string{"--context=x", "--kubeconfig=x", "--no-commit"} {
		if err := w.plural("register", "edge-9", "--print", flag); err == nil {
			t.Errorf("%s was taken", flag)
		}
	}
	if err := w.plural("register", "../x", "--print"); err == nil {
		t.Error("a path was taken for a name")
	}
	if w.untouched() != before {
		t.Error("something changed")
	}
}

func (w *world) untouched() string {
	w.t.Helper()
	return w.git(w.dir, "rev-parse", "HEAD", "origin/main") + w.git(w.dir, "status", "--porcelain")
}
