package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace"
)

const header = "apiVersion: plural.sh/v1alpha1\n"

// repo is a folder with the files, as an installation repo.
func repo(t *testing.T, files map[string]string) *workspace.Repo {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAgreementChangesOneListAndNothingElse writes the tokens a and b, of which b looks like a number, into files of many
// forms. The old tokens were 1s, which nothing waits for any more, and 2s, which something does.
func TestAgreementChangesOneListAndNothingElse(t *testing.T) {
	const web = header + "kind: Service\nmetadata: {name: web} # the front\n"
	tests := map[string]struct{ before, after string }{
		"nothing of it": {
			web + "spec:\n  source: {path: web} # here\n  clusters: {}\n",
			web + "spec:\n  source: {path: web} # here\n  clusters: {}\n  sync:\n    acknowledged: [\"aaaaaaaaaaaa\", \"111111111e11\"]\n",
		},
		"other settings": {
			web + "spec:\n  sync:\n    # never\n    prune: false\n\n  source: {path: web}\n  clusters: {}\n",
			web + "spec:\n  sync:\n    # never\n    prune: false\n    acknowledged: [\"aaaaaaaaaaaa\", \"111111111e11\"]\n\n  source: {path: web}\n  clusters: {}\n",
		},
		"in one line": {
			web + "spec: {source: {path: web}, clusters: {}, sync: {prune: false}}\n",
			web + "spec: {source: {path: web}, clusters: {}, sync: {prune: false, acknowledged: [\"aaaaaaaaaaaa\", \"111111111e11\"]}}\n",
		},
		"a list below": {
			web + "spec:\n  sync:\n    acknowledged:\n    - \"111111111111\"\n    - \"222222222222\"\n  source: {path: web}\n  clusters: {}\n",
			web + "spec:\n  sync: {acknowledged: [\"222222222222\", \"aaaaaaaaaaaa\", \"111111111e11\"]}\n  source: {path: web}\n  clusters: {}\n",
		},
		"an empty list": {
			web + "spec:\n  sync:\n    acknowledged: []\n    prune: false\n  source: {path: web}\n  clusters: {}\n",
			web + "spec:\n  sync:\n    acknowledged: [\"aaaaaaaaaaaa\", \"111111111e11\"]\n    prune: false\n  source: {path: web}\n  clusters: {}\n",
		},
		"several documents": {
			header + "kind: Service\nmetadata: {name: api}\nspec: {source: {path: api}, clusters: {}}\n---\n" + web + "spec:\n  source: {path: web}\n  clusters: {}\n",
			header + "kind: Service\nmetadata: {name: api}\nspec: {source: {path: api}, clusters: {}}\n---\n" + web + "spec:\n  source: {path: web}\n  clusters: {}\n  sync:\n    acknowledged: [\"aaaaaaaaaaaa\", \"111111111e11\"]\n",
		},
	}
	found := &findings{
		chosen:  []matter{{token: "aaaaaaaaaaaa"}, {token: "111111111e11"}},
		waiting: map[string]bool{"aaaaaaaaaaaa": true, "111111111e11": true, "222222222222": true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := repo(t, map[string]string{"plural.yaml": header + "kind: Workspace\nmetadata: {name: demo}\nspec: {}\n", "services/all.yaml": test.before})
			a, err := prepare(r, ofService{name: "web"}.home(), found)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.after, string(a.after)); diff != "" || a.file != "services/all.yaml" {
				t.Errorf("%s:\n%s", a.file, diff)
			}
			again := repo(t, map[string]string{"plural.yaml": header + "kind: Workspace\nmetadata: {name: demo}\nspec: {}\n", "services/all.yaml": string(a.after)})
			if a, err := prepare(again, ofService{name: "web"}.home(), found); err != nil || !a.done() {
				t.Errorf("a second time it changes again: %v", err)
			}
		})
	}
}

func TestAgreementOfTheWorkspaceIsInItsManifest(t *testing.T) {
	r := repo(t, map[string]string{"plural.yaml": header + "kind: Workspace\nmetadata: {name: demo}\nspec: {} # nothing\n"})
	a, err := prepare(r, ofCommit{}.home(), &findings{chosen: []matter{{token: "aaaaaaaaaaaa"}}})
	if err != nil || a.file != "plural.yaml" || !strings.Contains(string(a.after), `acknowledged: ["aaaaaaaaaaaa"]`) {
		t.Errorf("%v\n%s", err, a.after)
	}
}

func TestAgreementThatNoProgramCanWriteIsRefused(t *testing.T) {
	service := header + "kind: Service\nmetadata: {name: web}\nspec:\n  source: {path: web}\n  clusters: {}\n  sync: &s {prune: true}\n"
	other := strings.NewReplacer("web", "api", "&s {prune: true}", "*s").Replace(service)
	r := repo(t, map[string]string{
		"plural.yaml":        header + "kind: Workspace\nmetadata: {name: demo}\nspec: {}\n",
		"services/all.yaml":  service,
		"services/none.yaml": strings.Replace(other, "*s", "{}", 1),
	})
	if _, err := prepare(r, ofService{name: "web"}.home(), &findings{chosen: []matter{{token: "aaaaaaaaaaaa"}}}); err == nil {
		t.Error("an anchor's value was changed, which others may share")
	}
	if _, err := prepare(r, ofService{name: "gone"}.home(), &findings{}); err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("got %v", err)
	}
}

func TestWhatWaitsOnSeveralClustersIsShownOnce(t *testing.T) {
	got := gather([]matter{
		{token: "a", count: 1, clusters: []string{"x"}},
		{token: "b", count: 5, clusters: []string{"x"}},
		{token: "a", count: 1, names: []string{"Pod p"}, clusters: []string{"y"}},
	})
	if len(got) != 2 || got[0].token != "b" || len(got[1].clusters) != 2 || len(got[1].names) != 1 {
		t.Errorf("%+v", got)
	}
}
