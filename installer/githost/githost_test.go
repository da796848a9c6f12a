package githost

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/test/support/needs"
)

const token = "gho_16C7e42F292c6912E7710c838347Ae178B4a"

// gitHub answers as GitHub's REST API does (version 2022-11-28), for the user ada and the organization acme.
type gitHub struct {
	t      *testing.T
	host   string
	server *httptest.Server

	mu     sync.Mutex // guards all below
	repos  map[string]map[string]any
	keys   []map[string]any
	hooks  []map[string]any
	writes []string
	// instead answers in the place of all else, when it is set.
	instead http.HandlerFunc
	strays  []string // requests to other hosts, and whether they showed the token
}

func newGitHub(t *testing.T, host string) *gitHub {
	t.Helper()
	t.Setenv("GH_CONFIG_DIR", t.TempDir())
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_HOST"} {
		t.Setenv(name, "")
	}
	g := &gitHub{t: t, host: host, repos: map[string]map[string]any{}}
	g.server = httptest.NewServer(g)
	t.Cleanup(g.server.Close)
	return g
}

// RoundTrip carries a request for any host to the server.
func (g *gitHub) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != g.api() || r.URL.Scheme != "https" {
		g.mu.Lock()
		g.strays = append(g.strays, fmt.Sprintf("%s token=%v", r.URL, strings.Contains(r.Header.Get("Authorization"), token)))
		g.mu.Unlock()
	}
	to, err := url.Parse(g.server.URL)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	return http.DefaultTransport.RoundTrip(r)
}

func (g *gitHub) api() string {
	if g.host == "github.com" {
		return "api.github.com"
	}
	return g.host
}

