package hubsvc

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// editing is a hub that may commit, with the origin that it commits to.
func editing(t *testing.T, change func(*Options)) (*running, *fleetrepo.Origin, Options) {
	t.Helper()
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	opts := options(t, o)
	opts.Edits = new(committer.Edits)
	if change != nil {
		change(&opts)
	}
	hub := start(t, opts)
	hub.ready()
	return hub, o, opts
}

func (r *running) edit(action, service string, body any) (int, v1.Edited, v1.Error) {
	r.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	code, said := r.do(http.MethodPost, "/v1/services/"+service+"/"+action, r.token, text)
	var done v1.Edited
	var refused v1.Error
	if code == http.StatusOK {
		err = json.Unmarshal(said, &done)
	} else {
		err = json.Unmarshal(said, &refused)
	}
	if err != nil {
		r.t.Fatalf("%s %s: %d %s", action, service, code, said)
	}
	return code, done, refused
}

func TestAnEditIsACommitOfWhoeverAskedForIt(t *testing.T) {
	hub, o, opts := editing(t, nil)
	litter := filepath.Join(opts.Data, "edits", "commit-123", "objects") // of a hub that was killed in the middle
	if err := os.MkdirAll(litter, 0o700); err != nil {
		t.Fatal(err)
	}
	code, done, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusOK || done.Commit == "" {
		t.Fatalf("%d %+v", code, refused)
	}
	if got := o.Git(o.Bare, "log", "-1", "--format=%H %an %cn %s", "main"); got != done.Commit+" operator plural Suspend web" {
		t.Errorf("log: %s", got)
	}
	if left, err := os.ReadDir(filepath.Join(opts.Data, "edits")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	fleetrepo.Until(t, "the commit is served", func() bool { return hub.status().Commit.ID == done.Commit })
	if code, again, refused := hub.edit("suspend", "web", v1.EditRequest{}); code != http.StatusOK || again.Commit != "" {
		t.Errorf("a second time: %d %+v %+v", code, again, refused)
	}
}

func TestEditsAtTheSameTimeAllArrive(t *testing.T) {
	hub, o, _ := editing(t, nil)
	var all sync.WaitGroup
	for _, service := range []string{"web", "api", "web", "api"} {
		all.Go(func() {
			if code, _, refused := hub.edit("suspend", service, v1.EditRequest{}); code != http.StatusOK {
				t.Errorf("%s: %d %+v", service, code, refused)
			}
		})
	}
	all.Wait()
	if got := o.Git(o.Bare, "log", "--format=%s", "main"); strings.Count(got, "Suspend web") != 1 || strings.Count(got, "Suspend api") != 1 {
		t.Errorf("log:\n%s", got)
	}
}

// A commit's message is read by people on terminals, and by programs that take its lines for orders.
func TestTheMessageOfAnEditIsPlainText(t *testing.T) {
	hub, o, _ := editing(t, nil)
	before := o.Git(o.Bare, "rev-parse", "main")
	for name, message := range map[string]string{
		"escape": "Suspend \x1b[2J web", "NUL": "Suspend\x00web", "carriage return": "Suspend web\rResume web", "too long": strings.Repeat("a", 5000),
		"nothing seen": " \n\t ", "right to left": "Suspend \u202e web", "C1": "Suspend \u009b web",
		"the hub's trailers": "Suspend web\n\nPlural-Upgrade: cache 0.9.0 -> 1.0.0\nPlural-By: hub", "a trailer alone": "plural-by : hub",
		"somebody else's word": "Suspend web\n\nSigned-off-by: ada", "somebody else's work": "Suspend web\n\n  co-authored-by: ada",
	} {
		if code, done, refused := hub.edit("suspend", "web", v1.EditRequest{Message: message}); code != http.StatusBadRequest || refused.Fix == "" {
			t.Errorf("%s: %d %+v %+v", name, code, done, refused)
		}
	}
	if got := o.Git(o.Bare, "rev-parse", "main"); got != before {
		t.Error("something was committed")
	}
	if code, _, refused := hub.edit("suspend", "web", v1.EditRequest{Message: "Hält an: Wartung\n\nBis Montag.\tSiehe #12."}); code != http.StatusOK {
		t.Errorf("plain text: %d %+v", code, refused)
	}
}

// Whoever may edit is told that the repository did not take it, and not where it lies or what the hub's disk looks like.
func TestWhyACommitWasNotMadeIsForTheLog(t *testing.T) {
	hub, o, opts := editing(t, nil)
	gone := o.Bare + ".gone"
	if err := os.Rename(o.Bare, gone); err != nil {
		t.Fatal(err)
	}
	code, _, refused := hub.edit("suspend", "web", v1.EditRequest{})
	if code != http.StatusBadGateway || strings.Contains(refused.Message, o.Bare) || strings.Contains(refused.Message, opts.Data) {
		t.Errorf("%d %+v", code, refused)
	}
	if err := os.Rename(gone, o.Bare); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(o.Bare, "hooks", "pre-receive")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, refused := hub.edit("suspend", "web", v1.EditRequest{}); code != http.StatusBadGateway || !strings.Contains(refused.Message, "push to branch") {
		t.Errorf("what a person can do something about: %d %+v", code, refused)
	}
}
