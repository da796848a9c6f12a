package hubsvc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/signed"
	"github.com/pluralsh/plural/internal/needs"
	"github.com/pluralsh/plural/internal/walktest"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/gitsource"
)

// signingKey makes a private SSH key, and returns its file.
func signingKey(t *testing.T, name string) string {
	t.Helper()
	needs.Program(t, "ssh-keygen", "openssh-client")
	file := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	return file
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signs has the origin's commits signed by the key from now on, or by nobody.
func (o *origin) signs(key string) {
	o.git(o.work, "config", "gpg.format", "ssh")
	o.git(o.work, "config", "user.signingKey", key)
	sign := "true"
	if key == "" {
		sign = "false"
	}
	o.git(o.work, "config", "commit.gpgSign", sign)
}

// hinted is the status of a hub that is told to look at its repo.
func (r *running) hinted() v1.Status {
	r.do(http.MethodPost, "/hooks/git", r.token, nil)
	return r.status()
}

// signingHub is a hub that believes what ann signs, and has a key of its own.
func signingHub(t *testing.T) (hub *running, o *origin, opts Options, ann, own string) {
	t.Helper()
	ann, own = signingKey(t, "ann"), signingKey(t, "hub")
	o = newOrigin(t)
	o.signs(ann)
	o.push(twoServices(nil))
	opts = options(t, o)
	opts.RepoKeys = [][]byte{readFile(t, ann+".pub")}
	opts.Edits = &EditOptions{SigningKey: readFile(t, own)}
	hub = start(t, opts)
	hub.ready()
	return hub, o, opts, ann, own
}

// Replicas hand each other what they let in, and the hub's own key lets in less than people's do.
func TestReplicasTakeTheHubsOwnKeyForNobodyElses(t *testing.T) {
	edits, ann := &EditOptions{SigningKey: readFile(t, signingKey(t, "hub"))}, readFile(t, signingKey(t, "ann")+".pub")
	own := Options{RepoKeys: [][]byte{ann}, Edits: edits}
	signs, err := newSignatures(&own, nil)
	if err != nil {
		t.Fatal(err)
	}
	before, after := Options{RepoKeys: [][]byte{signs.own.Public(), ann}}, Options{RepoKeys: [][]byte{ann, signs.own.Public()}}
	different(t, map[string]string{
		"the hub's key as its own": own.trust(signs), "as a person's before ann's": before.trust(nil), "after ann's": after.trust(nil),
	})
}

func TestAHubThatWantsSignaturesCommitsWithAKeyOfItsOwn(t *testing.T) {
	hub, o, opts, _, own := signingHub(t)
	code, done, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusOK || done.Commit == "" {
		t.Fatalf("%d %+v", code, refused)
	}
	until(t, "the hub's own commit is served", func() bool { return hub.status().Commit.ID == done.Commit })
	if code, done, refused = hub.edit("suspend", "api", v1.EditRequest{}); code != http.StatusOK {
		t.Fatalf("on top of the hub's own: %d %+v", code, refused)
	}
	allowed := filepath.Join(t.TempDir(), "allowed")
	if err := os.WriteFile(allowed, append([]byte("hub "), readFile(t, own+".pub")...), 0o600); err != nil {
		t.Fatal(err)
	}
	o.git(o.bare, "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", done.Commit)

	opts.Data = t.TempDir() // another hub, which has seen nothing before
	opts.TokenFile = filepath.Join(opts.Data, "token")
	fresh := start(t, opts)
	fresh.ready()
	if got := fresh.status().Commit.ID; got != done.Commit {
		t.Errorf("a fresh hub serves %s, want the hub's own commit %s", got, done.Commit)
	}
}

func TestAHubVouchesForNoCommitThatNobodySigned(t *testing.T) {
	hub, o, _, ann, _ := signingHub(t)
	o.signs("")
	evil := o.push(map[string]string{"apps/web/cm.yaml": configMap("web", "evil")})
	code, _, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusConflict || !strings.Contains(refused.Message, "signed by nobody") || refused.Fix == "" {
		t.Fatalf("%d %+v", code, refused)
	}
	if got := o.git(o.bare, "rev-parse", "main"); got != evil {
		t.Errorf("the hub committed %s on top of it", got)
	}
	o.signs(ann)
	good := o.push(map[string]string{"apps/web/cm.yaml": configMap("web", "2")})
	until(t, "what ann signed on top is served", func() bool { return hub.hinted().Commit.ID == good })
}

// Only what is known of a tip is told as a verdict on it.
func TestPeopleAreToldWhyTheHubDoesNotCommit(t *testing.T) {
	hub, o, _, _, own := signingHub(t)
	tip := o.git(o.work, "rev-parse", "HEAD")
	o.signs(own)
	for i := range historyDepth {
		tip = o.git(o.work, "commit-tree", "-S", tip+"^{tree}", "-p", tip, "-m", fmt.Sprint(i))
	}
	o.git(o.work, "push", "-q", "origin", tip+":main")
	code, _, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusConflict || !strings.Contains(refused.Message, "the last 100 commits") ||
		!strings.Contains(refused.Fix, "--allow-empty -S") {
		t.Errorf("the hub's own commits alone: %d %+v", code, refused)
	}
	if err := unbelieved(fmt.Errorf("%w: timeout", gitsource.ErrUndecided)); strings.Contains(err.Error(), "signed by nobody") {
		t.Errorf("what could not be judged: %v", err)
	}
}

// Whoever has the hub's key, and may push, can do with it what the hub is for, and deploy nothing.
func TestTheHubsKeyCoversWhatTheHubMayChangeAndNothingElse(t *testing.T) {
	eve, _ := agent(t, "a")
	suspended := strings.Replace(service("web", path("apps/web")), "spec:", "spec:\n  suspend: true", 1)
	for name, change := range map[string]map[string]string{
		"what a service deploys":      {"apps/web/cm.yaml": configMap("web", "evil")},
		"a service":                   {"services/web.yaml": service("web", path("apps/api"))},
		"a new service":               {"services/evil.yaml": service("evil", path("apps/web"))},
		"a service that goes":         {"services/web.yaml": ""},
		"a cluster's keys":            {"clusters/a.yaml": cluster("a", eve)},
		"people":                      {"access/eve.yaml": "apiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: eve}\nspec: {groups: [platform]}\n"},
		"more than it may":            {"services/web.yaml": suspended, "apps/web/cm.yaml": configMap("web", "evil")},
		"a comment, which charts run": {"apps/web/cm.yaml": configMap("web", "1") + "# {{ .Values.evil }}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			hub, o, _, ann, own := signingHub(t)
			was := hub.status().Commit.ID
			o.signs(own)
			o.push(change)
			until(t, "it is refused", func() bool {
				if now := hub.hinted().Commit; now.ID != was {
					t.Fatalf("it is served: %+v", now)
				}
				return strings.Contains(hub.listed(".").Error, "its key does not cover")
			})
			if name != "more than it may" {
				return
			}
			o.signs(ann)
			again := o.push(map[string]string{"README.md": "seen, and wanted"})
			until(t, "what ann signed on top is served", func() bool { return hub.hinted().Commit.ID == again })
		})
	}
}

