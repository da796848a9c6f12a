package committer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/gitsource"
)

// A hub that believes signed commits alone would refuse its own, and with it all that comes after, until somebody signs.
func TestAHubThatWantsSignaturesDoesNotCommit(t *testing.T) {
	h := &Committer{Options: Options{Edits: new(Edits), Keys: [][]byte{[]byte("a key")}}}
	if err := h.Refusal("in a clone"); err == nil || !strings.Contains(err.Error(), "sign") {
		t.Errorf("got %v", err)
	}
	h.Keys = nil
	if err := h.Refusal("in a clone"); err != nil {
		t.Error(err)
	}
	h.Edits = nil
	if err := h.Refusal("in a clone"); err == nil || !strings.Contains(err.Error(), "only reads") {
		t.Errorf("got %v", err)
	}
}

// The hub reads with one credential and writes with another: what stands in the repository's URL is not for writing.
func TestACredentialInTheURLIsNotWrittenWith(t *testing.T) {
	for repo, want := range map[string]string{
		"https://reader:hunter2@example.org/fleet.git": "https://example.org/fleet.git", "https://hunter2@example.org/fleet.git": "https://example.org/fleet.git",
		"https://example.org/fleet.git": "https://example.org/fleet.git", "ssh://git@example.org/fleet.git": "ssh://git@example.org/fleet.git",
		"file:///srv/fleet.git": "file:///srv/fleet.git",
	} {
		h := &Committer{Options: Options{
			Repo: repo, Branch: "main", Dir: "dir", Edits: &Edits{Credentials: httpclient.Credentials{Bearer: "writer"}},
		}}
		if got := h.remote(); got.URL != want || got.Credentials.Bearer != "writer" || got.Branch != "main" || got.Dir != "dir" {
			t.Errorf("%s: written to %s", httpclient.Redact(repo), got.URL)
		}
	}
}

// Only what is known of a tip is told as a verdict on it.
func TestWhatCouldNotBeJudgedIsNoVerdict(t *testing.T) {
	if err := unbelieved(fmt.Errorf("%w: timeout", gitsource.ErrUndecided)); strings.Contains(err.Error(), "signed by nobody") {
		t.Errorf("what could not be judged: %v", err)
	}
}

// What is looked at has an end, and what was not judged by then is no verdict: it would be remembered.
func TestALookWhoseTimeIsUpIsNoVerdict(t *testing.T) {
	o := fleetrepo.New(t)
	ann, key := fleetrepo.SigningKey(t, "ann"), fleetrepo.SigningKey(t, "hub")
	o.SignBy(ann)
	o.Push(fleetrepo.TwoServices(nil))
	o.SignBy(key)
	suspended := strings.Replace(fleetrepo.Service("web", fleetrepo.Path("apps/web")), "spec:", "spec:\n  suspend: true", 1)
	o.Push(map[string]string{"services/web.yaml": suspended})
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	c, err := New(Options{
		Repo: o.URL(), Branch: "main", Dir: t.TempDir(), Edits: &Edits{SigningKey: read(key)}, Keys: [][]byte{read(ann + ".pub")},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Look(t.Context(), HistoryDepth, func(ctx context.Context, tip *workspace.Tip) error {
		ended, end := context.WithCancel(ctx)
		end()
		return c.signatures.covered(ended, tip, o.Git(o.Work, "rev-parse", "HEAD^"), tip.ID)
	})
	if !errors.Is(err, gitsource.ErrUndecided) {
		t.Errorf("when the time of the look is up: %v", err)
	}
}
