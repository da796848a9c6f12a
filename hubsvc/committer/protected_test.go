package committer

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// protectedRepo is an installation repo whose branch takes no pushes, at a host with pull requests, and the committer of a hub there.
func protectedRepo(t *testing.T, host http.HandlerFunc) (*fleetrepo.Origin, *Committer) {
	t.Helper()
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	hook := filepath.Join(o.Bare, "hooks", "update")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n[ $1 != refs/heads/main ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(host)
	t.Cleanup(server.Close)
	c, err := New(Options{
		Repo: o.URL(), Branch: "main", Dir: t.TempDir(), Edits: &Edits{Credentials: httpclient.Credentials{Bearer: "ghp_secret"}},
		Committed: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.host = &github{server.URL, "acme", "fleet"}
	return o, c
}

func TestAnEditOfAProtectedBranchBecomesAPullRequest(t *testing.T) {
	var asked pull
	o, c := protectedRepo(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer ghp_secret" {
			t.Errorf("%v", r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"html_url": "https://github.com/acme/fleet/pull/7"}`))
	})
	before, value := o.Git(o.Bare, "rev-parse", "main"), "b"
	e := api.Edit{Action: api.ActionSet, Name: "web", Set: &v1.SetRequest{Parameters: map[string]*string{"a": &value}}}
	e.DryRun = true
	shown, err := c.Change(t.Context(), principal.Person{Name: "ada"}, e)
	if err != nil || shown.Branch != "" || asked.Head != "" {
		t.Fatalf("%+v, %v", shown, err)
	}
	e.DryRun, e.Base = false, shown.Base
	done, err := c.Change(t.Context(), principal.Person{Name: "ada"}, e)
	if err != nil {
		t.Fatal(err)
	}
	want := pull{Title: "Set a=b of web", Head: done.Branch, Base: "main", Body: "Asked for by ada, by way of the hub."}
	if diff := cmp.Diff(want, asked); diff != "" || done.URL != "https://github.com/acme/fleet/pull/7" ||
		!strings.HasPrefix(done.Branch, "plural/edit/set-web-") {
		t.Errorf("%+v\n%s", done, diff)
	}
	if got := o.Git(o.Bare, "log", "-1", "--format=%H %P %an", done.Branch); got != done.Commit+" "+before+" ada" {
		t.Errorf("the branch: %s", got)
	}
	if o.Git(o.Bare, "rev-parse", "main") != before {
		t.Error("the branch that is protected moved")
	}
}

func TestABranchWithoutAPullRequestIsSaidToWait(t *testing.T) {
	o, c := protectedRepo(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	done, err := c.Change(t.Context(), principal.Person{Name: "ada"}, api.Edit{Action: api.ActionSuspend, Name: "web"})
	if err != nil || done.URL != "" || done.Branch == "" || len(done.Warnings) != 1 || strings.Contains(done.Warnings[0], "ghp_secret") {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := o.Git(o.Bare, "rev-parse", done.Branch); got != done.Commit {
		t.Errorf("the branch is at %s", got)
	}
}
