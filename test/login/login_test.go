package login

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/idp"
)

// me is what plural auth status knows.
type me struct {
	Name   string
	Groups []string
	Verbs  []string
	Login  *struct{ Through, Subject, Shown string }
}

func (p *person) status() (m me) {
	p.Helper()
	if err := json.Unmarshal([]byte(p.plural("auth", "status", "-o", "json")), &m); err != nil {
		p.Fatal(err)
	}
	return m
}

// TestLogin has people and programs log in to one hub, which is what takes time.
func TestLogin(t *testing.T) {
	w := newWorld(t)
	part := func(name string, test func(*testing.T, *world)) {
		t.Run(name, func(t *testing.T) {
			own := *w
			own.TB = t
			test(t, &own)
		})
	}
	part("a person by the browser", byBrowser)
	part("a person whom the fleet has no role for", withoutRole)
	part("a person who gives up", refused)
	part("a login goes on by itself", renews)
	part("a code that is typed in on another device", byDevice)
	part("a CI job", ciJob)
	part("pods of clusters of the fleet", ofClusters)
	part("a person on the page", onPage)
	part("somebody who attacks the page", pageAttacks)
	part("a person in Chromium", byChromium)
	part("a person who opens the page from the terminal", byTicket)
	part("an application", ofApplications)
	part("a cluster's own API server", ofAPIServers)
	part("a stream that is open ends when its login is ended in git", ended)
	part("a provider that is away", away)
	part("nothing secret is left behind", nothingSecret)
}

func byBrowser(t *testing.T, w *world) {
	for _, test := range []struct {
		provider *idp.Provider
		name     string
		want     me
	}{
		{w.corp, "corp", me{Name: "ada", Groups: []string{"platform"}}},
		{w.partner, "partner", me{Name: "partner:00u1abc", Groups: []string{"platform"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			own := *w
			own.TB = t
			p := own.person("ada-" + test.name)
			said, page, err := p.login(test.provider.Browser(t, "ada-l"), "--provider", test.name)
			if err != nil || !strings.Contains(said, "logged in to "+w.hub+" as "+test.want.Name+" (ada-l)") || !strings.Contains(page, "Go back to your terminal") {
				t.Fatalf("%v\n%s\nthe browser shows %q", err, said, page)
			}
			before := test.provider.Requests()
			got := p.status()
			if got.Name != test.want.Name || strings.Join(got.Groups, " ") != "platform" || strings.Join(got.Verbs, " ") != "view sync edit hint" ||
				got.Login == nil || got.Login.Through != "provider/"+test.name || got.Login.Subject != "00u1abc" || got.Login.Shown != "ada-l" {
				t.Errorf("%+v", got)
			}
			p.plural("status")
			if n := test.provider.Requests() - before; n != 0 {
				t.Errorf("%d requests to the provider for two commands", n)
			}
			p.plural("auth", "logout")
			if said, code := p.fails("auth", "status"); code != 4 || !strings.Contains(said, "plural auth login") {
				t.Errorf("logged out: %d\n%s", code, said)
			}
		})
	}
	said, _ := w.person("undecided").fails("auth", "login", "--no-browser")
	if !strings.Contains(said, "--provider corp") {
		t.Errorf("of several providers: %s", said)
	}
}

func withoutRole(t *testing.T, w *world) {
	p := w.person("eve")
	said, _, err := p.login(w.corp.Browser(t, "eve"), "--provider", "corp")
	if err != nil || !strings.Contains(said, "as corp:00u2eve (eve)") || !strings.Contains(said, "warning: no RoleBinding names you") {
		t.Fatalf("%v\n%s", err, said)
	}
	if said, _ := p.fails("status"); !strings.Contains(said, "may not view") {
		t.Errorf("status: %s", said)
	}
}

func refused(t *testing.T, w *world) {
	p := w.person("mallory")
	browser := w.corp.Browser(t, "ada-l")
	browser.Password = "guess"
	if said, _, err := p.login(browser, "--provider", "corp"); err == nil {
		t.Errorf("with a wrong password: %s", said)
	}
	if _, err := os.Stat(filepath.Join(p.home, ".config", "plural", "hosts.yaml")); err == nil {
		t.Error("something is kept of a login that failed")
	}
}

// I11.
func byDevice(t *testing.T, w *world) {
	if said, code := w.person("ada-partner").fails("auth", "login", "--provider", "partner", "--device"); code == 0 || !strings.Contains(said, "spec.device") {
		t.Errorf("of a provider that does not allow it: %d %s", code, said)
	}
	p := w.person("ada-device")
	cmd := p.command(program(p, "plural"), "auth", "login", "--provider", "corp", "--device")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	address, code := "", ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		said.WriteString(line + "\n")
		if _, after, ok := strings.Cut(line, "on any device at "); ok {
			address, _, _ = strings.Cut(after, " ")
		} else if address != "" && code == "" {
			code = strings.TrimSpace(line)
			if _, err := w.corp.Browser(t, "ada-l").Open(address + "?user_code=" + code); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "logged in") {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if got := p.status(); got.Name != "ada" {
		t.Errorf("%+v", got)
	}
}

func ciJob(t *testing.T, w *world) {
	token := func(more map[string]any) string {
		claims := map[string]any{"repository_id": "74", "ref": "refs/heads/main", "event_name": "push"}
		for name, value := range more {
			claims[name] = value
		}
		return w.ci.Token(w.ci.Claims("repo:acme/app:ref:refs/heads/main", w.hub, time.Now(), claims))
	}
	p := w.person("job")
	p.env = append(p.env, "PLURAL_ID_TOKEN="+token(nil))
	p.plural("auth", "login")
	if got := p.status(); got.Name != "ci-deploy" || got.Login == nil || got.Login.Through != "federation/deploy-main" {
		t.Errorf("%+v", got)
	}
	p.plural("status")

	// GitHub gives a job its token where the job asks for one with the hub's audience.
	github := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-jobs-own" || r.URL.Query().Get("audience") != w.hub || r.URL.Query().Get("api-version") != "2.0" {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"count": 1, "value": token(nil)})
	}))
	defer github.Close()
	p = w.person("github")
	p.env = append(p.env, "ACTIONS_ID_TOKEN_REQUEST_URL="+github.URL+"/token?api-version=2.0", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=the-jobs-own")
	p.plural("auth", "login")
	if got := p.status(); got.Name != "ci-deploy" {
		t.Errorf("%+v", got)
	}

	p = w.person("pod")
	file := filepath.Join(p.home, "token")
	for name, more := range map[string]map[string]any{
		"a fork's pull request": {"event_name": "pull_request"}, "another repository": {"repository_id": "75"}, "for another hub": {"aud": "https://other"},
	} {
		if err := os.WriteFile(file, []byte(token(more)), 0o600); err != nil {
			t.Fatal(err)
		}
		p.env = append(p.env, "PLURAL_ID_TOKEN_FILE="+file)
		if said, code := p.fails("auth", "login"); code != 4 {
			t.Errorf("%s: %d\n%s", name, code, said)
		}
	}
}