// A merge comes out of two commits: of one that was good long ago it may take all files, and of the newest that it came out of it.
func TestTheHubsKeyTakesNobodyBackByAMerge(t *testing.T) {
	hub, o, _, _, own := signingHub(t)
	old := hub.status().Commit.ID
	now := o.push(map[string]string{"apps/web/cm.yaml": configMap("web", "2")})
	until(t, "the newer commit is served", func() bool { return hub.hinted().Commit.ID == now })
	o.signs(own)
	merge := o.git(o.work, "commit-tree", "-S", old+"^{tree}", "-p", old, "-p", now, "-m", "back")
	o.git(o.work, "push", "-q", "-f", "origin", merge+":main")
	until(t, "it is refused", func() bool {
		if at := hub.hinted().Commit; at.ID != now {
			t.Fatalf("it is served: %+v", at)
		}
		return strings.Contains(hub.listed(".").Error, "is a merge")
	})
}

// What a branch was verified at counts for what may come after, so nobody who pushes may make it count no more.
func TestWhatIsPushedOnTheHubsCommitSaysNothingAgainstIt(t *testing.T) {
	hub, o, opts, _, _ := signingHub(t)
	code, done, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusOK {
		t.Fatalf("%d %+v", code, refused)
	}
	o.git(o.work, "fetch", "-q", "origin")
	commit := o.git(o.bare, "cat-file", "commit", done.Commit) + "\n"
	own, err := signed.Split("commit", []byte(commit))
	if err != nil {
		t.Fatal(err)
	}
	look := func(ctx context.Context, depth int, look func(context.Context, *workspace.Tip) error) error {
		remote := &workspace.Remote{URL: o.bare, Branch: "main", Dir: t.TempDir()}
		return remote.Look(ctx, depth, func(tip *workspace.Tip) error { return look(ctx, tip) })
	}
	h, err := newSignatures(&opts, look)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.check(t.Context(), own); err != nil {
		t.Fatalf("the hub's own commit: %v", err)
	}
	h.look = func(ctx context.Context, depth int, judge func(context.Context, *workspace.Tip) error) error {
		return look(ctx, depth, func(ctx context.Context, tip *workspace.Tip) error {
			ended, end := context.WithCancel(ctx)
			end()
			return judge(ended, tip)
		})
	}
	if err := h.check(t.Context(), own); !errors.Is(err, gitsource.ErrUndecided) {
		t.Errorf("when the time of the look is up: %v", err)
	}
	h.look = look
	put := func(text string) string {
		return strings.TrimSpace(walktest.Feed(t, o.work, text, "hash-object", "-t", "commit", "-w", "--stdin", "--literally"))
	}
	tops := map[string]func() string{
		"a hundred commits": func() string {
			top := done.Commit
			for i := range historyDepth - 1 {
				top = o.git(o.work, "commit-tree", done.Commit+"^{tree}", "-p", top, "-m", fmt.Sprint(i))
			}
			return top
		},
		"the same without its signature": func() string { return put(string(own.Payload)) },
		"one on a commit that only git reads": func() string {
			bad := put("tree " + o.git(o.work, "rev-parse", done.Commit+"^{tree}") + "\nparent " + done.Commit + "\nparent none\n")
			return o.git(o.work, "commit-tree", done.Commit+"^{tree}", "-p", bad, "-m", "sound")
		},
		"one that says two things": func() string {
			return put(strings.Replace(commit, "parent ", "tree "+strings.Repeat("0", 40)+"\nparent "+done.Commit+"\nparent ", 1))
		},
	}
	for name, top := range tops {
		o.git(o.work, "push", "-q", "-f", "origin", top()+":refs/heads/main")
		if err := h.check(t.Context(), own); err != nil && !errors.Is(err, gitsource.ErrUndecided) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
