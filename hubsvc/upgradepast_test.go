package hubsvc

import (
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/pluralsh/plural/hubsvc/upgrade"
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
