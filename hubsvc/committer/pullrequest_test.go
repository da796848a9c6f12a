package committer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyRepositoriesOnGitHubHavePullRequestsThere(t *testing.T) {
	for repo, want := range map[string]string{
		"https://github.com/acme/fleet.git": "acme/fleet", "git@github.com:acme/fleet.git": "acme/fleet", "https://x:y@GitHub.com/acme/fleet/": "acme/fleet",
		"https://gitlab.com/acme/fleet.git": "", "https://github.com/acme": "", "https://github.com/a/b/c": "", "file:///srv/fleet.git": "", "https://github.com.evil.example/a/b": "",
	} {
		got := ""
		if g, err := githubOf(repo); err == nil {
			got = g.owner + "/" + g.name
		}
		if got != want {
			t.Errorf("%s: %q", repo, got)
		}
	}
}

func TestAPullRequestIsOpenedWithTheTokenAndNothingOfItLeaks(t *testing.T) {
	const token = "ghp_secret"
	var asked pull
	status, answer := http.StatusCreated, `{"html_url":"https://github.com/acme/fleet/pull/7"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/repos/acme/fleet/pulls" || r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	g := &github{server.URL, "acme", "fleet"}
	want := pull{Title: "Upgrade web to 1.1.0", Head: "plural/upgrade/web-1.1.0", Base: "main", Body: "why"}
	address, err := g.open(t.Context(), token, want)
	if diff := cmp.Diff(want, asked); err != nil || address != "https://github.com/acme/fleet/pull/7" || diff != "" {
		t.Errorf("%s, %v\n%s", address, err, diff)
	}
	for code, said := range map[int]string{http.StatusForbidden: `{"message":"Resource not accessible"}`, http.StatusCreated: "<html>", http.StatusBadGateway: ""} {
		status, answer = code, said
		if _, err := g.open(t.Context(), token, want); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%d: %v", code, err)
		}
	}
}
