package cryptocmd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const (
	keyEd25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPE5xudT3zp66ToDdkr0M2sh+MH2TSCn+YA4ASXNpkHF"
	keyECDSA   = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBL5k"
)

// redirect sends every request to a server, whatever host it is for, and keeps what was asked for.
type redirect struct {
	to    string
	asked []*http.Request
}

func (r *redirect) RoundTrip(req *http.Request) (*http.Response, error) {
	r.asked = append(r.asked, req)
	to, err := url.Parse(r.to)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = to.Scheme, to.Host
	return http.DefaultTransport.RoundTrip(req)
}

// fakeGitHub answers with body, and status when that is not 0. No environment of gh is left.
func fakeGitHub(t *testing.T, status int, body string) (github, *redirect) {
	t.Helper()
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_HOST"} {
		t.Setenv(name, "")
	}
	t.Setenv("GH_CONFIG_DIR", t.TempDir())
	t.Setenv("PATH", t.TempDir()) // gh itself would be asked for a token
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if status != 0 {
			w.Header().Set("Location", "https://api.github.com/users/somebody-else/keys")
			w.WriteHeader(status)
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	transport := &redirect{to: server.URL}
	return github{transport}, transport
}

func TestGitHubKeysAreThoseThatCanBeSealedFor(t *testing.T) {
	g, transport := fakeGitHub(t, 0, `[{"id":1,"key":"`+keyECDSA+`"},{"id":2,"key":"`+keyEd25519+`"}]`)
	list, err := g.keys(context.Background(), "octocat")
	if err != nil || len(list) != 1 || list[0] != keyEd25519 {
		t.Fatalf("got %q, %v", list, err)
	}
	asked := transport.asked[0]
	if got := asked.URL.String(); got != "https://api.github.com/users/octocat/keys?per_page=100" {
		t.Errorf("asked %s", got)
	}
	if got := asked.Header.Get("Authorization"); got != "" {
		t.Errorf("credentials went along: %q", got)
	}
}

func TestGitHubHostAndItsTokenComeFromTheEnvironmentOfGH(t *testing.T) {
	g, transport := fakeGitHub(t, 0, `[{"key":"`+keyEd25519+`"}]`)
	t.Setenv("GH_HOST", "git.example.com")
	t.Setenv("GH_TOKEN", "for-github-com-only")
	t.Setenv("GH_ENTERPRISE_TOKEN", "for-example-com")
	if _, err := g.keys(context.Background(), "octocat"); err != nil {
		t.Fatal(err)
	}
	asked := transport.asked[0]
	if asked.URL.Host != "git.example.com" || asked.Header.Get("Authorization") != "token for-example-com" {
		t.Errorf("asked %s with %q", asked.URL.Host, asked.Header.Get("Authorization"))
	}
}

func TestGitHubRefusals(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		user   string
		says   string
	}{
		{"no such user", http.StatusNotFound, `{"message":"Not Found"}`, "octocat", "there is no such user"},
		{"a renamed user", http.StatusMovedPermanently, `{"message":"Moved Permanently"}`, "octocat", "another name now"},
		{"rate limited", http.StatusForbidden, `{"message":"API rate limit exceeded"}`, "octocat", "it answered 403"},
		{"no usable key", 0, `[{"key":"` + keyECDSA + `"}]`, "octocat", "1 key is there"},
		{"no key", 0, `[]`, "octocat", "0 keys are there"},
		{"no user's name", 0, `[]`, "../orgs/x", "cannot be a GitHub user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, transport := fakeGitHub(t, tt.status, tt.body)
			list, err := g.keys(context.Background(), tt.user)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %q, %v, want %q", list, err, tt.says)
			}
			if len(transport.asked) > 1 {
				t.Errorf("%d requests", len(transport.asked))
			}
		})
	}
}
