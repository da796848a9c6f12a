package resolve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/needs"
)

func TestOverlaysOfARealRepositoryResolveUnedited(t *testing.T) {
	snap := open(t, filepath.Join(needs.Corpus(t), "flux2-kustomize-helm-example"))
	for dir, want := range map[string][]string{
		"apps/production":            {"apps/base/podinfo", "apps/production"},
		"apps/staging":               {"apps/base/podinfo", "apps/staging"},
		"infrastructure/controllers": {"infrastructure/controllers"},
	} {
		found, fault := New().filesOf(serviceAt(dir), &view{repo: snap})
		if fault != nil {
			t.Errorf("%s: %s: %s", dir, fault.file, fault.message)
			continue
		}
		if diff := cmp.Diff(want, found.inputs); diff != "" || found.renderer != rendererKustomize {
			t.Errorf("%s: renderer %s, inputs differ:\n%s", dir, found.renderer, diff)
		}
	}
}

// TestKustomizationsOfTheCorpusResolve lists by name the cases that are meant to be broken.
func TestKustomizationsOfTheCorpusResolve(t *testing.T) {
	dir := needs.Corpus(t)
	broken := map[string]bool{"argo-cd-e2e/cases/invalid-kustomize": true}
	snap := open(t, dir)
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || !isKustomization(d.Name()) {
			return err
		}
		folder, err := filepath.Rel(dir, filepath.Dir(file))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		if _, fault := New().filesOf(serviceAt(folder), &view{repo: snap}); fault != nil && !broken[folder] {
			t.Errorf("%s: %s:%d: %s", folder, fault.file, fault.line, fault.message)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isKustomization(name string) bool {
	for _, n := range kustomizationNames() {
		if n == name {
			return true
		}
	}
	return false
}
