package catalogs

import (
	"context"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"filippo.io/age"
	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
)

const header = "apiVersion: plural.sh/v1alpha1\n"

func packageYAML(name, version string) string {
	return header + "kind: Package\nmetadata: {name: " + name + "}\nspec:\n  version: " + version + "\n"
}

// origin is a git repository with packages, made by git.
type origin struct {
	t   *testing.T
	dir string
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{t, t.TempDir()}
	o.git("init", "-q", "-b", "main")
	return o
}

func (o *origin) git(args ...string) string {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), "git", append([]string{"-c", "user.name=me", "-c", "user.email=me@example.com"},
		args...)...)
	cmd.Dir = o.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (o *origin) commit(files map[string]string) {
	o.t.Helper()
	for name, text := range files {
		at := filepath.Join(o.dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			o.t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			o.t.Fatal(err)
		}
	}
	o.git("add", "-A")
	o.git("commit", "-q", "-m", "packages")
}

func (o *origin) url() string { return "file://" + o.dir }

// repo is an installation repo in memory.
func repo(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func load(t *testing.T, files fs.FS) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func workspaceYAML(catalogs string) string {
	return header + "kind: Workspace\nmetadata: {name: test}\nspec:\n  catalogs: [" + catalogs + "]\n"
}

func sourceYAML(name, spec string) string {
	return header + "kind: Source\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// gitRepo is an installation repo with one catalog, in the folder catalog of a git repository.
func gitRepo(url string) fstest.MapFS {
	return repo(map[string]string{
		"plural.yaml":           workspaceYAML("{name: platform, source: platform, path: catalog}"),
		"sources/platform.yaml": sourceYAML("platform", "{git: {url: '"+url+"', ref: main}}"),
	})
}

func opened(t *testing.T, files fs.FS, o Options) *catalog.Set {
	t.Helper()
	set, err := Open(load(t, files), files, o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func versions(t *testing.T, set *catalog.Set, name string) string {
	t.Helper()
	list, from, err := set.Versions(t.Context(), "", name)
	if err != nil {
		return err.Error()
	}
	for _, e := range list {
		from += " " + e.Version
	}
	return from
}

func TestPackagesComeFromGitAndFromTheProgramItself(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{
		"catalog/web/package.yaml": packageYAML("web", "1.0.0"),
		"other/db/package.yaml":    packageYAML("db", "1.0.0"),
	})
	files, cache := gitRepo(o.url()), t.TempDir()
	set := opened(t, files, Options{Cache: cache, AllowFile: true})
	names, err := set.Packages(t.Context())
	if err != nil || names["web"] != "platform" || names["hub"] != fleet.BuiltinCatalog || names["db"] != "" {
		t.Errorf("packages %v, %v", names, err)
	}
	o.commit(map[string]string{"catalog/web/package.yaml": packageYAML("web", "1.1.0")})
	if got := versions(t, set, "web"); got != "platform 1.0.0" {
		t.Errorf("within one command nothing changes, but there is %s", got)
	}
	if got := versions(t, opened(t, files, Options{Cache: cache, AllowFile: true}), "web"); got != "platform 1.1.0" {
		t.Error(got)
	}
	if _, err := set.Open(t.Context(), "", "web", "1.0.0", ""); err != nil {
		t.Errorf("what was opened before the next fetch: %v", err)
	}
}

func TestOnlyThePersonChoosesFoldersOfTheirMachine(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"catalog/web/package.yaml": packageYAML("web", "1.0.0")})
	cache := t.TempDir()
	for _, url := range []string{o.url(), "FILE://" + o.dir} {
		set := opened(t, gitRepo(url), Options{Cache: cache, AllowFile: true})
		if got := versions(t, set, "web"); got != "platform 1.0.0" {
			t.Error(got)
		}
		_, _, err := opened(t, gitRepo(url), Options{Cache: cache}).Versions(t.Context(), "", "web") // also where a copy is here
		var refused *FileError
		var failed *catalog.CatalogError
		if !errors.As(err, &refused) || !errors.As(err, &failed) || !strings.Contains(failed.Fix(), "PLURAL_ALLOW_FILE_SOURCES") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

func TestWithoutARepoThereAreTheProgramsOwnPackages(t *testing.T) {
	t.Parallel()
	set, err := Open(&fleet.Fleet{}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := versions(t, set, "hub"); !strings.HasPrefix(got, fleet.BuiltinCatalog+" ") {
		t.Error(got)
	}
}

func TestTheLastStateServesWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"catalog/web/package.yaml": packageYAML("web", "1.0.0")})
	files, cache := gitRepo(o.url()), t.TempDir()
	var told []Stale
	options := Options{AllowFile: true, Cache: cache, Stale: func(s Stale) { told = append(told, s) }}
	versions(t, opened(t, files, options), "web")
	if len(told) != 0 {
		t.Errorf("told %v", told)
	}
	options.Offline = true
	before := time.Now()
	if got := versions(t, opened(t, files, options), "web"); got != "platform 1.0.0" {
		t.Error(got)
	}
	if err := os.Rename(o.dir, o.dir+".away"); err != nil {
		t.Fatal(err)
	}
	options.Offline = false
	set := opened(t, files, options)
	if got := versions(t, set, "web") + versions(t, set, "web"); got != "platform 1.0.0platform 1.0.0" {
		t.Error(got)
	}
	if len(told) != 2 || told[0].Catalog != "platform" || !errors.Is(told[0].Err, ErrOffline) || told[1].Err == nil || told[1].Fetched.After(before) ||
		told[1].Fetched.IsZero() {
		t.Errorf("told %v", told)
	}
	// Who has never fetched it has nothing to go on with, and no other catalog stands in.
	got := versions(t, opened(t, files, Options{AllowFile: true, Cache: t.TempDir()}), "web")
	if !strings.HasPrefix(got, "catalog platform: source platform: ") {
		t.Error(got)
	}
	got = versions(t, opened(t, files, Options{AllowFile: true, Cache: t.TempDir(), Offline: true}), "hub")
	if got != "catalog platform: source platform: "+ErrOffline.Error() {
		t.Error(got)
	}
}

func TestWhatCannotBeACatalogIsTold(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"README.md": "nothing"})
	files := gitRepo(o.url())
	want := "catalog platform: there is no folder catalog in source platform: mend path in spec.catalogs of plural.yaml"
	if got := versions(t, opened(t, files, Options{AllowFile: true, Cache: t.TempDir()}), "web"); got != want {
		t.Error(got)
	}
	f := &fleet.Fleet{
		Workspace: fleet.Workspace{Spec: fleet.WorkspaceSpec{Catalogs: []fleet.CatalogRef{{Name: "charts", Source: "charts"}}}},
		Sources: []fleet.Source{{
			Metadata: fleet.Metadata{Name: "charts"},
			Spec:     fleet.SourceSpec{Helm: &fleet.HelmSource{URL: "https://charts.example.com"}},
		}},
	}
	if _, err := Open(f, repo(nil), Options{}); err == nil || !strings.Contains(err.Error(), "catalog charts: source charts is a Helm repository") {
		t.Errorf("%v", err)
	}
	f.Sources = nil
	if _, err := Open(f, repo(nil), Options{}); err == nil || !strings.Contains(err.Error(), "write sources/charts.yaml") {
		t.Errorf("%v", err)
	}
}

