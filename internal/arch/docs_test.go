package arch

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link       = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
	makeTarget = regexp.MustCompile("(?m)(?:`|^)make ([a-z/-]+)")
	sourceFile = regexp.MustCompile("`([a-z][a-z0-9]*/[A-Za-z0-9_/.-]*\\.(?:go|proto))`")
)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	eachDocument(t, func(name, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := path.Join(path.Dir(name), m[1])
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			}
		}
	})
}

func TestSourceFilesNamedInDocumentsExist(t *testing.T) {
	eachDocument(t, func(name, text string) {
		for _, m := range sourceFile.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	})
}

func TestMakeTargetsNamedInDocumentsExist(t *testing.T) {
	makefile := "\n" + read(t, "Makefile")
	eachDocument(t, func(name, text string) {
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+": ") {
				t.Errorf("%s names make %s, which the Makefile does not have", name, m[1])
			}
		}
	})
}

func TestEveryDirectDependencySaysWhatItIsFor(t *testing.T) {
	var required []string
	for _, r := range requirements(t, "go.mod") {
		if !r.Indirect {
			required = append(required, r.Path)
		}
	}
	rows, err := tableAfter(read(t, "docs/dependencies.md"), "## Direct dependencies")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, r := range rows {
		explained = append(explained, codes(r[0])...)
	}
	for _, m := range missing(required, explained) {
		t.Errorf("go.mod requires %s: docs/dependencies.md does not say what for", m)
	}
	for _, m := range missing(explained, required) {
		t.Errorf("docs/dependencies.md explains %s, which go.mod does not require", m)
	}
}

func TestReleaseSaysTheKubernetesVersionOfLocalkube(t *testing.T) {
	required := requirements(t, "localkube/go.mod")
	i := slices.IndexFunc(required, func(r requirement) bool { return r.Path == "k8s.io/kubernetes" })
	if i < 0 {
		t.Fatal("localkube/go.mod does not require k8s.io/kubernetes")
	}
	want := "gitVersion=" + required[i].Version
	if !strings.Contains(read(t, ".goreleaser.yaml"), want+"\n") {
		t.Errorf(".goreleaser.yaml does not set %s", want)
	}
}

type requirement struct {
	Path, Version string
	Indirect      bool
}

func requirements(t *testing.T, gomod string) []requirement {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", gomod)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read %s: %v", gomod, err)
	}
	var mod struct{ Require []requirement }
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatalf("read %s: %v", gomod, err)
	}
	return mod.Require
}

// eachDocument hands over every markdown file at the top and below docs/.
func eachDocument(t *testing.T, visit func(name, text string)) {
	t.Helper()
	tree := os.DirFS(root)
	top, err := fs.Glob(tree, "*.md")
	below := fs.WalkDir(tree, "docs", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			top = append(top, name)
		}
		return err
	})
	if err := cmp.Or(err, below); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, name := range top {
		visit(name, read(t, name))
	}
}
