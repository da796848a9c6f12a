package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/hubsvc/webhook"
)

const secret = "a secret that was entered at the host"

// hub is what the hooks see of one: it follows one repository, and notes what it is told.
type hub struct {
	mux      *http.ServeMux
	registry *prometheus.Registry
	hints    [][]string
	secret   string
}

func newHub(tb testing.TB) *hub {
	tb.Helper()
	h := &hub{mux: http.NewServeMux(), registry: prometheus.NewPedanticRegistry(), secret: secret}
	webhook.New(webhook.Options{
		Secret: func() []byte { return []byte(h.secret) },
		Hint: func(urls []string) bool {
			h.hints = append(h.hints, urls)
			return urls == nil || slices.ContainsFunc(urls, func(url string) bool {
				return webhook.SameRepository(url, "https://git.example.com/team/app.git")
			})
		},
		Check: func(r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer token" {
				return errors.New("who is asking?")
			}
			return nil
		},
		Metrics: h.registry,
	}).Routes(h.mux)
	return h
}

// from posts from an address, and gives the status.
func (h *hub) from(address, provider, body string, header map[string]string) int {
	r := httptest.NewRequest(http.MethodPost, "/hooks/"+provider, strings.NewReader(body))
	r.RemoteAddr = address
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w.Code
}

func (h *hub) post(provider string, body []byte, header map[string]string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/hooks/"+provider, bytes.NewReader(body))
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w.Result()
}