func (g *gitHub) client(owner, name string) *Client {
	g.t.Helper()
	c, err := Connect(Repository{g.host, owner, name}, Options{Transport: g, Token: func(host string) string {
		if host != g.host {
			g.t.Errorf("a token for %s was asked for", host)
		}
		return token
	}})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func message(text string) map[string]any {
	return map[string]any{"message": text, "documentation_url": "https://docs.github.com/rest"}
}

func invalid(resource, field, text string) map[string]any {
	return map[string]any{
		"message": "Validation Failed",
		"errors":  []any{map[string]any{"resource": resource, "code": "custom", "field": field, "message": text}},
	}
}

func (g *gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.instead != nil {
		g.instead(w, r)
		return
	}
	if r.Header.Get("Authorization") != "token "+token {
		answer(w, 401, message("Bad credentials"))
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v3")
	if (path == r.URL.Path) != (g.host == "github.com") {
		answer(w, 404, message("Not Found"))
		return
	}
	var body map[string]any
	if r.Method != http.MethodGet {
		g.writes = append(g.writes, r.Method+" "+path)
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			answer(w, 400, message("Problems parsing JSON"))
			return
		}
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/user":
		answer(w, 200, map[string]any{"login": "ada", "id": 1})
	case path == "/meta":
		answer(w, 200, map[string]any{"ssh_keys": []string{hostKey}, "verifiable_password_authentication": false})
	case path == "/user/repos" || path == "/orgs/acme/repos":
		owner := map[string]string{"user": "ada", "orgs": "acme"}[parts[0]]
		full := owner + "/" + body["name"].(string)
		if g.repos[full] != nil {
			answer(w, 422, invalid("Repository", "name", "name already exists on this account"))
			return
		}
		g.repos[full] = map[string]any{
			"full_name": full, "private": body["private"], "description": body["description"],
			"permissions": map[string]any{"admin": true},
		}
		answer(w, 201, g.repos[full])
	case len(parts) == 3 && parts[0] == "repos" && g.repos[parts[1]+"/"+parts[2]] != nil:
		answer(w, 200, g.repos[parts[1]+"/"+parts[2]])
	case len(parts) >= 4 && g.repos[parts[1]+"/"+parts[2]] != nil && parts[3] == "keys":
		g.collection(w, r, &g.keys, body, func() map[string]any {
			for _, k := range g.keys {
				if k["key"] == body["key"] {
					return invalid("PublicKey", "key", "key is already in use")
				}
			}
			return nil
		})
	case len(parts) >= 4 && g.repos[parts[1]+"/"+parts[2]] != nil && parts[3] == "hooks":
		g.collection(w, r, &g.hooks, body, func() map[string]any { return nil })
	default:
		answer(w, 404, message("Not Found"))
	}
}

// collection lists pages, adds, changes.
func (g *gitHub) collection(w http.ResponseWriter, r *http.Request, items *[]map[string]any, body map[string]any, refuse func() map[string]any) {
	switch r.Method {
	case http.MethodGet:
		var size, page int
		_, _ = fmt.Sscan(r.URL.Query().Get("per_page"), &size)
		_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
		from, to := min((page-1)*size, len(*items)), min(page*size, len(*items))
		shown := append([]map[string]any{}, (*items)[from:to]...)
		answer(w, 200, shown)
	case http.MethodPost:
		if no := refuse(); no != nil {
			answer(w, 422, no)
			return
		}
		body["id"] = len(*items) + 1
		*items = append(*items, body)
		answer(w, 201, body)
	case http.MethodPatch:
		var id int
		_, _ = fmt.Sscan(filepath.Base(r.URL.Path), &id)
		body["id"] = id
		(*items)[id-1] = body
		answer(w, 200, body)
	}
}

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestARepositoryIsMadeOnceForAPersonAndForAnOrganization(t *testing.T) {
	for owner, path := range map[string]string{"ada": "POST /user/repos", "Ada": "POST /user/repos", "acme": "POST /orgs/acme/repos"} {
		for _, host := range []string{"github.com", "git.acme.test"} {
			g := newGitHub(t, host)
			c := g.client(owner, "fleet")
			created, err := c.Create(t.Context(), New{Description: "the fleet"})
			if err != nil || !created {
				t.Fatalf("%v, %v", created, err)
			}
			if owner == "Ada" {
				continue // GitHub itself knows names in any case
			}
			if r := g.repos[owner+"/fleet"]; r["private"] != true || r["description"] != "the fleet" {
				t.Errorf("it is %v", r)
			}
			created, err = c.Create(t.Context(), New{})
			if err != nil || created {
				t.Errorf("once more: %v, %v", created, err)
			}
			if diff := cmp.Diff([]string{path}, g.writes); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestARepositoryThatIsOfNoUseIsSaidToBe(t *testing.T) {
	for want, repo := range map[string]map[string]any{
		"does not administer it": {"permissions": map[string]any{"admin": false, "push": true}},
		"it is archived":         {"archived": true, "permissions": map[string]any{"admin": true}},
	} {
		g := newGitHub(t, "github.com")
		g.repos["acme/fleet"] = repo
		_, err := g.client("acme", "fleet").Create(t.Context(), New{})
		var fault *Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) || fault.Fix() == "" || len(g.writes) > 0 {
			t.Errorf("%v, %v", err, g.writes)
		}
	}
}

func TestADeployKeyIsAddedOnceAndReadsOnly(t *testing.T) {
	g := newGitHub(t, "github.com")
	c := g.client("ada", "fleet")
	_, err := c.Create(t.Context(), New{})
	must(t, err)
	for range 150 { // the key is on the second page later
		other, err := NewKey("")
		must(t, err)
		g.keys = append(g.keys, map[string]any{"key": other.Public, "title": "other", "read_only": true})
	}
	key, err := NewKey("plural hub")
	must(t, err)
	signer, err := ssh.ParsePrivateKey(key.Private)
	must(t, err)
	if signer.PublicKey().Type() != "ssh-ed25519" {
		t.Errorf("the key is %s", signer.PublicKey().Type())
	}
	for _, shown := range []string{fmt.Sprint(*key), fmt.Sprintf("%+v", *key), fmt.Sprintf("%#v", *key)} {
		if strings.Contains(shown, "PRIVATE") || strings.Contains(shown, fmt.Sprint(key.Private[:20])) {
			t.Errorf("the private half is shown: %s", shown)
		}
	}
	g.writes = nil
	added, err := c.DeployKey(t.Context(), "plural hub", key.Public+" comment")
	if err != nil || !added {
		t.Fatalf("%v, %v", added, err)
	}
	if diff := cmp.Diff(map[string]any{"id": 151, "key": key.Public, "title": "plural hub", "read_only": true}, g.keys[150]); diff != "" {
		t.Error(diff)
	}
	added, err = c.DeployKey(t.Context(), "plural hub", key.Public)
	if err != nil || added || len(g.writes) != 1 {
		t.Errorf("once more: %v, %v, %v", added, err, g.writes)
	}
	g.keys[150]["read_only"] = false
	if _, err := c.DeployKey(t.Context(), "plural hub", key.Public); err == nil || !strings.Contains(err.Error(), "may write") {
		t.Errorf("a key that may write: %v", err)
	}
	if _, err := c.DeployKey(t.Context(), "plural hub", string(key.Private)); err == nil || strings.Contains(err.Error(), "PRIVATE") {
		t.Errorf("a private key in the place of a public one: %v", err)
	}
}

func TestAKeyThatAnotherRepositoryHasIsSaidToBeInUse(t *testing.T) {
	g := newGitHub(t, "github.com")
	c := g.client("ada", "fleet")
	key, err := NewKey("")
	must(t, err)
	g.instead = func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			answer(w, 200, []any{})
			return
		}
		answer(w, 422, invalid("PublicKey", "key", "key is already in use"))
	}
	_, err = c.DeployKey(t.Context(), "x", key.Public)
	var fault *Error
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "in use elsewhere") || fault.Fix() != "make another key" {
		t.Errorf("%v", err)
	}
}

