package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// root is the top of the tree: go test runs a package's tests in its folder.
const root = "../.."

func TestArrowTableMatchesCode(t *testing.T) {
	doc := read(t, "docs/architecture.md")
	drawn, err := roomTable(doc)
	if err != nil {
		t.Fatalf("docs/architecture.md: %v", err)
	}
	laws, err := lawTable(doc)
	if err != nil {
		t.Fatalf("docs/architecture.md: %v", err)
	}
	allowed, err := allowanceTable(doc)
	if err != nil {
		t.Fatalf("docs/architecture.md: %v", err)
	}
	for _, d := range differences(drawn, laws, allowed, tree(t)) {
		t.Error(d)
	}
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	for _, p := range tree(t) {
		if fault := commentFault(p); fault != "" {
			t.Error(fault)
		}
	}
}

// largeRoom is how many lines a package may have that says nothing of its size.
const largeRoom = 2500

func TestLargeRoomsSayWhyTheyAreOne(t *testing.T) {
	rows, err := tableAfter(read(t, "docs/architecture.md"), "## Large rooms")
	if err != nil {
		t.Fatalf("docs/architecture.md: %v", err)
	}
	reasons := map[string]string{}
	for _, r := range rows {
		reasons[codes(r[0])[0]] = r[1]
	}
	for _, p := range tree(t) {
		switch {
		case p.lines > largeRoom && reasons[p.dir] == "":
			t.Errorf("%s has %d lines: part it, or say in docs/architecture.md why it is one package", p.dir, p.lines)
		case p.lines <= largeRoom && reasons[p.dir] != "":
			t.Errorf("%s has %d lines: docs/architecture.md need not say why it is large", p.dir, p.lines)
		}
		delete(reasons, p.dir)
	}
	for dir := range reasons {
		t.Errorf("docs/architecture.md says why %s is large, which is no package", dir)
	}
}

func TestProgramsLinkNothingTheyPromisedToLeaveOut(t *testing.T) {
	rows, err := tableAfter(read(t, "docs/architecture.md"), "## Programs")
	if err != nil {
		t.Fatalf("docs/architecture.md: %v", err)
	}
	for _, r := range rows {
		program := codes(r[0])[0]
		linked := dependencies(t, program)
		for _, banned := range codes(r[1]) {
			for _, dep := range linked {
				if dep == banned || strings.HasPrefix(dep, banned+"/") {
					t.Errorf("%s links %s, which docs/architecture.md says it never does (%s)", program, dep, r[2])
				}
			}
		}
	}
}

func TestUnlistedArrowsAreFound(t *testing.T) {
	code, err := scan(fstest.MapFS{
		"a/a.go":              goFile("a", "b", "gone/../b"),
		"a/a_test.go":         goFile("a", "kit"),
		"a/a_darwin.go":       goFile("a", "c"),
		"b/b.go":              goFile("b"),
		"c/c.go":              goFile("c"),
		"kit/kit.go":          goFile("kit"),
		"hub/x/x.go":          goFile("x", "hub/y", "hub/z"),
		"hub/z/z.go":          goFile("z"),
		"hub/y/y.go":          goFile("y"),
		"a/testdata/t.go":     goFile("t", "b"),
		"tools/lint/go.mod":   {Data: []byte("module lint")},
		"tools/lint/main.go":  goFile("main", "b"),
		"localkube/go.mod":    {Data: []byte("module localkube")},
		"localkube/sim/s.go":  goFile("sim", "localkube/up"),
		"localkube/up/up.go":  goFile("up", "a"),
		"localkube/.x/bad.go": {Data: []byte("not go")},
	})
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]arrows{
		"a": {code: []string{"b", "old"}, tests: []string{"stale"}}, "b": {}, "c": {}, "kit": {}, "localkube": {},
		"hub/x": {code: []string{"hub/y", "hub/z"}}, "hub/z": {}, "gone": {},
	}
	got := differences(drawn, []law{{from: []string{"hub/*"}, to: []string{"hub/*"}}}, map[string][]string{"hub/x": {"hub/z"}}, code)
	want := []string{
		"a -> c: imported, not in the table",
		"a -> gone/../b: imported, not in the table",
		"a -> old: in the table, imported by nobody",
		`a -> kit: imported by a test, not in the table after "tests:"`,
		`a -> stale: in the table after "tests:", imported by no test`,
		"hub/x -> hub/y: against the law that hub/* never import hub/*",
		"hub/y: no row in the table: add | `hub/y` | nothing of ours | what it owns |",
		"localkube -> a: imported, not in the table",
		"gone: the table has a room that the code does not have",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

func TestPackageCommentsAreHeldToTheirForm(t *testing.T) {
	for name, tc := range map[string]struct {
		pkg  pkg
		want string
	}{
		"good":           {pkg{dir: "a", name: "a", docs: []string{"Package a owns letters.\n"}}, ""},
		"command":        {pkg{dir: "cmd/x", name: "main", docs: []string{"Command x starts.\n"}}, ""},
		"only tests":     {pkg{dir: "test/e2e"}, ""},
		"none":           {pkg{dir: "a", name: "a"}, "a: 0 package comments, want one"},
		"two":            {pkg{dir: "a", name: "a", docs: []string{"Package a.", "Package a."}}, "a: 2 package comments, want one"},
		"about a sister": {pkg{dir: "a", name: "a", docs: []string{"Package b owns."}}, `a: package comment starts "Package b owns.", want "Package a " and what it owns`},
	} {
		if got := commentFault(&tc.pkg); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestPatternsMatchRooms(t *testing.T) {
	for _, tc := range []struct {
		pattern, room string
		want          bool
	}{
		{"agent", "agent", true},
		{"agent", "agent/link", false},
		{"agent/...", "agent", true},
		{"agent/...", "agent/link", true},
		{"agent/...", "agents", false},
		{"hubsvc/*", "hubsvc", false},
		{"hubsvc/*", "hubsvc/view", true},
		{"hubsvc/*", "hubsvc/view/row", false},
	} {
		if got := matches(tc.pattern, tc.room); got != tc.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tc.pattern, tc.room, got, tc.want)
		}
	}
}

func goFile(name string, rooms ...string) *fstest.MapFile {
	var b strings.Builder
	b.WriteString("// Package " + name + " is a room.\npackage " + name + "\n")
	for _, r := range rooms {
		b.WriteString("import _ \"" + module + "/" + r + "\"\n")
	}
	return &fstest.MapFile{Data: []byte(b.String())}
}

func tree(t *testing.T) []*pkg {
	t.Helper()
	code, err := scan(os.DirFS(root))
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	return code
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func dependencies(t *testing.T, program string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+program)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", program, err, stderr.String())
	}
	return strings.Fields(string(out))
}
