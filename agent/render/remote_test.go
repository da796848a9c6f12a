package render_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/internal/kustomizeurl"
	"github.com/pluralsh/plural/test/support/kustomizetest"
	"github.com/pluralsh/plural/test/support/needs"
)

// world is what an archive of testdata/remote holds: files of the service, and below remote/ what servers give others. ADDRESS
// in any file is theirs. The folders of remote/git are repositories with the tag v1, those of remote/charts charts of a Helm
// repository, and remote/files are files.
type world struct {
	files  fs.FS
	root   string // of files, on disk
	mounts []render.Mount
}

func newWorld(t *testing.T, archive string) *world {
	t.Helper()
	dir := t.TempDir()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w := &world{files: tree(strings.ReplaceAll(archive, "ADDRESS", server.URL)), root: filepath.Join(dir, "all")}
	if err := os.CopyFS(w.root, w.files); err != nil {
		t.Fatal(err)
	}
	w.serveGit(t, mux, server.URL, dir)
	w.serveCharts(t, mux, server.URL, dir)
	mux.Handle("/files/", http.FileServer(http.Dir(filepath.Join(w.root, "remote"))))
	for _, name := range found(t, w.root, "remote/files/*") {
		at := kustomizeurl.Remote{Kind: kustomizeurl.HTTP, URL: server.URL + "/files/" + filepath.Base(name)}
		w.mount(at, os.DirFS(filepath.Dir(name)), filepath.Base(name))
	}
	w.files = os.DirFS(w.root)
	return w
}

// mount does what a hub does with a source.
func (w *world) mount(at kustomizeurl.Remote, files fs.FS, name string) {
	held := fstest.MapFS{} // a mount is of its own folder alone
	_ = fs.WalkDir(files, name, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			data, _ := fs.ReadFile(files, file)
			held[file] = &fstest.MapFile{Data: data}
		}
		return err
	})
	w.mounts = append(w.mounts, render.Mount{At: at.Root(), Path: name, Files: held})
}

