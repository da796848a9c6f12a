package packs_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/packs"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
	"github.com/pluralsh/plural/workspace/solve"
)

// world is a repository in memory, with a catalog.
type world struct {
	t       *testing.T
	files   map[string][]byte
	catalog fstest.MapFS
	past    pkgupgrade.Past
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, files: map[string][]byte{}, catalog: fstest.MapFS{}}
	for name, into := range map[string]func(name string, data []byte){
		"testdata/repo.txtar":    func(name string, data []byte) { w.files[name] = data },
		"testdata/catalog.txtar": func(name string, data []byte) { w.catalog[name] = &fstest.MapFile{Data: data} },
	} {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			into(f.Name, f.Data)
		}
	}
	return w
}

func (w *world) repo() fs.FS { return overlay.New(fstest.MapFS{}, w.files) }

func (w *world) shelf() *packs.Snapshot {
	w.t.Helper()
	loaded, err := fleet.Load(w.repo())
	if err != nil {
		w.t.Fatal(err)
	}
	lock, err := lockfile.Load(w.repo())
	if err != nil {
		w.t.Fatal(err)
	}
	return &packs.Snapshot{
		World:    &compose.World{Fleet: loaded, Repo: w.repo(), Lock: lock},
		Catalogs: catalog.All(catalog.Folder("main", w.catalog)), Past: w.past,
	}
}

func (w *world) apply(changes map[string][]byte) {
	for path, text := range changes {
		if text == nil {
			delete(w.files, path)
			continue
		}
		w.files[path] = text
	}
}

// add answers the questions of what is asked for, and of what comes with it.
func (w *world) add(answers map[string]map[string]any, wanted ...packs.Wanted) *pkgupgrade.Result {
	w.t.Helper()
	p, err := w.shelf().Add(context.Background(), wanted...)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, pick := range p.Changed() {
		if err := p.Answer(pick, answers[pick.As]); err != nil {
			w.t.Fatal(err)
		}
	}
	return w.plan(p)
}