func TestAWebhookIsFoundAgainAndMendedWhereItIsNotAsItShouldBe(t *testing.T) {
	g := newGitHub(t, "git.acme.test")
	c := g.client("ada", "fleet")
	_, err := c.Create(t.Context(), New{})
	must(t, err)
	g.hooks = []map[string]any{{
		"id": 1, "name": "web", "active": true, "events": []string{"push"},
		"config": map[string]any{"url": "https://ci.example.com"},
	}}
	h := Hook{URL: "https://hub.example.com/hooks/repo", Secret: "s3cret-s3cret"}
	step := func(name string, want bool, writes ...string) {
		t.Helper()
		g.writes = nil
		changed, err := c.Webhook(t.Context(), h)
		if err != nil || changed != want {
			t.Errorf("%s: %v, %v", name, changed, err)
		}
		if diff := cmp.Diff(writes, g.writes); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	step("new", true, "POST /repos/ada/fleet/hooks")
	config, _ := g.hooks[1]["config"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"url": h.URL, "content_type": "json", "secret": h.Secret, "insecure_ssl": "0"}, config); diff != "" {
		t.Error(diff)
	}
	step("again", false)
	g.hooks[1]["active"] = false
	step("switched off", true, "PATCH /repos/ada/fleet/hooks/2")
	step("mended", false)
	h.Renew = true
	step("another secret", true, "PATCH /repos/ada/fleet/hooks/2")
	if _, err := c.Webhook(t.Context(), Hook{URL: h.URL}); err == nil {
		t.Error("a webhook without a secret was made")
	}
}

func TestTheHostsKeysComeInTheFormOfKnownHosts(t *testing.T) {
	g := newGitHub(t, "github.com")
	known, err := g.client("ada", "fleet").KnownHosts(t.Context())
	if err != nil || string(known) != "github.com "+hostKey+"\n" {
		t.Errorf("%q, %v", known, err)
	}
}