func found(t *testing.T, root, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func run(t *testing.T, dir string, command ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

func (w *world) serveGit(t *testing.T, mux *http.ServeMux, url, dir string) {
	t.Helper()
	git := needs.Program(t, "git", "git")
	repositories := filepath.Join(dir, "git")
	for _, name := range found(t, w.root, "remote/git/*/*") {
		work := filepath.Join(dir, "work", filepath.Base(name))
		if err := os.CopyFS(work, os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
		run(t, work, git, "init", "-q")
		run(t, work, git, "add", ".")
		run(t, work, git, "commit", "-qm", "one")
		run(t, work, git, "tag", "v1")
		inside, _ := filepath.Rel(filepath.Join(w.root, "remote", "git"), name)
		run(t, dir, git, "clone", "-q", "--bare", work, filepath.Join(repositories, inside+".git"))
		w.mount(kustomizeurl.Remote{Kind: kustomizeurl.Git, URL: url + "/" + filepath.ToSlash(inside), Ref: "v1"}, os.DirFS(name), ".")
	}
	mux.Handle("/", &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: dir, InheritEnv: []string{"PATH"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + repositories, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
}

func (w *world) serveCharts(t *testing.T, mux *http.ServeMux, url, dir string) {
	t.Helper()
	helm := kustomizetest.Helm()
	packed := filepath.Join(dir, "charts")
	for _, name := range found(t, w.root, "remote/charts/*") {
		at, err := kustomizeurl.Chart(url+"/charts", filepath.Base(name), "1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		w.mount(at, os.DirFS(name), ".")
		if helm != "" {
			run(t, dir, helm, "package", "-d", packed, name)
		}
	}
	if _, err := os.Stat(packed); err == nil {
		run(t, dir, helm, "repo", "index", packed, "--url", url+"/charts")
	}
	mux.Handle("/charts/", http.StripPrefix("/charts/", http.FileServer(http.Dir(packed))))
}

func (w *world) render(t *testing.T, dir string) (*render.Output, error) {
	t.Helper()
	own := fstest.MapFS{}
	err := fs.WalkDir(w.files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name == "remote" {
			return fs.SkipDir
		}
		if err == nil && !entry.IsDir() {
			data, _ := fs.ReadFile(w.files, name)
			own[name] = &fstest.MapFile{Data: data}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	in := mounting(input(render.Kustomize, own), w.mounts...)
	in.Path = dir
	return newRenderer(t).Render(t.Context(), in)
}

// The other side is `kustomize build --enable-helm` with the helm program, which clones, asks and pulls.
func TestRemotesAndChartsRenderAsKustomizeWithHelmDoes(t *testing.T) {
	eachArchive(t, "testdata/remote", func(t *testing.T, files string) {
		w := newWorld(t, files)
		for _, dir := range found(t, w.root, "app*") {
			t.Run(filepath.Base(dir), func(t *testing.T) { w.compare(t, filepath.Base(dir)) })
		}
	})
}

func (w *world) compare(t *testing.T, dir string) {
	t.Helper()
	out, err := w.render(t, dir)
	want, theirs := kustomizetest.BuildWithHelm(t.Context(), filepath.Join(w.root, dir))
	switch {
	case errors.Is(theirs, kustomizetest.ErrMissing) && os.Getenv("CI") != "":
		t.Fatal(theirs)
	case errors.Is(theirs, kustomizetest.ErrMissing):
		t.Skipf("NOT CHECKED: %v", theirs)
	case theirs != nil:
		var exit *exec.ExitError
		_ = errors.As(theirs, &exit)
		t.Errorf("kustomize fails: %s", exit.Stderr)
	case err != nil:
		t.Errorf("we fail and kustomize does not: %v", err)
	default:
		if diff := cmp.Diff(string(want), text(t, out)); diff != "" {
			t.Errorf("kustomize (-kustomize +ours):\n%s", diff)
		}
	}
}

// A kustomization's chart is told of the cluster that it is for, unless the kustomization says otherwise.
func TestAKustomizationsChartSeesTheCluster(t *testing.T) {
	seen := "{{ .Capabilities.KubeVersion }} {{ .Capabilities.APIVersions.Has \"example.org/v9\" }} {{ .Capabilities.APIVersions.Has \"apps/v1\" }}"
	for fields, want := range map[string]string{
		"":                      "v1.31.2 true false",
		", kubeVersion: 1.29.4": "v1.29.4 true false",
		", apiVersions: [a/v1]": "v1.31.2 false true",
	} {
		in := input(render.Kustomize, tree("-- app/kustomization.yaml --\nhelmCharts: [{name: c"+fields+"}]\n-- app/charts/c/Chart.yaml --\n"+
			"{apiVersion: v2, name: c, version: 1.0.0}\n-- app/charts/c/templates/a.yaml --\n"+configMap("a")+"data: {seen: '"+seen+"'}\n"))
		in.KubeVersion, in.APIVersions = "v1.31.2", []string{"example.org/v9"}
		out := mustRender(t, newRenderer(t), in)
		if got, _, _ := unstructured.NestedString(out.Objects[0].Object, "data", "seen"); got != want || !out.Capabilities {
			t.Errorf("with %q it sees %q, want %q; noted: %v", fields, got, want, out.Capabilities)
		}
	}
}

// remote is a mount where a source of this address would be.
func remote(t *testing.T, address string, files fs.FS) render.Mount {
	t.Helper()
	meanings, err := kustomizeurl.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return render.Mount{At: meanings[0].Root(), Path: ".", Files: files}
}

func TestARemoteReadsNoFileOfAnotherThatItDoesNotName(t *testing.T) {
	const private, public = "https://git.example.com/org/private", "https://git.example.com/org/public"
	secret := remote(t, private, tree("-- kustomization.yaml --\nresources: []\n-- values.yaml --\na: secret\n"))
	in := input(render.Kustomize, tree("-- app/kustomization.yaml --\nresources: ['"+private+"//.', '"+public+"//base']\n"))
	in = mounting(in, secret, remote(t, public, tree("-- base/kustomization.yaml --\nconfigMapGenerator: [{name: a, files: [a.b/"+secret.At+"/values.yaml]}]\n")))
	if failed := failure(t, newRenderer(t), in); failed.Reason != render.Invalid || strings.Contains(failed.Error(), "secret") {
		t.Errorf("%s: %v", failed.Reason, failed)
	}
}

func TestOnlyReferencesAreTakenForAddressesInWhateverCase(t *testing.T) {
	const address = "https://git.example.com/org/lib"
	in := input(render.Kustomize, tree("-- app/kustomization.yaml --\nResources: ['"+address+"//base']\ncommonAnnotations: {source: '"+address+"//base'}\n"))
	in = mounting(in, remote(t, address, tree("-- base/kustomization.yaml --\nresources: [x.yaml]\n-- base/x.yaml --\n"+configMap("x"))))
	out, err := newRenderer(t).Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Objects) != 1 || out.Objects[0].GetAnnotations()["source"] != address+"//base" {
		t.Errorf("%v", out.Objects)
	}
}

func TestRemotesStayInTheirOwnRepositoryAndEnd(t *testing.T) {
	const address = "https://git.example.com/org/lib"
	for name, test := range map[string]struct{ own, lib, place, want string }{
		"climbs out": {
			"-- app/kustomization.yaml --\nresources: ['ADDRESS//base']\n-- own/kustomization.yaml --\n",
			"-- base/kustomization.yaml --\nresources:\n- ../../../own\n", "base/kustomization.yaml:2", "outside the repository",
		},
		"takes values from elsewhere": {
			"-- app/kustomization.yaml --\nresources: ['ADDRESS//base']\n-- own/values.yaml --\na: b\n",
			"-- base/kustomization.yaml --\nhelmCharts:\n- {name: c, valuesFile: ../../../own/values.yaml}\n-- base/charts/c/Chart.yaml --\nname: c\n",
			"base/kustomization.yaml:1", "outside the repository",
		},
		"takes a chart from elsewhere": {
			"-- app/kustomization.yaml --\nresources: ['ADDRESS//base']\n-- own/c/Chart.yaml --\nname: c\n",
			"-- base/kustomization.yaml --\nhelmGlobals: {chartHome: ../../../own}\nhelmCharts:\n- {name: c}\n",
			"base/kustomization.yaml:2", "outside the repository",
		},
		"goes in a circle": {
			"-- app/kustomization.yaml --\nresources: ['ADDRESS//a']\n",
			"-- a/kustomization.yaml --\nresources: ['ADDRESS//b']\n-- b/kustomization.yaml --\nresources: ['ADDRESS//a']\n", "", "cycle",
		},
		"names another that is not here": {
			"-- app/kustomization.yaml --\nresources: ['ADDRESS//a']\n",
			"-- a/kustomization.yaml --\nresources: ['https://git.example.com/org/other?ref=v1']\n", "a/kustomization.yaml:1",
			"plural source add NAME --git https://git.example.com/org/other --ref v1",
		},
		"a chart of two minds": {
			"-- app/kustomization.yaml --\nresources: [../one, ../two]\n-- one/kustomization.yaml --\nnamespace: one\nresources: ['ADDRESS//a']\n" +
				"-- two/kustomization.yaml --\nnamespace: two\nnamePrefix: x-\nresources: ['ADDRESS//a']\n",
			"-- a/kustomization.yaml --\nhelmCharts: [{name: c}]\n-- a/charts/c/Chart.yaml --\n{apiVersion: v2, name: c, version: 1.0.0}\n",
			"a/kustomization.yaml:1", "from the namespaces one, two",
		},
		"a mistake beside a chart": {
			"-- app/kustomization.yaml --\nresources: [../one, ../two]\n-- one/kustomization.yaml --\nhelmCharts: [{name: c}]\n" +
				"-- one/charts/c/Chart.yaml --\n{apiVersion: v2, name: c, version: 1.0.0}\n-- two/kustomization.yaml --\nresources:\n- missing.yaml\n",
			"", "two/kustomization.yaml:2", `"missing.yaml" does not exist`,
		},
		"a bomb of values": {
			"-- app/kustomization.yaml --\nhelmCharts: [{name: c, valuesFile: bomb.yaml}]\n-- app/charts/c/Chart.yaml --\nname: c\n-- app/bomb.yaml --\n" + bomb(9),
			"", "", "aliases add more than",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(render.Kustomize, tree(strings.ReplaceAll(test.own, "ADDRESS", address)))
			if test.lib != "" {
				in = mounting(in, remote(t, address, tree(strings.ReplaceAll(test.lib, "ADDRESS", address))))
			}
			failed := failure(t, newRenderer(t), in)
			if failed.Reason == render.Crash || failed.Reason == render.Limit || !strings.Contains(failed.Error(), test.want) || !strings.Contains(failed.Error(), test.place) {
				t.Errorf("%s: %v", failed.Reason, failed)
			}
		})
	}
}

func TestObjectsOfRemotesAndChartsSayWhereTheyWereWritten(t *testing.T) {
	const address = "https://git.example.com/org/lib"
	lib := remote(t, address, tree("-- a/kustomization.yaml --\nresources: [x.yaml]\n-- a/x.yaml --\n"+configMap("x")))
	out := mustRender(t, newRenderer(t), mounting(input(render.Kustomize, tree(
		"-- app/kustomization.yaml --\nresources: ['"+address+"//a']\nhelmCharts: [{name: c}]\n"+
			"-- app/charts/c/Chart.yaml --\n{apiVersion: v2, name: c, version: 1.0.0}\n-- app/charts/c/values.yaml --\n-- app/charts/c/templates/y.yaml --\n"+configMap("y"))), lib))
	want := []render.Origin{{File: lib.At + "/a/x.yaml", Line: 1}, {File: "app/kustomization.yaml"}}
	if diff := cmp.Diff(want, out.Origins); diff != "" {
		t.Error(diff)
	}
}