func (h *hub) count(provider, outcome string) float64 {
	var n float64
	families, _ := h.registry.Gather()
	for _, family := range families {
		if family.GetName() != "plural_hub_hooks_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["provider"] == provider && labels["outcome"] == outcome {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func mac(key string, parts ...string) []byte {
	sum := hmac.New(sha256.New, []byte(key))
	sum.Write([]byte(strings.Join(parts, "")))
	return sum.Sum(nil)
}

// delivery is one request as a host sends it, made by hand from what the host documents.
type delivery struct {
	provider, body string
	header         func(body string) map[string]string
	urls           []string
}

func deliveries() map[string]delivery {
	return map[string]delivery{
		"github": {
			provider: "github",
			body: `{"ref":"refs/heads/main","before":"00","after":"11","repository":{"id":1,"full_name":"team/app",
				"html_url":"https://git.example.com/team/app","clone_url":"https://git.example.com/team/app.git",
				"ssh_url":"git@git.example.com:team/app.git"},"pusher":{"name":"ada"}}`,
			header: func(body string) map[string]string {
				return map[string]string{
					"X-GitHub-Event": "push", "X-GitHub-Delivery": "72d3162e", "Content-Type": "application/json",
					"X-Hub-Signature": "sha1=00", "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac(secret, body)),
				}
			},
			urls: []string{"https://git.example.com/team/app.git"},
		},
		"gitlab with a secret token": {
			provider: "gitlab",
			body:     gitlabBody,
			header: func(string) map[string]string {
				return map[string]string{"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": secret}
			},
			urls: []string{"http://git.example.com/team/app.git"},
		},
		"gitlab with a signing token": {
			provider: "gitlab",
			body:     gitlabBody,
			header: func(body string) map[string]string {
				signature := base64.StdEncoding.EncodeToString(mac(secret, "7bafea1a.1775000000.", body))
				return map[string]string{
					"X-Gitlab-Event": "Tag Push Hook", "Webhook-Id": "7bafea1a", "Webhook-Timestamp": "1775000000",
					"Webhook-Signature": "v1,b2xk v1," + signature,
				}
			},
			urls: []string{"http://git.example.com/team/app.git"},
		},
		"gitea": {
			provider: "gitea",
			body: `{"ref":"refs/heads/develop","repository":{"id":140,"full_name":"team/app",
				"html_url":"http://git.example.com:3000/team/app","ssh_url":"ssh://git@git.example.com:2222/team/app.git",
				"clone_url":"http://git.example.com:3000/team/app.git"}}`,
			header: func(body string) map[string]string {
				return map[string]string{"X-Gitea-Event": "push", "X-Gitea-Signature": hex.EncodeToString(mac(secret, body))}
			},
			urls: []string{"http://git.example.com:3000/team/app.git"},
		},
		"bitbucket cloud": {
			provider: "bitbucket",
			body: `{"actor":{"type":"user"},"repository":{"type":"repository","full_name":"team/app","links":{
				"self":{"href":"https://api.git.example.com/2.0/repositories/team/app"},
				"html":{"href":"https://git.example.com/team/app"}}},"push":{"changes":[]}}`,
			header: func(body string) map[string]string {
				return map[string]string{"X-Event-Key": "repo:push", "X-Hub-Signature": "sha256=" + hex.EncodeToString(mac(secret, body))}
			},
			urls: []string{"https://git.example.com/team/app"},
		},
		"bitbucket data center": {
			provider: "bitbucket",
			body: `{"eventKey":"repo:refs_changed","repository":{"slug":"app","id":84,"project":{"key":"TEAM","id":84},
				"links":{"self":[{"href":"https://git.example.com/projects/TEAM/repos/app/browse"}]}},"changes":[]}`,
			header: func(body string) map[string]string {
				return map[string]string{
					"X-Event-Key": "repo:refs_changed", "X-Hub-Signature": "sha256=" + hex.EncodeToString(mac(secret, body)),
				}
			},
			urls: []string{
				"https://git.example.com/scm/TEAM/app", "ssh://git.example.com/TEAM/app",
				"https://git.example.com/scm/team/app", "ssh://git.example.com/team/app",
			},
		},
	}
}

const gitlabBody = `{"object_kind":"push","event_name":"push","ref":"refs/heads/main","project_id":15,"project":{"id":15,
	"web_url":"http://git.example.com/team/app","git_ssh_url":"git@git.example.com:team/app.git",
	"git_http_url":"http://git.example.com/team/app.git"},"repository":{"name":"app","url":"git@git.example.com:team/app.git",
	"git_http_url":"http://git.example.com/team/app.git","git_ssh_url":"git@git.example.com:team/app.git"},"total_commits_count":0}`

func TestEachHostsPushIsAHintToItsRepository(t *testing.T) {
	t.Parallel()
	for name, d := range deliveries() {
		h := newHub(t)
		for range 2 { // a replay is one more question to the host, and nothing else
			if got := h.post(d.provider, []byte(d.body), d.header(d.body)); got.StatusCode != http.StatusAccepted {
				t.Errorf("%s: got %s", name, got.Status)
			}
		}
		if len(h.hints) != 2 || !slices.Equal(h.hints[0], d.urls) {
			t.Errorf("%s: hinted at %q, want %q twice", name, h.hints, d.urls)
		}
		if got := h.count(d.provider, "accepted"); got != 2 {
			t.Errorf("%s: counted %v accepted", name, got)
		}
	}
}

func TestWhatDoesNotCarryTheSecretIsRefused(t *testing.T) {
	t.Parallel()
	for name, d := range deliveries() {
		h := newHub(t)
		good := d.header(d.body)
		check := func(what string, body string, header map[string]string) {
			t.Helper()
			if got := h.post(d.provider, []byte(body), header); got.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s, %s: got %s", name, what, got.Status)
			}
		}
		event := map[string]string{}
		for header, value := range good {
			if strings.HasSuffix(header, "Event") || header == "X-Event-Key" {
				event[header] = value
			}
		}
		check("no signature", d.body, event)
		if _, token := good["X-Gitlab-Token"]; !token {
			check("another body", strings.Replace(d.body, "app", "apq", 1), good)
		}
		for header, value := range good {
			if !strings.Contains(header, "Signature-256") && !strings.Contains(header, "Signature") && !strings.Contains(header, "Token") {
				continue
			}
			if header == "X-Hub-Signature" && d.provider == "github" {
				continue // the SHA-1 that GitHub sends beside the real one
			}
			for _, wrong := range []string{"", value[:len(value)-1], value + "x", strings.Replace(value, "sha256=", "sha1=", 1) + "0"} {
				changed := d.header(d.body)
				changed[header] = wrong
				check(header+" "+wrong, d.body, changed)
			}
		}
		h.secret = ""
		check("no secret set up", d.body, good)
		h.secret = "another"
		check("another secret", d.body, good)
		if len(h.hints) != 0 {
			t.Errorf("%s: hinted at %q", name, h.hints)
		}
	}
}

func TestASignatureHeaderThatWasSentTwiceIsRefused(t *testing.T) {
	t.Parallel()
	h, d := newHub(t), deliveries()["github"]
	r := httptest.NewRequest(http.MethodPost, "/hooks/github", strings.NewReader(d.body))
	for name, value := range d.header(d.body) {
		r.Header.Set(name, value)
	}
	r.Header.Add("X-Hub-Signature-256", "sha256=00")
	w := httptest.NewRecorder()
	if h.mux.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("got %d", w.Code)
	}
}

func TestASigningTokenMayBeGivenAsTheSpecificationWritesIt(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret))
	d := deliveries()["gitlab with a signing token"]
	if got := h.post("gitlab", []byte(d.body), d.header(d.body)); got.StatusCode != http.StatusAccepted {
		t.Errorf("got %s", got.Status)
	}
}

