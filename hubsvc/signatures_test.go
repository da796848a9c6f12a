package hubsvc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/gitsource"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// hinted is the status of a hub that is told to look at its repo.
func (r *running) hinted() v1.Status {
	r.do(http.MethodPost, "/hooks/git", r.token, nil)
	return r.status()
}

// signingHub is a hub that believes what ann signs, and has a key of its own.
func signingHub(t *testing.T) (hub *running, o *fleetrepo.Origin, opts Options, ann, own string) {
	t.Helper()
	ann, own = fleetrepo.SigningKey(t, "ann"), fleetrepo.SigningKey(t, "hub")
	o = fleetrepo.New(t)
	o.SignBy(ann)
	o.Push(fleetrepo.TwoServices(nil))
	opts = options(t, o)
	opts.RepoKeys = [][]byte{readFile(t, ann+".pub")}
	opts.Edits = &committer.Edits{SigningKey: readFile(t, own)}
	hub = start(t, opts)
	hub.ready()
	return hub, o, opts, ann, own
}

// Replicas hand each other what they let in, and the hub's own key lets in less than people's do.
func TestReplicasTakeTheHubsOwnKeyForNobodyElses(t *testing.T) {
	edits, ann := &committer.Edits{SigningKey: readFile(t, fleetrepo.SigningKey(t, "hub"))}, readFile(t, fleetrepo.SigningKey(t, "ann")+".pub")
	c, err := committer.New(committer.Options{Keys: [][]byte{ann}, Edits: edits})
	if err != nil {
		t.Fatal(err)
	}
	trust := func(hub []byte, keys ...[]byte) string {
		return sources.New(sources.Options{Keys: keys, HubKey: hub}).Own().Trust
	}
	different(t, map[string]string{
		"the hub's key as its own": trust(c.PublicKey(), ann), "as a person's before ann's": trust(nil, c.PublicKey(), ann),
		"after ann's": trust(nil, ann, c.PublicKey()),
	})
}

func TestAHubThatWantsSignaturesCommitsWithAKeyOfItsOwn(t *testing.T) {
	hub, o, opts, _, own := signingHub(t)
	code, done, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusOK || done.Commit == "" {
		t.Fatalf("%d %+v", code, refused)
	}
	fleetrepo.Until(t, "the hub's own commit is served", func() bool { return hub.status().Commit.ID == done.Commit })
	if code, done, refused = hub.edit("suspend", "api", v1.EditRequest{}); code != http.StatusOK {
		t.Fatalf("on top of the hub's own: %d %+v", code, refused)
	}
	allowed := filepath.Join(t.TempDir(), "allowed")
	if err := os.WriteFile(allowed, append([]byte("hub "), readFile(t, own+".pub")...), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Git(o.Bare, "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", done.Commit)

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
	o.SignBy("")
	evil := o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "evil")})
	code, _, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusConflict || !strings.Contains(refused.Message, "signed by nobody") || refused.Fix == "" {
		t.Fatalf("%d %+v", code, refused)
	}
	if got := o.Git(o.Bare, "rev-parse", "main"); got != evil {
		t.Errorf("the hub committed %s on top of it", got)
	}
	o.SignBy(ann)
	good := o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "2")})
	fleetrepo.Until(t, "what ann signed on top is served", func() bool { return hub.hinted().Commit.ID == good })
}

// Only what is known of a tip is told as a verdict on it.
func TestPeopleAreToldWhyTheHubDoesNotCommit(t *testing.T) {
	hub, o, _, _, own := signingHub(t)
	tip := o.Git(o.Work, "rev-parse", "HEAD")
	o.SignBy(own)
	for i := range committer.HistoryDepth {
		tip = o.Git(o.Work, "commit-tree", "-S", tip+"^{tree}", "-p", tip, "-m", fmt.Sprint(i))
	}
	o.Git(o.Work, "push", "-q", "origin", tip+":main")
	code, _, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusConflict || !strings.Contains(refused.Message, "the last 100 commits") ||
		!strings.Contains(refused.Fix, "--allow-empty -S") {
		t.Errorf("the hub's own commits alone: %d %+v", code, refused)
	}
}