func TestEachRefusalIsToldWithItsCauseAndFix(t *testing.T) {
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for name, tc := range map[string]struct {
		status     int
		text       string
		header     http.Header
		cause, fix string
	}{
		"revoked token": {401, "Bad credentials", nil, "Bad credentials", "gh auth login --hostname github.com, or set GH_TOKEN"},
		"missing scope": {
			403, "Must have admin rights to Repository.", header("X-Oauth-Scopes", "gist, read:org", "X-Accepted-Oauth-Scopes",
				"repo, admin:repo_hook"),
			`has the scopes "gist, read:org"`, "gh auth refresh --hostname github.com --scopes repo,admin:repo_hook",
		},
		"hidden by a missing scope": {
			404, "Not Found", header("X-Oauth-Scopes", "public_repo", "X-Accepted-Oauth-Scopes", "repo"),
			"public_repo", "gh auth refresh",
		},
		"fine-grained token": {
			403, "Resource not accessible by personal access token", header("X-Accepted-Github-Permissions", "administration=write"),
			"lacks a permission", "administration=write",
		},
		"single sign-on": {
			403, "Resource protected by organization SAML enforcement.", header("X-Github-Sso",
				"required; url=https://github.com/orgs/acme/sso?authorization_request=A"),
			"single sign-on", "https://github.com/orgs/acme/sso?authorization_request=A",
		},
		"single sign-on elsewhere": {
			403, "x", header("X-Github-Sso", "required; url=https://evil.test/sso"), "single sign-on",
			"authorize the token for the organization",
		},
		"rate limit": {
			403, "API rate limit exceeded",
			header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1767323045"), "rate limit", "2026-01-02T03:04:05Z",
		},
		"proxy":     {407, "Proxy Authentication Required", nil, "407", "HTTPS_PROXY"},
		"not yours": {404, "Not Found", nil, "Not Found", "role Admin"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGitHub(t, "github.com")
			g.instead = func(w http.ResponseWriter, _ *http.Request) {
				for key, values := range tc.header {
					w.Header()[key] = values
				}
				answer(w, tc.status, message(tc.text))
			}
			_, err := g.client("acme", "fleet").Webhook(t.Context(), Hook{URL: "https://hub", Secret: "s3cret-s3cret"})
			var fault *Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), tc.cause) || !strings.Contains(fault.Fix(), tc.fix) {
				t.Fatalf("%v; fix: %s", err, fault.Fix())
			}
			if text := err.Error() + fault.Fix(); strings.Contains(text, token) || strings.Contains(text, "s3cret") || strings.Contains(text, "evil.test") {
				t.Errorf("it tells too much: %s", text)
			}
		})
	}
}

func TestWithoutATokenThePersonIsToldHowToGetOne(t *testing.T) {
	newGitHub(t, "github.com")
	t.Setenv("PATH", t.TempDir()) // no gh
	for host, variable := range map[string]string{"github.com": "GH_TOKEN", "acme.ghe.com": "GH_TOKEN", "git.acme.test": "GH_ENTERPRISE_TOKEN"} {
		_, err := Connect(Repository{host, "acme", "fleet"}, Options{})
		var fault *Error
		if !errors.As(err, &fault) || fault.Fix() != "gh auth login --hostname "+host+", or set "+variable {
			t.Errorf("%s: %v", host, err)
		}
		t.Setenv(variable, token)
		if _, err := Connect(Repository{host, "acme", "fleet"}, Options{}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		t.Setenv(variable, "")
	}
	t.Setenv("GH_TOKEN", token)
	if _, err := Connect(Repository{"git.acme.test", "acme", "fleet"}, Options{}); err == nil {
		t.Error("the token of github.com is taken for another host")
	}
}

func TestTheTokenOfOneHostIsNeverShownToAnother(t *testing.T) {
	for _, to := range []string{"https://evil.test/repos/acme/fleet", "http://api.github.com/repos/acme/fleet", "https://api.github.com/repositories/1"} {
		g := newGitHub(t, "github.com")
		g.instead = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusMovedPermanently) }
		_, err := g.client("acme", "fleet").Create(t.Context(), New{})
		if err == nil || !strings.Contains(err.Error(), "another name") || len(g.strays) > 0 {
			t.Errorf("to %s: %v, %v", to, err, g.strays)
		}
	}
}

func TestAHostThatIsAwayIsSaidToBe(t *testing.T) {
	g := newGitHub(t, "github.com")
	c := g.client("acme", "fleet")
	g.server.Close()
	_, err := c.Create(t.Context(), New{})
	var fault *Error
	if !errors.As(err, &fault) || !strings.Contains(fault.Fix(), "HTTPS_PROXY") || strings.Contains(err.Error(), token) {
		t.Errorf("%v", err)
	}
}

// The key that is made here is one that OpenSSH itself takes.
func TestOpenSSHTakesTheKey(t *testing.T) {
	keygen := needs.Program(t, "ssh-keygen", "openssh-client")
	key, err := NewKey("plural hub of acme")
	must(t, err)
	file := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(file, key.Private, 0o600))
	out, err := exec.CommandContext(t.Context(), keygen, "-y", "-f", file).Output()
	if err != nil || strings.TrimSpace(string(out)) != key.Public+" plural hub of acme" {
		t.Errorf("%q, %v", out, err)
	}
}