func TestGitHubsFormIsReadLikeItsJSON(t *testing.T) {
	t.Parallel()
	h, d := newHub(t), deliveries()["github"]
	body := url.Values{"payload": {d.body}}.Encode()
	header := d.header(body)
	header["Content-Type"] = "application/x-www-form-urlencoded"
	if got := h.post("github", []byte(body), header); got.StatusCode != http.StatusAccepted || len(h.hints) != 1 {
		t.Errorf("got %s, hinted at %q", got.Status, h.hints)
	}
}

func TestARepositoryThatIsNotFollowedIsCountedAndNotTold(t *testing.T) {
	t.Parallel()
	h, d := newHub(t), deliveries()["github"]
	body := strings.ReplaceAll(d.body, "team/app", "team/other")
	if got := h.post("github", []byte(body), d.header(body)); got.StatusCode != http.StatusAccepted || h.count("github", "unknown") != 1 {
		t.Errorf("got %s, counted %v", got.Status, h.count("github", "unknown"))
	}
}

func TestEventsThatChangeNoRefAreIgnored(t *testing.T) {
	t.Parallel()
	h, d := newHub(t), deliveries()["github"]
	header := d.header(d.body)
	header["X-GitHub-Event"] = "ping"
	if got := h.post("github", []byte(d.body), header); got.StatusCode != http.StatusNoContent || len(h.hints) != 0 {
		t.Errorf("got %s, hinted at %q", got.Status, h.hints)
	}
	system := map[string]string{"X-Gitlab-Event": "System Hook", "X-Gitlab-Token": secret}
	if got := h.post("gitlab", []byte(`{"event_name":"user_create"}`), system); got.StatusCode != http.StatusNoContent {
		t.Errorf("got %s", got.Status)
	}
}

func TestABodyThatIsNoJSONIsRefusedWithoutAnEcho(t *testing.T) {
	t.Parallel()
	h, d := newHub(t), deliveries()["github"]
	for _, body := range []string{"", "<script>", `{"repository":[]}`, `{"repository":{"clone_url":1}}`, d.body + "}"} {
		got := h.post("github", []byte(body), d.header(body))
		text := new(bytes.Buffer)
		_, _ = text.ReadFrom(got.Body)
		if got.StatusCode != http.StatusBadRequest || strings.Contains(text.String(), "script") {
			t.Errorf("%q: got %s: %s", body, got.Status, text)
		}
	}
	if got := h.count("github", "malformed"); got != 5 {
		t.Errorf("counted %v malformed", got)
	}
}

// endless is a body without an end that notes how much of it was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func TestABodyWithoutAnEndIsReadForAMebibyte(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"github", "gitlab", "gitea", "bitbucket", "git"} {
		h, body := newHub(t), &endless{}
		r := httptest.NewRequest(http.MethodPost, "/hooks/"+provider, body)
		r.Header.Set("Authorization", "Bearer token")
		w := httptest.NewRecorder()
		h.mux.ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || body.read > 2<<20 {
			t.Errorf("%s: got %d after %d bytes", provider, w.Code, body.read)
		}
	}
}

func TestAFloodIsAnsweredWithoutBeingRead(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for range 500 {
		h.post("github", nil, nil)
	}
	body := &endless{}
	r := httptest.NewRequest(http.MethodPost, "/hooks/github", body)
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || body.read > 0 {
		t.Errorf("got %d after %d bytes", w.Code, body.read)
	}
	if refused := h.count("github", "refused"); refused < 100 || refused > 150 {
		t.Errorf("%v of 500 were looked at", refused)
	}
}

func TestWhoSendsNonsenseUsesUpNobodyElsesHooks(t *testing.T) {
	t.Parallel()
	h, d := newHub(t), deliveries()["github"]
	for range 500 {
		h.post("github", []byte(d.body), nil)
		h.post("git", nil, nil)
	}
	for name, send := range map[string]func(from string) int{
		"a git host": func(from string) int { return h.from(from, "github", d.body, d.header(d.body)) },
		"a script": func(from string) int {
			return h.from(from, "git", "", map[string]string{"Authorization": "Bearer token"})
		},
	} {
		if code := send("203.0.113.9:443"); code != http.StatusAccepted {
			t.Errorf("%s at another address: %d", name, code)
		}
		if code := send("192.0.2.1:443"); code != http.StatusTooManyRequests {
			t.Errorf("%s at the address of the flood: %d", name, code)
		}
	}
}

func TestHooksThatAreGenuineAreNoFailures(t *testing.T) {
	t.Parallel()
	h, d := newHub(t), deliveries()["github"]
	for range 90 { // near the bound on the pace of all
		if got := h.post("github", []byte(d.body), d.header(d.body)); got.StatusCode != http.StatusAccepted {
			t.Fatalf("got %s", got.Status)
		}
	}
	for i := range 99 {
		if got := h.post("github", []byte(d.body), nil); got.StatusCode != http.StatusUnauthorized {
			t.Fatalf("after 90 genuine hooks, failure %d got %s", i, got.Status)
		}
	}
}