// Whoever has the hub's key, and may push, can do with it what the hub is for, and deploy nothing.
func TestTheHubsKeyCoversWhatTheHubMayChangeAndNothingElse(t *testing.T) {
	eve, _ := agent(t, "a")
	suspended := strings.Replace(fleetrepo.Service("web", fleetrepo.Path("apps/web")), "spec:", "spec:\n  suspend: true", 1)
	for name, change := range map[string]map[string]string{
		"what a service deploys":      {"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "evil")},
		"a service":                   {"services/web.yaml": fleetrepo.Service("web", fleetrepo.Path("apps/api"))},
		"a new service":               {"services/evil.yaml": fleetrepo.Service("evil", fleetrepo.Path("apps/web"))},
		"a service that goes":         {"services/web.yaml": ""},
		"a cluster's keys":            {"clusters/a.yaml": fleetrepo.Cluster("a", eve)},
		"people":                      {"access/eve.yaml": "apiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: eve}\nspec: {groups: [platform]}\n"},
		"more than it may":            {"services/web.yaml": suspended, "apps/web/cm.yaml": fleetrepo.ConfigMap("web", "evil")},
		"a comment, which charts run": {"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "1") + "# {{ .Values.evil }}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			hub, o, _, ann, own := signingHub(t)
			was := hub.status().Commit.ID
			o.SignBy(own)
			o.Push(change)
			fleetrepo.Until(t, "it is refused", func() bool {
				if now := hub.hinted().Commit; now.ID != was {
					t.Fatalf("it is served: %+v", now)
				}
				return strings.Contains(hub.listed(".").Error, "its key does not cover")
			})
			if name != "more than it may" {
				return
			}
			o.SignBy(ann)
			again := o.Push(map[string]string{"README.md": "seen, and wanted"})
			fleetrepo.Until(t, "what ann signed on top is served", func() bool { return hub.hinted().Commit.ID == again })
		})
	}
}

// A merge comes out of two commits: of one that was good long ago it may take all files, and of the newest that it came out of it.
func TestTheHubsKeyTakesNobodyBackByAMerge(t *testing.T) {
	hub, o, _, _, own := signingHub(t)
	old := hub.status().Commit.ID
	now := o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "2")})
	fleetrepo.Until(t, "the newer commit is served", func() bool { return hub.hinted().Commit.ID == now })
	o.SignBy(own)
	merge := o.Git(o.Work, "commit-tree", "-S", old+"^{tree}", "-p", old, "-p", now, "-m", "back")
	o.Git(o.Work, "push", "-q", "-f", "origin", merge+":main")
	fleetrepo.Until(t, "it is refused", func() bool {
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
	o.Git(o.Work, "fetch", "-q", "origin")
	commit := o.Git(o.Bare, "cat-file", "commit", done.Commit) + "\n"
	own, err := verify.Split("commit", []byte(commit))
	if err != nil {
		t.Fatal(err)
	}
	h, err := committer.New(committer.Options{
		Repo: o.URL(), Branch: "main", Dir: t.TempDir(), Edits: opts.Edits, Keys: opts.RepoKeys, Log: opts.Log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context(), own); err != nil {
		t.Fatalf("the hub's own commit: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := h.Check(ended, own); !errors.Is(err, gitsource.ErrUndecided) {
		t.Errorf("when the time of the look is up: %v", err)
	}
	put := func(text string) string {
		return strings.TrimSpace(walktest.Feed(t, o.Work, text, "hash-object", "-t", "commit", "-w", "--stdin", "--literally"))
	}
	tops := map[string]func() string{
		"a hundred commits": func() string {
			top := done.Commit
			for i := range committer.HistoryDepth - 1 {
				top = o.Git(o.Work, "commit-tree", done.Commit+"^{tree}", "-p", top, "-m", fmt.Sprint(i))
			}
			return top
		},
		"the same without its signature": func() string { return put(string(own.Payload)) },
		"one on a commit that only git reads": func() string {
			bad := put("tree " + o.Git(o.Work, "rev-parse", done.Commit+"^{tree}") + "\nparent " + done.Commit + "\nparent none\n")
			return o.Git(o.Work, "commit-tree", done.Commit+"^{tree}", "-p", bad, "-m", "sound")
		},
		"one that says two things": func() string {
			return put(strings.Replace(commit, "parent ", "tree "+strings.Repeat("0", 40)+"\nparent "+done.Commit+"\nparent ", 1))
		},
	}
	for name, top := range tops {
		o.Git(o.Work, "push", "-q", "-f", "origin", top()+":refs/heads/main")
		if err := h.Check(t.Context(), own); err != nil && !errors.Is(err, gitsource.ErrUndecided) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
