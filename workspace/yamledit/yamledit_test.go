package yamledit

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	header    = "apiVersion: plural.sh/v1alpha1\n"
	workspace = header + "kind: Workspace\nmetadata: {name: demo}\nspec: {} # nothing\n"
	web       = header + "kind: Service\nmetadata: {name: web} # the front\n"
	api       = header + "kind: Service\nmetadata: {name: api}\nspec: {source: {path: api}, clusters: {}}\n"
)

func repo(services string) fstest.MapFS {
	return fstest.MapFS{"plural.yaml": {Data: []byte(workspace)}, "services/all.yaml": {Data: []byte(services)}}
}

// TestAgreementChangesOneListAndNothingElse writes two tokens, of which the second looks like a number, into files of many
// forms. The old tokens were 1s, which nothing waits for any more, and 2s, which something does.
func TestAgreementChangesOneListAndNothingElse(t *testing.T) {
	const added = `acknowledged: ["aaaaaaaaaaaa", "111111111e11"]`
	tests := map[string]struct{ before, after string }{
		"nothing of it": {
			web + "spec:\n  source: {path: web} # here\n  clusters: {}\n",
			web + "spec:\n  source: {path: web} # here\n  clusters: {}\n  sync:\n    " + added + "\n",
		},
		"other settings": {
			web + "spec:\n  sync:\n    # never\n    prune: false\n\n  source: {path: web}\n  clusters: {}\n",
			web + "spec:\n  sync:\n    # never\n    prune: false\n    " + added + "\n\n  source: {path: web}\n  clusters: {}\n",
		},
		"in one line": {
			web + "spec: {source: {path: web}, clusters: {}, sync: {prune: false}}\n",
			web + "spec: {source: {path: web}, clusters: {}, sync: {prune: false, " + added + "}}\n",
		},
		"a list below": {
			web + "spec:\n  sync:\n    acknowledged:\n    - \"111111111111\"\n    - \"222222222222\"\n  source: {path: web}\n  clusters: {}\n",
			web + "spec:\n  sync: {acknowledged: [\"222222222222\", \"aaaaaaaaaaaa\", \"111111111e11\"]}\n  source: {path: web}\n  clusters: {}\n",
		},
		"an empty list": {
			web + "spec:\n  sync:\n    acknowledged: []\n    prune: false\n  source: {path: web}\n  clusters: {}\n",
			web + "spec:\n  sync:\n    " + added + "\n    prune: false\n  source: {path: web}\n  clusters: {}\n",
		},
		"several documents": {
			api + "---\n" + web + "spec:\n  source: {path: web}\n  clusters: {}\n",
			api + "---\n" + web + "spec:\n  source: {path: web}\n  clusters: {}\n  sync:\n    " + added + "\n",
		},
	}
	tokens := []string{"aaaaaaaaaaaa", "111111111e11"}
	waits := func(token string) bool { return token == "222222222222" || slices.Contains(tokens, token) }
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Agree(repo(test.before), "web", tokens, waits)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.after, string(c.After)); diff != "" || c.File != "services/all.yaml" {
				t.Errorf("%s:\n%s", c.File, diff)
			}
			if again, err := Agree(repo(string(c.After)), "web", tokens, waits); err != nil || !again.Done() {
				t.Errorf("a second time it changes again: %v", err)
			}
		})
	}
}

func TestAgreementOfTheWorkspaceIsInItsManifest(t *testing.T) {
	c, err := Agree(repo(api), "", []string{"aaaaaaaaaaaa"}, func(string) bool { return false })
	if err != nil || c.File != "plural.yaml" || !strings.Contains(string(c.After), `acknowledged: ["aaaaaaaaaaaa"]`) {
		t.Errorf("%v\n%s", err, c.After)
	}
}

func TestSuspensionIsOneFieldThatComesAndGoes(t *testing.T) {
	tests := map[string]struct{ running, suspended string }{
		"below": {
			web + "spec:\n  source: {path: web} # here\n  clusters: {}\n",
			web + "spec:\n  source: {path: web} # here\n  clusters: {}\n  suspend: true\n",
		},
		"in one line": {
			web + "spec: {source: {path: web}, clusters: {}}\n",
			web + "spec: {source: {path: web}, clusters: {}, suspend: true}\n",
		},
		"the second of two": {
			api + "---\n" + web + "spec: {source: {path: web}, clusters: {}}\n",
			api + "---\n" + web + "spec: {source: {path: web}, clusters: {}, suspend: true}\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, step := range []struct {
				before, after string
				suspended     bool
			}{
				{test.running, test.suspended, true},
				{test.suspended, test.suspended, true},
				{test.suspended, test.running, false},
				{test.running, test.running, false},
			} {
				c, err := Suspend(repo(step.before), "web", step.suspended)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(step.after, string(c.After)); diff != "" || c.Done() != (step.before == step.after) {
					t.Error(diff)
				}
			}
		})
	}
}

func TestWhatNoProgramCanWriteIsRefused(t *testing.T) {
	shared := web + "spec:\n  source: {path: web}\n  clusters: {}\n  sync: &s {prune: true}\n"
	if _, err := Agree(repo(shared), "web", []string{"aaaaaaaaaaaa"}, func(string) bool { return true }); err == nil {
		t.Error("an anchor's value was changed, which others may share")
	}
	if _, err := Suspend(repo(api), "gone", true); err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("got %v", err)
	}
	if _, err := Suspend(repo("kind: nonsense\n"), "web", true); err == nil {
		t.Error("a fleet that cannot be read was changed")
	}
}