func ended(t *testing.T, w *world) {
	p := w.person("ada-corp")
	if said, _, err := p.login(w.corp.Browser(t, "ada-l"), "--provider", "corp"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	hosts, err := os.ReadFile(filepath.Join(p.home, ".config", "plural", "hosts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(hosts), "token: ")
	session, _, _ := strings.Cut(rest, "\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.hub+"/v1/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+session)
	stream, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		t.Fatal(stream.Status)
	}
	closed := make(chan time.Time, 1)
	go func() {
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		}
		closed <- time.Now()
	}()
	operator := w.person("operator")
	operator.env = append(operator.env, "PLURAL_TOKEN_FILE="+w.path("hub/token"))
	<-time.After(time.Second - time.Duration(time.Now().Nanosecond())) // sessions begin at whole seconds
	operator.plural("auth", "end", "ada", "-C", w.path("fleet"))
	pushed := time.Now()
	select {
	case at := <-closed:
		if ctx.Err() != nil {
			t.Fatal("it ends with the test alone")
		}
		t.Logf("the stream ended %s after the push", at.Sub(pushed).Round(time.Millisecond))
	case <-ctx.Done():
		t.Fatal("the stream goes on")
	}
	if said, code := p.fails("status"); code != 4 || !strings.Contains(said, `the logins of user "ada" have been ended`) {
		t.Errorf("%d\n%s", code, said)
	}
	if said, _, err := p.login(w.corp.Browser(t, "ada-l"), "--provider", "corp"); err != nil {
		t.Errorf("a new login: %v\n%s", err, said)
	}
	p.plural("status")
}

func away(t *testing.T, w *world) {
	p := w.person("ada-corp")
	w.corp.Down(true)
	defer w.corp.Down(false)
	p.plural("status")
	if said, code := w.person("late").fails("auth", "login", "--provider", "corp"); code == 0 || !strings.Contains(said, w.corp.Issuer) {
		t.Errorf("%d\n%s", code, said)
	}
}

// I16: no session, no ID token and no client's secret stands in the audit log, in the hub's other files or in what a person's home has besides hosts.yaml.
func nothingSecret(t *testing.T, w *world) {
	seen, logins := 0, 0
	err := filepath.WalkDir(w.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "hosts.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		seen++
		logins += strings.Count(string(text), `"verb":"login"`)
		const jwt = "eyJhbGciOi"                                                                             // {"alg":
		if strings.Contains(string(text), pageSecret) && !strings.HasPrefix(path, w.path("fleet/secrets")) { // the operator's work tree
			t.Errorf("%s holds the secret of the page's client", path)
		}
		if strings.Contains(string(text), jwt) && !strings.HasPrefix(path, w.path("home-pod")) {
			t.Errorf("%s holds a token", path)
		}
		return err
	})
	if err != nil || seen < 20 || logins < 5 {
		t.Errorf("%d files with %d logins: %v", seen, logins, err)
	}
}
