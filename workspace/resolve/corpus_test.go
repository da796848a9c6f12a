package resolve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/fleet"
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
	for _, base := range []string{"https-kustomize-base", "ssh-kustomize-base"} { // remotes, of which no source is one
		broken["argo-cd-e2e/cases/"+base+"/local"], broken["argo-cd-e2e/cases/"+base+"/remote"] = true, true
	}
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
		service := serviceAt(folder)
		seen := &view{repo: snap, sources: &remoteSources{fleet: new(fleet.Fleet), service: service}}
		if _, fault := New().filesOf(service, seen); (fault != nil) != broken[folder] {
			t.Errorf("%s: %v", folder, fault)
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