func TestWhoMayHintMayHintAtAnything(t *testing.T) {
	t.Parallel()
	token := map[string]string{"Authorization": "Bearer token"}
	for _, c := range []struct {
		body   string
		header map[string]string
		status int
		hints  [][]string
	}{
		{"", nil, http.StatusUnauthorized, nil},
		{"", token, http.StatusAccepted, [][]string{nil}},
		{`{"ref":"refs/heads/main"}`, token, http.StatusAccepted, [][]string{nil}},
		{
			`{"urls":["https://git.example.com/team/app","https://git.example.com/team/app.git"," "]}`, token, http.StatusAccepted,
			[][]string{{"https://git.example.com/team/app"}},
		},
		{`{"urls":["x","\u0007://"]}`, token, http.StatusBadRequest, nil},
		{`nonsense`, token, http.StatusBadRequest, nil},
	} {
		h := newHub(t)
		got := h.post("git", []byte(c.body), c.header)
		if got.StatusCode != c.status || !slices.EqualFunc(h.hints, c.hints, slices.Equal) {
			t.Errorf("%s: got %s, hinted at %q", c.body, got.Status, h.hints)
		}
		if len(h.hints) == 1 && (h.hints[0] == nil) != (c.hints[0] == nil) {
			t.Errorf("%s: everything and nothing are not the same: %#v", c.body, h.hints)
		}
	}
}

func TestOneRepositoryHasManyAddresses(t *testing.T) {
	t.Parallel()
	const home = "https://git.example.com/Team/app.git"
	for _, same := range []string{
		"https://git.example.com/Team/app", "http://GIT.example.com/Team/app/", "https://ada:pass@git.example.com:8443/Team/app.git",
		"ssh://git@git.example.com:2222/Team/app.git", "git@git.example.com:Team/app.git", "git.example.com:Team/app", " " + home + "\n",
		"https://git.example.com./Team/app", "https://git.example.com/Team/%61pp", "git@git.example.com:/Team/app",
	} {
		if !webhook.SameRepository(home, same) || !webhook.SameRepository(same, home) {
			t.Errorf("%q is not taken for %q", same, home)
		}
	}
	for _, other := range []string{
		"https://git.example.com/team/app", "https://git.example.com/Team/app2", "https://git.example.com/Team", "https://other.example.com/Team/app",
		"https://git.example.com.evil.org/Team/app", "https://evil.org/git.example.com/Team/app", "https://git.example.com@evil.org/Team/app",
		"https://git.example.com/.*", "", "git.example.com/Team/app", "https://", "https:///Team/app", "https://git.example.com/",
		"https://git.example.com/Team/app\x00", strings.Repeat("a", 4<<10),
	} {
		if webhook.SameRepository(home, other) || webhook.SameRepository(other, other) && other == "" {
			t.Errorf("%q is taken for %q", other, home)
		}
	}
}

func FuzzHook(f *testing.F) {
	for _, d := range deliveries() {
		f.Add(d.provider, []byte(d.body), "application/json", true)
		f.Add(d.provider, []byte(d.body), "application/x-www-form-urlencoded", false)
	}
	f.Add("git", []byte(`{"urls":["git@host:path"]}`), "", true)
	f.Fuzz(func(t *testing.T, provider string, body []byte, kind string, signed bool) {
		if !slices.Contains([]string{"github", "gitlab", "gitea", "bitbucket", "git"}, provider) {
			return
		}
		h := newHub(t)
		header := map[string]string{
			"Content-Type": kind, "X-GitHub-Event": "push", "X-Gitlab-Event": "Push Hook", "X-Gitea-Event": "push", "X-Event-Key": "repo:push",
		}
		if signed {
			sum := hex.EncodeToString(mac(secret, string(body)))
			header["X-Hub-Signature-256"], header["X-Hub-Signature"] = "sha256="+sum, "sha256="+sum
			header["X-Gitea-Signature"], header["X-Gitlab-Token"], header["Authorization"] = sum, secret, "Bearer token"
		}
		got := h.post(provider, body, header)
		if !signed && (got.StatusCode != http.StatusUnauthorized || len(h.hints) > 0) {
			t.Errorf("unsigned: got %s, hinted at %q", got.Status, h.hints)
		}
		for _, urls := range h.hints {
			if len(urls) > 64 || urls == nil && provider != "git" {
				t.Errorf("hinted at %d URLs", len(urls))
			}
			for _, url := range urls {
				if !webhook.SameRepository(url, url) {
					t.Errorf("hinted at %q, which names no repository", url)
				}
			}
		}
	})
}
