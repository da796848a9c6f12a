package upgrader

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/upgrade"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
)

// at are the options of an Upgrader of a hub that may push to an installation repo, with a key to sign by if it has one.
func at(t *testing.T, o *fleetrepo.Origin, signingKey []byte, log slog.Handler) *Options {
	t.Helper()
	logger := slog.New(log)
	c, err := committer.New(committer.Options{
		Repo: o.URL(), Branch: "main", Dir: t.TempDir(), Edits: &committer.Edits{SigningKey: signingKey}, Committed: func() {}, Log: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Options{Committer: c, Hint: func() {}, Log: logger}
}

// signingKey is a new private SSH key.
func signingKey(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(fleetrepo.SigningKey(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Who may suspend services wrote the trailers of the hub's moves into a message, and the hub took back what it had never moved.
func TestMovesOfTheHubAreItsOwnCommitsAlone(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	message := upgrade.Signed("Upgrade package cache to 1.1.0\n\nPlural-Upgrade: cache 1.0.0 -> 1.1.0")
	commit := func(author string) string {
		o.Git(o.Work, "commit", "-q", "--allow-empty", "--author", author, "-m", message)
		o.Git(o.Work, "push", "-q", "origin", "HEAD:main")
		return o.Git(o.Work, "rev-parse", "HEAD")
	}
	commit("ann <ann@example.com>")
	commit("plural hub <ann@example.com>")
	commit("ann <plural hub@plural>")
	own := commit("plural hub <plural hub@plural>")
	h := at(t, o, nil, slog.DiscardHandler)
	y := new(history)
	if err := y.read(t.Context(), h, own); err != nil {
		t.Fatal(err)
	}
	if len(y.past) != 1 || y.past[0].Commit != own {
		t.Errorf("the hub takes for its own: %+v", y.past)
	}
}

func TestTheHubKnowsItsOwnCommitOnABranchWithoutHavingSeenItMade(t *testing.T) {
	key := signingKey(t, "hub")
	own, err := verify.ParseSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := verify.ParseSigner(signingKey(t, "mallory"))
	if err != nil {
		t.Fatal(err)
	}
	move := upgrade.Signed("Upgrade web to 1.1.0\n\n" + pkgupgrade.Trailer + "web 1.0.0 -> 1.1.0")
	for name, tt := range map[string]struct {
		by      string
		message string
		sign    func([]byte) ([]byte, error)
		key     []byte
		want    bool
	}{
		"the hub's":                           {self, move, nil, nil, true},
		"a person's":                          {"ann", move, nil, nil, false},
		"the hub's, which moves nothing":      {self, "Suspend web", nil, nil, false},
		"the hub's by its key":                {self, move, own.Git, key, true},
		"unsigned, where the hub signs":       {self, move, nil, key, false},
		"by another key, where the hub signs": {self, move, foreign.Git, key, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := fleetrepo.New(t)
			o.Push(map[string]string{"a": "1"})
			h := at(t, o, tt.key, slog.DiscardHandler)
			remote := &workspace.Remote{URL: o.URL(), Branch: "main", Dir: t.TempDir(), Sign: tt.sign}
			proposal := workspace.Proposal{By: committer.Author(tt.by), To: "plural/upgrade/web-1.1.0"}
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
	o, said := fleetrepo.New(t), new(bytes.Buffer)
	o.Push(map[string]string{"a": "1"})
	o.Git(o.Work, "push", "-q", "origin", "HEAD:refs/heads/"+name)
	h := at(t, o, nil, slog.NewTextHandler(said, nil))
	h.Interval = time.Hour
	proposes := fleet.InstallationSpec{Upgrade: fleet.Upgrade{Propose: fleet.ProposePullRequest}}
	f, p := &fleet.Fleet{Installations: []fleet.Installation{{Spec: proposes}}}, new(proposals)
	branch := p.of(t.Context(), h, f)
	away := o.Bare + ".away"
	if err := os.Rename(o.Bare, away); err != nil {
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
	if err := os.Rename(away, o.Bare); err != nil {
		t.Fatal(err)
	}
	p.looked = time.Time{}
	if got, there := p.of(t.Context(), h, f)(name); !there || got.Unread {
		t.Errorf("once its server is back: %+v, %v", got, there)
	}
}
