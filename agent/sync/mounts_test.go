package sync_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pluralsh/plural/api"
)

// mounting adds a bundle of another repository to a deployment.
func (w *world) mounting(m *api.Mount, files map[string]string) func(*api.Deployment) {
	w.Helper()
	tree := fstest.MapFS{}
	for path, text := range files {
		tree[path] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	key, archive := w.pack(tree, m.GetInputs()[0])
	w.hub.set(func() { w.hub.bundles[key] = archive })
	m.Bundle = key
	return func(d *api.Deployment) {
		d.Mounts = append(d.Mounts, m)
		d.Key += key
	}
}

func TestAMountedRepositoryIsSeenByTheRender(t *testing.T) {
	w := newWorld(t)
	web := w.configMap("web", "own",
		w.mounting(&api.Mount{At: "web/more", Inputs: []string{"deep/folder"}}, map[string]string{"deep/folder/in/cm.yaml": manifest("more", "mounted")}),
		w.mounting(&api.Mount{At: "web/one", Inputs: []string{"cm.yaml"}}, map[string]string{"cm.yaml": manifest("one", "file")}),
		w.mounting(&api.Mount{At: "elsewhere", Inputs: []string{"."}}, map[string]string{"cm.yaml": manifest("unseen", "no")}))
	w.hub.asks("50%", web)
	w.verify = 200 * time.Millisecond
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	for name, value := range map[string]string{"web": "own", "more": "mounted", "one": "file", "unseen": ""} {
		if got := w.live(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	// What rots on disk is mended without anybody asking.
	mounted := filepath.Join(w.dir, "bundles", web.GetMounts()[0].GetBundle())
	if err := os.WriteFile(mounted, []byte("rotten"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("the mounted bundle is whole again", func() bool {
		data, err := os.ReadFile(mounted)
		return err == nil && string(data) != "rotten"
	})
	// Bundles of mounts leave the disk with the last deployment that names them.
	later := w.configMap("web", "later")
	w.hub.asks("50%", later)
	w.becomes(later, api.Phase_HEALTHY)
	w.hub.asks("50%", later, w.configMap("other", "x"))
	w.eventually("the mounted bundle is deleted", func() bool {
		_, err := os.Stat(mounted)
		return errors.Is(err, fs.ErrNotExist)
	})
}

func TestAMountThatCannotBeHadKeepsWhatRuns(t *testing.T) {
	w := newWorld(t)
	wants := map[string]string{"spoiled": "verify bundle", "missing": "no route", "twice": "2 inputs", "hiding": "in the way"}
	mounts := map[string]*api.Mount{
		"spoiled": {At: "spoiled/more", Inputs: []string{"."}},
		"missing": {At: "missing/more", Inputs: []string{"."}},
		"twice":   {At: "twice/more", Inputs: []string{".", "x"}},
		"hiding":  {At: "hiding", Inputs: []string{"."}},
	}
	var first, second []*api.Deployment
	for name, mount := range mounts {
		first = append(first, w.configMap(name, "first"))
		files := map[string]string{"cm.yaml": manifest("of-"+name, "x")}
		second = append(second, w.configMap(name, "second", w.mounting(mount, files)))
	}
	w.hub.set(func() {
		w.hub.bundles[mounts["spoiled"].GetBundle()] = w.hub.bundles[first[0].GetBundle()]
		delete(w.hub.bundles, mounts["missing"].GetBundle())
	})
	w.hub.asks("50%", first...)
	w.start()
	for _, d := range first {
		w.becomes(d, api.Phase_HEALTHY)
	}
	w.hub.asks("50%", second...)
	for _, d := range second {
		if s := w.becomes(d, api.Phase_FAILED); !strings.Contains(s.GetMessage(), wants[d.GetService()]) {
			t.Errorf("%s: message = %q, want %q in it", d.GetService(), s.GetMessage(), wants[d.GetService()])
		}
	}
	w.healed("spoiled", "first")
}

// What is sealed in a mount opens as in the service's own files, and only when it comes from the installation repo.
func TestWhatIsSealedInAMountOpensByItsOwnPath(t *testing.T) {
	w := newSealedWorld(t)
	files := map[string]string{"envs/prod/cm.yaml": w.sealed("envs/prod/cm.yaml", "prod", manifest("more", canary))}
	own := w.configMap("web", "x", w.mounting(&api.Mount{At: "web/more", Inputs: []string{"envs/prod"}, OwnRepository: true}, files))
	foreign := w.configMap("alien", "x", w.mounting(&api.Mount{At: "alien/more", Inputs: []string{"envs/prod"}}, files))
	w.hub.asks("50%", own, foreign)
	w.start()
	w.becomes(own, api.Phase_HEALTHY)
	if w.live("more") != canary {
		t.Errorf("more is %q", w.live("more"))
	}
	if s := w.becomes(foreign, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "comes from another repository") {
		t.Errorf("message = %q", s.GetMessage())
	}
	if strings.Contains(w.words.String(), canary) {
		t.Error("the log repeats what was sealed")
	}
}