func (w *world) plan(p *packs.Proposal) *pkgupgrade.Result {
	w.t.Helper()
	r, err := p.Plan(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(r.Changes)
	return r
}

func web() map[string]map[string]any {
	return map[string]map[string]any{"web": {"domain": "example.org"}}
}

func wanted(text string) packs.Wanted { return packs.ParseWanted(text) }

func versionsOf(w *world) map[string]string {
	all := map[string]string{}
	for _, e := range w.shelf().World.Lock.Packages {
		all[e.Name] = e.Version
	}
	return all
}

func TestAPackageComesWithAllThatItNeeds(t *testing.T) {
	w := start(t)
	p, err := w.shelf().Add(context.Background(), wanted("web@^1"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pick := range p.Changed() {
		got = append(got, pick.As+" "+pick.Version+" for "+strings.Join(pick.For, ", "))
	}
	want := []string{"cache 1.1.0 for web 1.1.0", "web 1.1.0 for plural package add web@^1"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	r := w.add(web(), wanted("web@^1"))
	if !strings.HasPrefix(r.Message, "Add package web 1.1.0, with 1 that it needs\n") || strings.Contains(r.Message, pkgupgrade.Trailer) {
		t.Errorf("message %q", r.Message)
	}
	for file, want := range map[string]string{
		"packages/web/values.yaml":    "domain: example.org\n",
		"packages/web/package.yaml":   "apiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata:\n  name: web\nspec:\n  version: ^1\n",
		"packages/cache/package.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata:\n  name: cache\n",
	} {
		if d := cmp.Diff(want, string(w.files[file])); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
	if len(w.files["packages/cache/values.secret.yaml"]) < 32 {
		t.Errorf("no secret was made up: %q", w.files["packages/cache/values.secret.yaml"])
	}
	if !strings.Contains(string(w.files["packages/web/services.yaml"]), "example.org") || len(w.files["packages/web/payload/manifests/web.yaml"]) == 0 {
		t.Errorf("what the package is, is not there: %v", slices.Sorted(maps.Keys(w.files)))
	}
	e, _ := w.shelf().World.Lock.Entry("web")
	if d := cmp.Diff(map[string]string{"cache": "cache"}, e.Requires); d != "" {
		t.Error(d)
	}
	before := maps.Clone(w.files)
	again, err := w.shelf().Upgrade(context.Background(), []string{"web", "cache"}, "")
	if err != nil || !again.Idle() {
		t.Errorf("not idle: %v %+v", err, again)
	}
	if _, err := w.shelf().Add(context.Background(), wanted("web")); err == nil || !strings.Contains(err.Error(), "web is there already") {
		t.Errorf("added again: %v", err)
	}
	if d := cmp.Diff(before, w.files); d != "" {
		t.Error(d)
	}
}

func TestAnotherInstallationOfTheSamePackageHasItsOwnAnswers(t *testing.T) {
	w := start(t)
	w.add(web(), wanted("web@^1"))
	second := wanted("web@^1")
	second.As = "shop"
	second.Clusters.Names = []string{"edge-1"}
	w.add(map[string]map[string]any{"shop": {"domain": "shop.org"}}, second)
	if got := string(w.files["packages/shop/package.yaml"]); !strings.Contains(got, "package: web\n") || !strings.Contains(got, "- edge-1\n") {
		t.Errorf("%s", got)
	}
	if !strings.Contains(string(w.files["packages/shop/services.yaml"]), "shop.org") {
		t.Errorf("%s", w.files["packages/shop/services.yaml"])
	}
}

func TestWhatDoesNotFitIsExplained(t *testing.T) {
	w := start(t)
	w.add(web(), wanted("web@^1"))
	_, err := w.shelf().Add(context.Background(), wanted("modern"))
	var conflict *solve.ConflictError
	if !errors.As(err, &conflict) {
		// modern needs cache 2, which web 1 cannot have: web is asked for as ^1
		t.Fatalf("%v", err)
	}
	if _, err := w.shelf().Add(context.Background(), wanted("nothing")); err == nil {
		t.Error("a package that is nowhere was added")
	}
}

func TestAnswersAreJudgedBeforeAnythingIsPlanned(t *testing.T) {
	w := start(t)
	p, err := w.shelf().Add(context.Background(), wanted("web@^1"))
	if err != nil {
		t.Fatal(err)
	}
	pick := p.Changed()[1]
	answers, err := p.Judge(pick, nil)
	if err != nil || len(answers.Missing) != 1 || answers.Missing[0].Name != "domain" {
		t.Errorf("missing %v %v", answers, err)
	}
	var fault *packages.AnswerError
	if _, err := p.Judge(pick, map[string]any{"domain": "NO"}); !errors.As(err, &fault) {
		t.Errorf("%v", err)
	}
	if err := p.Answer(p.Changed()[0], nil); err != nil {
		t.Fatal(err)
	}
	var missing *compose.MissingError
	if _, err := p.Plan(context.Background()); !errors.As(err, &missing) {
		t.Errorf("planned without an answer: %v", err)
	}
}

func TestAnUpgradeKeepsWhatPeopleChanged(t *testing.T) {
	w := start(t)
	newest := maps.Clone(w.catalog)
	maps.DeleteFunc(w.catalog, func(name string, _ *fstest.MapFile) bool {
		return strings.HasPrefix(name, "web/1.1.0/") || strings.HasPrefix(name, "cache/1.1.0/")
	})
	w.add(web(), wanted("web@^1"))
	w.catalog = newest
	file := "packages/web/payload/manifests/web.yaml"
	w.files[file] = []byte(strings.Replace(string(w.files[file]), "replicas: 1", "replicas: 7", 1))
	p, err := w.shelf().Upgrade(context.Background(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	r := w.plan(p)
	if got := string(w.files[file]); !strings.Contains(got, "replicas: 7") || !strings.Contains(got, "image: web:1.1") {
		t.Errorf("%s", got)
	}
	for _, trailer := range []string{"Plural-Upgrade: web 1.0.0 -> 1.1.0\n", "Plural-Upgrade: cache 1.0.0 -> 1.1.0"} {
		if !strings.Contains(r.Message+"\n", trailer) {
			t.Errorf("message %q", r.Message)
		}
	}
	if d := cmp.Diff(map[string]string{"web": "1.1.0", "cache": "1.1.0"}, versionsOf(w)); d != "" {
		t.Error(d)
	}
	if string(w.files["packages/web/values.yaml"]) != "domain: example.org\n" {
		t.Error("the answers were lost")
	}
}

func TestAnUpgradeStaysWithTheCatalogThatThePackageCameFrom(t *testing.T) {
	w := start(t)
	w.add(web(), wanted("web@1.0.0"))
	delete(w.files, "packages/web/package.yaml")
	w.files["packages/web/package.yaml"] = []byte("apiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata: {name: web}\n")
	text := strings.Replace(string(w.catalog["web/1.0.0/package.yaml"].Data), "version: 1.0.0", "version: 1.0.9", 1)
	theirs := fstest.MapFS{
		"web/package.yaml": {Data: []byte(text)}, "web/manifests/web.yaml": w.catalog["web/1.0.0/manifests/web.yaml"],
	}
	shelf := w.shelf()
	shelf.Catalogs = catalog.All(catalog.Folder("theirs", theirs), catalog.Folder("main", w.catalog))
	p, err := shelf.Upgrade(context.Background(), []string{"web"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, pick := range p.Changed() {
		if pick.Catalog != "main" {
			t.Errorf("%s %s comes from %s", pick.As, pick.Version, pick.Catalog)
		}
	}
	for path, file := range w.catalog {
		if strings.HasPrefix(path, "cache/") {
			theirs[path] = file
		}
	}
	shelf.Catalogs = catalog.All(catalog.Folder("theirs", theirs))
	if p, err = shelf.Upgrade(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	if changed := p.Changed(); !slices.ContainsFunc(changed, func(pick *packs.Pick) bool { return pick.As == "web" && pick.Version == "1.0.9" }) {
		t.Errorf("the catalog is gone, and yet: %v", changed)
	}
}

func TestChangesOfTheSameLinesAreConflicts(t *testing.T) {
	w := start(t)
	newest := maps.Clone(w.catalog)
	maps.DeleteFunc(w.catalog, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, "web/1.1.0/") })
	w.add(web(), wanted("web@^1"))
	w.catalog = newest
	file := "packages/web/payload/manifests/web.yaml"
	w.files[file] = []byte(strings.Replace(string(w.files[file]), "web:1.0", "mine:1.0", 1))
	p, err := w.shelf().Upgrade(context.Background(), []string{"web"}, "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Plan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{file}, r.Conflicts); d != "" {
		t.Error(d)
	}
	if got := string(r.Changes[file]); !strings.Contains(got, "<<<<<<< ") || !strings.Contains(got, "mine:1.0") || !strings.Contains(got, "web:1.1") {
		t.Errorf("%s", got)
	}
	for path := range r.Changes {
		if strings.HasSuffix(path, "services.yaml") {
			t.Errorf("%s was composed from files in conflict", path)
		}
	}
}

func TestWhatBreaksWaitsForAgreement(t *testing.T) {
	w := start(t)
	w.add(nil, wanted("cache"))
	// cache 2 breaks, so the newest below it is the best that nobody has to agree to.
	delete(w.files, "packages/cache/package.yaml")
	w.files["packages/cache/package.yaml"] = []byte("# ours\napiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata: {name: cache}\n")
	if _, err := w.shelf().Upgrade(context.Background(), nil, "1.0.0"); err == nil {
		t.Error("a version for every package")
	}
	p, err := w.shelf().Upgrade(context.Background(), []string{"cache"}, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	w.plan(p)
	if p, err = w.shelf().Upgrade(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	if len(p.Held) != 1 || p.Held[0].Version != "2.0.0" || p.Held[0].Instead != "plural package upgrade cache --to 2.0.0" {
		t.Errorf("held %+v", p.Held)
	}
	w.plan(p)
	if d := cmp.Diff(map[string]string{"cache": "1.1.0"}, versionsOf(w)); d != "" {
		t.Error(d)
	}
	if p, err = w.shelf().Upgrade(context.Background(), []string{"cache"}, "2.0.0"); err != nil {
		t.Fatal(err)
	}
	r := w.plan(p)
	if d := cmp.Diff([]string{"cache breaks since 2.0.0: The keys are others.\nPlural-Upgrade: web 0.0.1 -> 9.9.9"}, r.Notes); d != "" {
		t.Error(d)
	}
	if strings.Contains(r.Message, "\nPlural-Upgrade: web") || !strings.HasSuffix(r.Message, "\nPlural-Upgrade: cache 1.1.0 -> 2.0.0") {
		t.Errorf("a note passes for a trailer: %q", r.Message)
	}
	if got := string(w.files["packages/cache/package.yaml"]); !strings.Contains(got, "# ours\n") || !strings.Contains(got, "- 2.0.0") {
		t.Errorf("the agreement is not written down: %s", got)
	}
}

func TestAnswersAreChangedInPlace(t *testing.T) {
	w := start(t)
	w.add(web(), wanted("web@^1"))
	w.files["packages/web/values.yaml"] = []byte("# where it is\ndomain: example.org # ours\n")
	changes, err := w.shelf().Set("web", map[string]any{"domain": "example.com", "replicas": int64(3)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("# where it is\ndomain: example.com # ours\nreplicas: 3\n", string(changes["packages/web/values.yaml"])); d != "" {
		t.Error(d)
	}
	if !strings.Contains(string(changes["packages/web/services.yaml"]), "example.com") {
		t.Errorf("services %s", changes["packages/web/services.yaml"])
	}
	w.apply(changes)
	if changes, err = w.shelf().Set("web", map[string]any{"domain": "example.com"}, nil); err != nil || len(changes) > 0 {
		t.Errorf("the same once more changes %v %v", slices.Collect(maps.Keys(changes)), err)
	}
	if changes, err = w.shelf().Set("web", nil, []string{"replicas"}); err != nil || strings.Contains(string(changes["packages/web/values.yaml"]), "replicas") {
		t.Errorf("%s %v", changes["packages/web/values.yaml"], err)
	}
	for name, given := range map[string]map[string]any{"pattern": {"domain": "NO"}, "unknown": {"domian": "x"}, "type": {"replicas": "x"}} {
		var fault *packages.AnswerError
		if _, err := w.shelf().Set("web", given, nil); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.shelf().Set("web", nil, []string{"domain"}); err == nil {
		t.Error("an answer that must be there was taken away")
	}
	changes, err = w.shelf().Set("cache", map[string]any{"password": "correct horse"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range changes {
		if strings.Contains(string(text), "correct horse") && !strings.HasSuffix(path, ".secret.yaml") {
			t.Errorf("%s holds the secret", path)
		}
	}
}

func TestAPackageThatOthersNeedStays(t *testing.T) {
	w := start(t)
	w.add(web(), wanted("web@^1"))
	var needed *packs.NeededError
	if _, err := w.shelf().Remove("cache"); !errors.As(err, &needed) || needed.By[0] != "web" {
		t.Errorf("%v", err)
	}
	r, err := w.shelf().Remove("web")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"cache"}, r.Idle); d != "" {
		t.Error(d)
	}
	w.apply(r.Changes)
	for path := range w.files {
		if strings.HasPrefix(path, "packages/web/") {
			t.Errorf("%s is left", path)
		}
	}
	w.files["packages/cache/package.yaml"] = []byte(strings.TrimSuffix(string(w.files["packages/cache/package.yaml"]),
		"\n") + "\nspec: {protected: true}\n")
	if _, err := w.shelf().Remove("cache"); err == nil || !strings.Contains(err.Error(), "is protected") {
		t.Errorf("%v", err)
	}
	w.files["packages/cache/package.yaml"] = []byte(strings.TrimSuffix(string(w.files["packages/cache/package.yaml"]),
		"\nspec: {protected: true}\n"))
	payload := "packages/cache/payload/package.yaml"
	w.files[payload] = []byte(strings.Replace(string(w.files[payload]), "spec:\n", "spec:\n  protected: true\n", 1))
	if _, err := w.shelf().Remove("cache"); err == nil || !strings.Contains(err.Error(), "is protected by its package") {
		t.Errorf("%v", err)
	}
	if _, err := w.shelf().Remove("nothing"); err == nil {
		t.Error("what is not there was removed")
	}
}

func TestWhatDidWithoutAPackageIsComposedAnew(t *testing.T) {
	w := start(t)
	w.add(nil, wanted("tracing"))
	w.add(web(), wanted("web@^1"))
	if got := string(w.files["packages/web/services.yaml"]); !strings.Contains(got, "http://tracing") {
		t.Fatalf("%s", got)
	}
	r, err := w.shelf().Remove("tracing")
	if err != nil {
		t.Fatal(err)
	}
	w.apply(r.Changes)
	if got := string(w.files["packages/web/services.yaml"]); strings.Contains(got, "http://tracing") {
		t.Errorf("%s", got)
	}
	if e, _ := w.shelf().World.Lock.Entry("web"); len(e.Requires) != 1 {
		t.Errorf("the lock says %v", e.Requires)
	}
}

func TestAVersionThatIsInNoCatalogAnyMoreIsFoundInTheHistory(t *testing.T) {
	w := start(t)
	newest := maps.Clone(w.catalog)
	maps.DeleteFunc(w.catalog, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, "web/1.1.0/") })
	w.add(web(), wanted("web@^1"))
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	commit := func() {
		t.Helper()
		for name, text := range w.files {
			at := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		git("add", "-A")
		git("commit", "-qm", "state")
	}
	git("init", "-q")
	commit()
	file := "packages/web/payload/manifests/web.yaml"
	w.files[file] = []byte(strings.Replace(string(w.files[file]), "replicas: 1", "replicas: 7", 1))
	commit()
	w.catalog = newest
	maps.DeleteFunc(w.catalog, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, "web/1.0.0/") })

	p, err := w.shelf().Upgrade(context.Background(), []string{"web"}, "")
	if err != nil {
		t.Fatal(err)
	}
	var gone *pkgupgrade.BaseError
	if _, err := p.Plan(context.Background()); !errors.As(err, &gone) {
		t.Fatalf("%v", err)
	}
	w.past = packs.History(dir)
	if p, err = w.shelf().Upgrade(context.Background(), []string{"web"}, ""); err != nil {
		t.Fatal(err)
	}
	w.plan(p)
	if got := string(w.files[file]); !strings.Contains(got, "replicas: 7") || !strings.Contains(got, "image: web:1.1") {
		t.Errorf("%s", got)
	}
}
