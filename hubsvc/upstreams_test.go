package hubsvc

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"github.com/pluralsh/plural/api/bundle"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
)

const password = "canary-77aa02c1d9e3-of-the-git-host"

// private serves an origin over HTTPS to whoever knows the password.
func private(t *testing.T, o *origin, password *atomic.Value) *httptest.Server {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + filepath.Dir(o.work)},
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

// hubSafe is an installation repo in which secrets/hub is sealed for the hub, whose private half it gives.
func hubSafe(t *testing.T) (*safe, *age.X25519Identity) {
	t.Helper()
	s, hub := newSafe(t), identity(t)
	s.files[".plural/seal.yaml"] = strings.Replace(sealYAML, "  paths:\n", "  paths:\n  - {pattern: \"secrets/hub/**\", groups: [hub]}\n", 1)
	s.files[".plural/members/the-hub.txt"] = hub.Recipient().String() + "\n"
	changes, err := s.set().Create(repositoryID, "hub", []groups.Member{{Kind: groups.Person, Name: "the-hub"}}, groups.CreateOptions{ClusterKey: s.clusterKey})
	s.apply(changes, err)
	return s, hub
}

func (s *safe) forHub(path, plaintext string) string {
	s.t.Helper()
	group, _ := s.set().Group("hub")
	b := seal.Binding{Repository: repositoryID, Path: path, Groups: []seal.Epoch{{Group: "hub", Number: group.Epoch}}}
	data, err := seal.Seal([]byte(plaintext), b, group.Recipient.Recipient)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
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
	upstream, o := newOrigin(t), newOrigin(t)
	upstream.push(map[string]string{"app/cm.yaml": configMap("app", "1")})
	var expected atomic.Value
	expected.Store(password)
	server := private(t, upstream, &expected)
	s, key := hubSafe(t)
	fleet := twoServices(nil)
	maps.Copy(fleet, s.files)
	fleet["secrets/hub/git.yaml"] = s.forHub("secrets/hub/git.yaml", credentials(server, password))
	fleet["sources/private.yaml"] = header + "kind: Source\nmetadata: {name: private}\nspec:\n  git: {url: \"" + server.URL + "/origin.git\", ref: main}\n" +
		"  auth: {secret: secrets/hub/git.yaml}\n"
	fleet["services/app.yaml"] = service("app", "  source: {name: private, path: app}\n")
	o.push(fleet)

	stranger := start(t, options(t, o))
	until(t, "a hub without an identity says what it lacks", func() bool {
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
	until(t, "the source is read", func() bool { return hub.listed("private").Commit != "" })
	commit := hub.listed("private").Commit
	until(t, "its service is asked for", func() bool { return hub.held() == "" })

	expected.Store("another")
	until(t, "the refusal is visible", func() bool { return strings.Contains(hub.listed("private").Error, "401") })
	if got := hub.listed("private"); got.Commit != commit || hub.held() != "" {
		t.Errorf("the last good commit is gone: %+v, %s", got, hub.held())
	}
	next := upstream.push(map[string]string{"app/cm.yaml": configMap("app", "2")})
	o.push(map[string]string{"secrets/hub/git.yaml": s.forHub("secrets/hub/git.yaml", credentials(server, "another"))})
	until(t, "the new password is used", func() bool { s := hub.listed("private"); return s.Commit == next && s.Error == "" })
	hub.stop()
	searchAll(t, opts.Data, password)
	if text := said.String(); text == "" || strings.Contains(text, password) {
		t.Error("the log holds the password, or nothing")
	}
}

// chart is a packaged chart.
func chart(t *testing.T, version string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for name, text := range map[string]string{
		"web/Chart.yaml":            "apiVersion: v2\nname: web\nversion: " + version + "\n",
		"web/values.yaml":           "value: none\n",
		"web/templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {value: {{ .Values.value | quote }}}\n",
	} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// charts is a Helm repository of one chart.
type charts struct {
	*httptest.Server
	mu       sync.Mutex
	versions map[string][]byte
}

func newCharts(t *testing.T, versions ...string) *charts {
	t.Helper()
	c := &charts{versions: map[string][]byte{}}
	for _, v := range versions {
		c.versions[v] = chart(t, v)
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.URL.Path != "/index.yaml" {
			_, _ = w.Write(c.versions[strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/web-"), ".tgz")])
			return
		}
		fmt.Fprint(w, "apiVersion: v1\nentries:\n  web:\n")
		for v, data := range c.versions {
			sum := sha256.Sum256(data)
			fmt.Fprintf(w, "  - {name: web, version: %s, digest: %s, urls: [web-%s.tgz]}\n", v, hex.EncodeToString(sum[:]), v)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func TestChartOfAHelmRepositoryIsRenderedWithValuesOfTheInstallationRepo(t *testing.T) {
	o, repository := newOrigin(t), newCharts(t, "1.2.0", "1.10.0", "2.0.0")
	p := plans(t, o, t.TempDir())
	fleet := twoServices(nil)
	fleet["sources/charts.yaml"] = header + "kind: Source\nmetadata: {name: charts}\nspec:\n  helm: {url: \"" + repository.URL + "\"}\n"
	fleet["services/chart.yaml"] = service("chart", "  source: {name: charts, ref: ^1.0}\n  helm: {chart: web, valuesFiles: [config/values.yaml]}\n"+
		"  mounts: [{source: {path: apps/values}, at: config}]\n")
	fleet["apps/values/values.yaml"] = "value: one\n"
	p.serves(o.push(fleet))
	until(t, "the chart is there", func() bool { return p.on("chart").Hold == nil })
	first := p.on("chart")
	if first.Renderer != "helm" || len(first.Mounts) != 1 || first.Mounts[0].At != "config" || first.Version != "1.10.0" {
		t.Errorf("deployment = %+v", first)
	}
	p.packs()
	if got := p.file(first.Bundle, "Chart.yaml"); !strings.Contains(got, "version: 1.10.0") {
		t.Errorf("the chart is %q", got)
	}
	if got := p.file(first.Mounts[0].Bundle, "apps/values/values.yaml"); got != fleet["apps/values/values.yaml"] {
		t.Errorf("the values are %q", got)
	}
	repository.mu.Lock()
	repository.versions["1.11.0"] = chart(t, "1.11.0")
	repository.mu.Unlock()
	until(t, "the next version is taken", func() bool { return p.on("chart").Bundle != first.Bundle })
	if version := p.on("chart").Version; version != "1.11.0" {
		t.Errorf("agents are told that it is %q", version)
	}
	p.serves(o.push(map[string]string{"apps/values/values.yaml": "value: two\n"}))
	if next := p.on("chart"); next.Key == first.Key || next.Mounts[0].Bundle == first.Mounts[0].Bundle {
		t.Error("other values gave the same key")
	}
}

// file is one file of a packed bundle.
func (p *planning) file(key, name string) string {
	p.t.Helper()
	var archive bytes.Buffer
	if err := p.pack(p.t.Context(), key, &archive); err != nil {
		p.t.Fatal(err)
	}
	files, err := bundle.Unpack(&archive, bundle.DefaultLimits())
	if err != nil {
		p.t.Fatal(err)
	}
	data, err := files.ReadFile(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}