func TestOneProcessFetchesAtATime(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"catalog/web/package.yaml": packageYAML("web", "1.0.0")})
	files, cache := gitRepo(o.url()), t.TempDir()
	versions(t, opened(t, files, Options{Cache: cache, AllowFile: true}), "web")
	locks, err := filepath.Glob(cache + "/catalogs/*.lock")
	if err != nil || len(locks) != 1 {
		t.Fatal(locks, err)
	}
	other, err := os.Open(locks[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	set := opened(t, files, Options{Cache: cache, AllowFile: true})
	little, end := context.WithTimeout(t.Context(), 2*busyPoll)
	defer end()
	if _, _, err := set.Versions(little, "", "web"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	got := make(chan string)
	go func() { got <- versions(t, set, "web") }()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-got; got != "platform 1.0.0" {
		t.Errorf("once the other is done: %s", got)
	}
}

// safe is an installation repo in which secrets/ is sealed for a group of one person.
func safe(t *testing.T) (fstest.MapFS, *age.X25519Identity) {
	t.Helper()
	alice, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	files := repo(map[string]string{
		".plural/seal.yaml": header + "kind: Seal\nmetadata: {name: seal}\nspec:\n  repository: " + repositoryID +
			"\n  paths:\n  - {pattern: \"secrets/**\", groups: [hub]}\n",
		".plural/members/alice.txt": alice.Recipient().String() + "\n",
	})
	set, err := groups.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := set.Create(repositoryID, "hub", []groups.Member{{Kind: groups.Person, Name: "alice"}}, groups.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range changes {
		files[name] = &fstest.MapFile{Data: text}
	}
	return files, alice
}

const repositoryID = "6b1f6a6224c04f239a0f3f0f2f6f8f10"

func sealFor(t *testing.T, files fstest.MapFS, name, plaintext string) {
	t.Helper()
	set, err := groups.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	hub, _ := set.Group("hub")
	binding := seal.Binding{Repository: repositoryID, Path: name, Groups: []seal.Epoch{{Group: "hub", Number: hub.Epoch}}}
	data, err := seal.Seal([]byte(plaintext), binding, hub.Recipient.Recipient)
	if err != nil {
		t.Fatal(err)
	}
	files[name] = &fstest.MapFile{Data: data}
}

func TestARegistryIsLoggedInToWithWhatIsSealedForTheHub(t *testing.T) {
	t.Parallel()
	const password = "canary-of-the-registry"
	registry := ggcr.New(ggcr.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "plural" || given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		registry.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	url := "oci://" + server.Listener.Addr().String() + "/team/packages"
	_, err := catalog.Publish(t.Context(), repo(map[string]string{"package.yaml": packageYAML("web", "1.0.0")}), catalog.PublishOptions{
		OCIOptions: catalog.OCIOptions{URL: url, Credentials: httpclient.Credentials{Username: "plural", Password: password, CA: ca}},
	})
	if err != nil {
		t.Fatal(err)
	}
	files, alice := safe(t)
	files["plural.yaml"] = &fstest.MapFile{Data: []byte(workspaceYAML("{name: team, source: registry}"))}
	files["sources/registry.yaml"] = &fstest.MapFile{Data: []byte(sourceYAML("registry",
		"{oci: {url: '"+url+"'}, auth: {secret: secrets/registry.yaml}}"))}
	sealFor(t, files, "secrets/registry.yaml", "username: plural\npassword: "+password+"\nca.crt: |\n  "+strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n  ")+"\n")
	mine := func() ([]age.Identity, error) { return []age.Identity{alice}, nil }
	if got := versions(t, opened(t, files, Options{AllowFile: true, Cache: t.TempDir(), Identities: mine}), "web"); got != "team 1.0.0" {
		t.Error(got)
	}
	got := versions(t, opened(t, files, Options{AllowFile: true, Cache: t.TempDir()}), "web")
	if !strings.Contains(got, "is sealed for hub, and there is no identity here; alice can read it") || strings.Contains(got, "canary") {
		t.Error(got)
	}
	got = versions(t, opened(t, files, Options{AllowFile: true, Cache: t.TempDir(), Identities: mine, Offline: true}), "web")
	if !strings.Contains(got, "ask for it online") {
		t.Error(got)
	}
}

func TestTheCacheLiesWhereThePersonSays(t *testing.T) {
	t.Parallel()
	if got := CacheDir(func(string) string { return "/elsewhere" }); got != "/elsewhere" {
		t.Error(got)
	}
	if got := CacheDir(func(string) string { return "" }); filepath.Base(got) != "plural" {
		t.Error(got)
	}
}
