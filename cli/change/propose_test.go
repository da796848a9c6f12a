package change

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/githost"
)

// github answers every request with a status and a body.
type github struct {
	status int
	body   string
	asked  []string
}

func (g *github) RoundTrip(r *http.Request) (*http.Response, error) {
	g.asked = append(g.asked, r.Method+" "+r.URL.String())
	return &http.Response{
		StatusCode: g.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(g.body)), Request: r,
	}, nil
}

func TestAProposalSaysWhereItCanBeMerged(t *testing.T) {
	pull := githost.Pull{Title: "More of web", Branch: "plural/more-of-web-1234567", Base: "main"}
	for _, tt := range []struct {
		name, remote, token string
		host                github
		address, says       string
	}{
		{
			"github", "git@github.com:acme/fleet.git", "ghp_hunter",
			github{status: 201, body: `{"html_url": "https://github.com/acme/fleet/pull/7"}`},
			"https://github.com/acme/fleet/pull/7", "",
		},
		{
			"nobody is logged in", "https://github.com/acme/fleet", "",
			github{},
			"",
			"open it by hand: https://github.com/acme/fleet/compare/main...plural/more-of-web-1234567?expand=1",
		},
		{
			"github refuses", "https://github.com/acme/fleet", "ghp_hunter",
			github{status: 403, body: `{"message": "Resource not accessible"}`},
			"",
			"no pull request is opened for it: api.github.com answered 403: Resource not accessible",
		},
		{
			"gitlab", "https://gitlab.com/acme/ops/fleet.git", "",
			github{},
			"",
			"https://gitlab.com/acme/ops/fleet/-/merge_requests/new?merge_request%5Bsource_branch%5D=plural%2Fmore-of-web-1234567",
		},
		{
			"bitbucket", "git@bitbucket.org:acme/fleet.git", "",
			github{},
			"",
			"https://bitbucket.org/acme/fleet/pull-requests/new?dest=main&source=plural%2Fmore-of-web-1234567",
		},
		{"a folder", "/srv/fleet.git", "", github{}, "", "have it merged into main"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GH_CONFIG_DIR", t.TempDir())
			var told bytes.Buffer
			m := &CommitOptions{
				Factory: &cmdutil.Factory{IO: &ui.Streams{Out: io.Discard, ErrOut: &told}},
				GitHub:  githost.Options{Transport: &tt.host, Token: func(string) string { return tt.token }},
			}
			address, err := m.open(t.Context(), tt.remote, pull)
			if err != nil || address != tt.address || !strings.Contains(told.String(), tt.says) {
				t.Errorf("%q, %v\n%s", address, err, told.String())
			}
			if tt.token != "" && strings.Contains(told.String(), tt.token) {
				t.Error("a token is shown")
			}
		})
	}
}

func TestABranchIsCalledAfterItsChange(t *testing.T) {
	for message, want := range map[string]string{
		"More of web\n\nWith reasons": "more-of-web", `Revert "Set web: replicas=3"`: "revert-set-web-replicas-3", "": "change", "äöü": "change",
		"../../etc/passwd && rm -rf": "etc-passwd-rm-rf", strings.Repeat("long ", 20): "long-long-long-long-long-long-long-long",
		"\x1b[31mred": "31mred",
	} {
		if got := slug(message); got != want {
			t.Errorf("%q: %q", message, got)
		}
	}
}
