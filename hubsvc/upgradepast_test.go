package hubsvc

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pluralsh/plural/crypto/signed"
	"github.com/pluralsh/plural/hubsvc/upgrade"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/renew"
)

// Who may suspend services wrote the trailers of the hub's moves into a message, and the hub took back what it had never moved.
func TestMovesOfTheHubAreItsOwnCommitsAlone(t *testing.T) {
	o := newOrigin(t)
	o.push(twoServices(nil))
	message := upgrade.Signed("Upgrade package cache to 1.1.0\n\nPlural-Upgrade: cache 1.0.0 -> 1.1.0")
	commit := func(author string) string {
		o.git(o.work, "commit", "-q", "--allow-empty", "--author", author, "-m", message)
		o.git(o.work, "push", "-q", "origin", "HEAD:main")
		return o.git(o.work, "rev-parse", "HEAD")
	}
	commit("ann <ann@example.com>")
	commit("plural hub <ann@example.com>")
	commit("ann <plural hub@plural>")
	own := commit("plural hub <plural hub@plural>")
	h := &hub{Options: Options{Data: t.TempDir(), Repo: o.url(), Branch: "main", Edits: new(EditOptions)}}
	h.reaching.editing = semaphore.NewWeighted(1)
	y := new(history)
	if err := y.read(t.Context(), h, own); err != nil {
		t.Fatal(err)
	}
	if len(y.past) != 1 || y.past[0].Commit != own {
		t.Errorf("the hub takes for its own: %+v", y.past)
	}
}

func TestTheHubKnowsItsOwnCommitOnABranchWithoutHavingSeenItMade(t *testing.T) {
	own, err := signed.ParseSigner(readFile(t, signingKey(t, "hub")))
	if err != nil {
		t.Fatal(err)
	}
	ownKeys, err := signed.ParseKeys(own.Public())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := signed.ParseSigner(readFile(t, signingKey(t, "mallory")))
	if err != nil {
		t.Fatal(err)
	}
	move := upgrade.Signed("Upgrade web to 1.1.0\n\n" + renew.Trailer + "web 1.0.0 -> 1.1.0")
	withKey := &signatures{own: own, ownKeys: ownKeys}
	for name, tt := range map[string]struct {
		by         string
		message    string
		sign       func([]byte) ([]byte, error)
		signatures *signatures
		want       bool
	}{
		"the hub's":                           {self, move, nil, nil, true},
		"a person's":                          {"ann", move, nil, nil, false},
		"the hub's, which moves nothing":      {self, "Suspend web", nil, nil, false},
		"the hub's by its key":                {self, move, own.Git, withKey, true},
		"unsigned, where the hub signs":       {self, move, nil, withKey, false},
		"by another key, where the hub signs": {self, move, foreign.Git, withKey, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			o.push(map[string]string{"a": "1"})
			h := &hub{Options: Options{
				Repo: o.url(), Branch: "main", Data: t.TempDir(), Edits: new(EditOptions),
				Log: slog.New(slog.DiscardHandler),
			}, signatures: tt.signatures}
			h.reaching.editing = semaphore.NewWeighted(1)
			remote := &workspace.Remote{URL: o.url(), Branch: "main", Dir: t.TempDir(), Sign: tt.sign}
			proposal := workspace.Proposal{By: author(tt.by), To: "plural/upgrade/web-1.1.0"}
			tip, err := remote.Propose(t.Context(), proposal, func(*workspace.Tip) (*workspace.Plan, error) {
				return &workspace.Plan{Files: map[string][]byte{"a": []byte("2")}, Message: tt.message}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := h.wrote(t.Context(), proposal.To, tip); err != nil || got != tt.want {
				t.Errorf("wrote: %v, %v", got, err)
			}
			listed := &proposals{
				tips: map[string]string{proposal.To: strings.Repeat("0", 40)}, own: map[string]bool{}, unread: map[string]bool{},
			}
			branch := listed.of(t.Context(), h, new(fleet.Fleet))
			if got, there := branch(proposal.To); !there || !got.Unread {
				t.Errorf("a branch that has left the tip that was listed: %+v, %v", got, there)
			}
			listed.tips[proposal.To] = tip
			if got, there := branch(proposal.To); !there || got != (upgrade.Branch{Own: tt.want}) {
				t.Errorf("it is read again: %+v, %v", got, there)
			}
		})
	}
}

// Each try is a clone, and decisions are made whenever a cluster says something.
func TestABranchThatCannotBeReadIsTriedAgainWithTheNextList(t *testing.T) {
	const name = "plural/upgrade/web-1.1.0"
	o, said := newOrigin(t), new(logs)
	o.push(map[string]string{"a": "1"})
	o.git(o.work, "push", "-q", "origin", "HEAD:refs/heads/"+name)
	h := &hub{Options: Options{
		Repo: o.url(), Branch: "main", Data: t.TempDir(), Edits: new(EditOptions), Interval: time.Hour,
		Log: slog.New(slog.NewTextHandler(said, nil)),
	}}
	h.reaching.editing = semaphore.NewWeighted(1)
	proposes := fleet.InstallationSpec{Upgrade: fleet.Upgrade{Propose: fleet.ProposePullRequest}}
	f, p := &fleet.Fleet{Installations: []fleet.Installation{{Spec: proposes}}}, new(proposals)
	branch := p.of(t.Context(), h, f)
	away := o.bare + ".away"
	if err := os.Rename(o.bare, away); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, there := branch(name); !there || !got.Unread {
			t.Fatalf("while its server is away: %+v, %v", got, there)
		}
	}
	if got := strings.Count(said.String(), "cannot be read"); got != 1 {
		t.Errorf("it is tried %d times: %s", got, said)
	}
	if err := os.Rename(away, o.bare); err != nil {
		t.Fatal(err)
	}
	p.looked = time.Time{}
	if got, there := p.of(t.Context(), h, f)(name); !there || got.Unread {
		t.Errorf("once its server is back: %+v, %v", got, there)
	}
}
