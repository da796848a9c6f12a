package hubsvc

import (
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

const password = "canary-77aa02c1d9e3-of-the-git-host"

// private serves an origin over HTTPS to whoever knows the password.
func private(t *testing.T, o *fleetrepo.Origin, password *atomic.Value) *httptest.Server {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.Bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + filepath.Dir(o.Work)},
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "plural" || given != password.Load() {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// credentials are what is sealed for the hub.
func credentials(server *httptest.Server, password string) string {
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return "username: plural\npassword: " + password + "\nca.crt: |\n  " + strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n  ") + "\n"
}

// listed is a source as the hub's API shows it, zero before it knows of it.
func (r *running) listed(name string) v1.Source {
	r.t.Helper()
	code, body := r.do(http.MethodGet, "/v1/sources", r.token, nil)
	var list v1.List[v1.Source]
	if err := json.Unmarshal(body, &list); err != nil || code != http.StatusOK {
		r.t.Fatalf("sources: %d, %v", code, err)
	}
	for _, s := range list.Items {
		if s.Name == name {
			return s
		}
	}
	return v1.Source{}
}

// held is why deployments are held, the first reason.
func (r *running) held() string {
	r.t.Helper()
	for _, problem := range r.status().Held {
		return problem.Message
	}
	return ""
}

func TestPrivateSourceIsReadWithWhatIsSealedForTheHub(t *testing.T) {
	upstream, o := fleetrepo.New(t), fleetrepo.New(t)
	upstream.Push(map[string]string{"app/cm.yaml": fleetrepo.ConfigMap("app", "1")})
	var expected atomic.Value
	expected.Store(password)
	server := private(t, upstream, &expected)
	s, key := fleetrepo.NewHubSafe(t)
	fleet := fleetrepo.TwoServices(nil)
	maps.Copy(fleet, s.Files)
	fleet["secrets/hub/git.yaml"] = s.ForHub("secrets/hub/git.yaml", credentials(server, password))
	fleet["sources/private.yaml"] = fleetrepo.Header + "kind: Source\nmetadata: {name: private}\nspec:\n  git: {url: \"" + server.URL + "/origin.git\", ref: main}\n" +
		"  auth: {secret: secrets/hub/git.yaml}\n"
	fleet["services/app.yaml"] = fleetrepo.Service("app", "  source: {name: private, path: app}\n")
	o.Push(fleet)

	stranger := start(t, options(t, o))
	fleetrepo.Until(t, "a hub without an identity says what it lacks", func() bool {
		return strings.Contains(stranger.listed("private").Error, "the hub has no identity")
	})
	stranger.stop()

	said := new(logs)
	opts := options(t, o)
	opts.Identities = func() ([]age.Identity, error) { return []age.Identity{key}, nil }
	hub := startWith(t, opts, slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	defer func() {
		if t.Failed() {
			t.Logf("%+v\n%s", hub.listed("private"), said)
		}
	}()
	fleetrepo.Until(t, "the source is read", func() bool { return hub.listed("private").Commit != "" })
	commit := hub.listed("private").Commit
	fleetrepo.Until(t, "its service is asked for", func() bool { return hub.held() == "" })

	expected.Store("another")
	fleetrepo.Until(t, "the refusal is visible", func() bool { return strings.Contains(hub.listed("private").Error, "401") })
	if got := hub.listed("private"); got.Commit != commit || hub.held() != "" {
		t.Errorf("the last good commit is gone: %+v, %s", got, hub.held())
	}
	next := upstream.Push(map[string]string{"app/cm.yaml": fleetrepo.ConfigMap("app", "2")})
	o.Push(map[string]string{"secrets/hub/git.yaml": s.ForHub("secrets/hub/git.yaml", credentials(server, "another"))})
	fleetrepo.Until(t, "the new password is used", func() bool { s := hub.listed("private"); return s.Commit == next && s.Error == "" })
	hub.stop()
	searchAll(t, opts.Data, password)
	if text := said.String(); text == "" || strings.Contains(text, password) {
		t.Error("the log holds the password, or nothing")
	}
}
