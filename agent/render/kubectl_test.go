package render_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/kustomizetest"
	"github.com/pluralsh/plural/test/support/needs"
)

// neitherRenders says of the folders that neither renders what stands in both complaints.
func neitherRenders(t *testing.T) string {
	_, test, _ := strings.Cut(t.Name(), "/")
	repository, kind, _ := strings.Cut(test, "-kustomize-base/")
	switch _, protocol, _ := strings.Cut(repository, "/cases/"); {
	case test == "conflict":
		return "may not add resource with an already registered id: ConfigMap.v1.[noGrp]/a.[noNs]"
	case strings.HasSuffix(test, "/invalid-kustomize"):
		return "does-not-exist.yaml"
	case kind != "": // localhost or argocd-e2e-server, neither of which is there
		return protocol + "://"
	}
	return ""
}

// sameAsKubectl renders a folder twice, and wants the same bytes, or two failures for one reason.
func sameAsKubectl(t *testing.T, root, dir string) {
	t.Helper()
	in := input(render.Kustomize, os.DirFS(root))
	in.Path = dir
	out, err := newRenderer(t).Render(t.Context(), in)
	want, theirs := kustomizetest.BuildWithHelm(t.Context(), filepath.Join(root, dir))
	switch {
	case errors.Is(theirs, kustomizetest.ErrMissing) && os.Getenv("CI") != "":
		t.Fatal(theirs)
	case errors.Is(theirs, kustomizetest.ErrMissing):
		t.Skipf("NOT CHECKED: %v", theirs)
	case err != nil && theirs == nil:
		t.Errorf("we fail and kubectl does not: %v", err)
	case theirs != nil:
		var exit *exec.ExitError
		if !errors.As(theirs, &exit) {
			t.Fatal(theirs)
		}
		reason := neitherRenders(t)
		if reason == "" || err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(string(exit.Stderr), reason) {
			t.Errorf("both should fail with %q\nwe:      %v\nkubectl: %s", reason, err, exit.Stderr)
		}
	default:
		if diff := cmp.Diff(string(want), text(t, out)); diff != "" {
			t.Errorf("kustomize (-kubectl +ours):\n%s", diff)
		}
	}
}

func TestKustomizeEqualsKubectlByteForByte(t *testing.T) {
	eachArchive(t, "testdata/kustomize", func(t *testing.T, files string) {
		root := t.TempDir()
		if err := os.CopyFS(root, tree(files)); err != nil {
			t.Fatal(err)
		}
		sameAsKubectl(t, root, "app")
	})
}

// eachArchive runs a test for each archive in a folder, of which there is one at least.
func eachArchive(t *testing.T, dir string, run func(t *testing.T, files string)) {
	t.Helper()
	archives, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("%d archives, error %v", len(archives), err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			run(t, string(data))
		})
	}
}

// folders finds the folders of a repository that hold one of the named files.
func folders(t *testing.T, root string, names ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, name := range names {
			if !entry.IsDir() && entry.Name() == name {
				dir, err := filepath.Rel(root, filepath.Dir(file))
				found = append(found, filepath.ToSlash(dir))
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

func TestCorpusKustomizationsEqualKubectl(t *testing.T) {
	root := needs.Corpus(t)
	for _, dir := range folders(t, root, kustomizationFiles...) {
		t.Run(dir, func(t *testing.T) {
			repository, inside, _ := strings.Cut(dir, "/")
			sameAsKubectl(t, filepath.Join(root, repository), inside)
		})
	}
}

func TestCorpusRendersOrFailsWithATypedError(t *testing.T) {
	root := needs.Corpus(t)
	dirs := append(folders(t, root, append(kustomizationFiles, "Chart.yaml")...), cases(t, root)...)
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			repository, inside, _ := strings.Cut(dir, "/")
			in := input(told(root, dir), os.DirFS(filepath.Join(root, repository)))
			in.Path, in.KubeVersion = inside, "v1.35.4"
			out, err := newRenderer(t).Render(t.Context(), in)
			var failed *render.Error
			switch {
			case err == nil:
				t.Logf("%s: %d objects", in.Renderer, len(out.Objects))
			case !errors.As(err, &failed), failed.Reason == render.Crash, failed.File == "":
				t.Errorf("%s: %v", in.Renderer, err)
			default:
				t.Logf("%s fails: %s: %v", in.Renderer, failed.Reason, failed)
			}
		})
	}
}

func cases(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "argo-cd-e2e", "cases"))
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, entry := range entries {
		dir := path.Join("argo-cd-e2e", "cases", entry.Name())
		if entry.IsDir() && told(root, dir) == render.Raw {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// told is the renderer that a folder's files name by themselves.
func told(root, dir string) string {
	for _, file := range append(kustomizationFiles, "Chart.yaml") {
		if _, err := os.Stat(filepath.Join(root, dir, file)); err == nil {
			if file == "Chart.yaml" {
				return render.HelmChart
			}
			return render.Kustomize
		}
	}
	return render.Raw
}
