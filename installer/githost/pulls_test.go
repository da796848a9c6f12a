package githost

import (
	"net/http"
	"strings"
	"testing"
)

func TestARepositoryIsKnownByItsAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/acme/fleet.git": "github.com/acme/fleet", "https://github.com/acme/fleet": "github.com/acme/fleet",
		"git@github.com:acme/fleet.git": "github.com/acme/fleet", "ssh://git@github.com/acme/fleet.git": "github.com/acme/fleet",
		"https://x:y@GitHub.com/acme/fleet/": "github.com/acme/fleet", "git@acme.ghe.com:acme/fleet.git": "acme.ghe.com/acme/fleet",
		"https://gitlab.com/acme/fleet.git": "", "https://github.com/acme": "", "https://github.com/acme/fleet/more": "", "/srv/fleet.git": "",
		"https://github.com.example.com/acme/fleet": "", "": "", "../origin.git": "", "https://notghe.com/a/b": "",
	} {
		got, ok := Of(address)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: %v, %v", address, got, ok)
		}
	}
}

func TestAPullRequestIsOpened(t *testing.T) {
	g := newGitHub(t, "github.com")
	g.instead = func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/repos/acme/fleet/pulls" {
			answer(w, 404, message("Not Found"))
			return
		}
		answer(w, 201, map[string]any{"html_url": "https://github.com/acme/fleet/pull/7", "number": 7})
	}
	address, err := g.client("acme", "fleet").Open(t.Context(), Pull{Title: "A change", Branch: "plural/a-change-1234567", Base: "main"})
	if err != nil || address != "https://github.com/acme/fleet/pull/7" {
		t.Errorf("%s, %v", address, err)
	}
	g.instead = func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 422, invalid("PullRequest", "head", "No commits between main and plural/x"))
	}
	if _, err = g.client("acme", "fleet").Open(t.Context(), Pull{}); err == nil || !strings.Contains(err.Error(), "No commits between") {
		t.Errorf("%v", err)
	}
	page := Repository{"github.com", "acme", "fleet"}.Compare(Pull{Branch: "plural/a-b", Base: "main"})
	if page != "https://github.com/acme/fleet/compare/main...plural/a-b?expand=1" {
		t.Error(page)
	}
}
