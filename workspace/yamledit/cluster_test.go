package yamledit_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

const (
	newAuth = "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	newAge  = "age1new"
)

func clusterFile(text string) fstest.MapFS {
	return fstest.MapFS{
		"plural.yaml":          {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")},
		"clusters/edge-1.yaml": {Data: []byte(text)},
	}
}

// A cluster that joins gets its keys and loses its invitation in one file, of which nothing else changes.
func TestAClusterThatJoinsHasKeysAndNoInvitation(t *testing.T) {
	const head = "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1} # Rome\n"
	invited := `{hash: "` + fleet.HashToken("t") + `", expires: "2027-01-31T00:00:00Z"}`
	for name, text := range map[string]string{
		"a new cluster":    head + "spec:\n  join: " + invited + "\n",
		"with tags":        head + "spec:\n  # where\n  tags: {env: prod}\n  join: " + invited + "\n",
		"again":            head + "spec:\n  agent:\n    auth: ed25519:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA=\n    age: age1old\n  join: " + invited + "\n",
		"in one line":      head + "spec: {tags: {env: prod}, join: " + invited + "}\n",
		"behind a service": "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-2}\n---\n" + head + "spec:\n  join: " + invited + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			files := clusterFile(text)
			want := fleet.AgentKeys{Auth: newAuth, Age: newAge}
			c, err := yamledit.Joined(files, "edge-1", want)
			if err != nil {
				t.Fatal(err)
			}
			f, err := fleet.Load(overlay.New(files, map[string][]byte{c.File: c.After}))
			if err != nil {
				t.Fatal(err)
			}
			got, ok := f.Cluster("edge-1")
			if !ok || got.Spec.Agent != want || got.Spec.Join != nil {
				t.Errorf("%s", c.After)
			}
			for _, kept := range []string{"# Rome", "# where", "env: prod", "edge-2"} {
				if strings.Contains(text, kept) != strings.Contains(string(c.After), kept) {
					t.Errorf("%q came or went:\n%s", kept, c.After)
				}
			}
			if again, err := yamledit.Joined(overlay.New(files, map[string][]byte{c.File: c.After}), "edge-1", want); err != nil || !again.Done() {
				t.Errorf("a second time it changes again: %v", err)
			}
		})
	}
	if _, err := yamledit.Joined(clusterFile(head), "edge-9", fleet.AgentKeys{}); err == nil {
		t.Error("a cluster that is not there joined")
	}
}

func TestAVersionIsSkippedAndNothingElseChanges(t *testing.T) {
	const head = "apiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata: {name: web} # the front\n"
	for before, want := range map[string]string{
		head: head + "spec:\n  upgrade:\n    skip: [\"1.2.0\"]\n",
		head + "spec:\n  version: \"1\" # stay\n":                                  head + "spec:\n  version: \"1\" # stay\n  upgrade:\n    skip: [\"1.2.0\"]\n",
		head + "spec:\n  upgrade: {policy: minor, skip: [\"1.1.0\"]}\n":            head + "spec:\n  upgrade: {policy: minor, skip: [\"1.1.0\", \"1.2.0\"]}\n",
		head + "spec:\n  upgrade: {policy: minor, skip: [\"1.2.0\", \"1.1.0\"]}\n": head + "spec:\n  upgrade: {policy: minor, skip: [\"1.2.0\", \"1.1.0\"]}\n",
	} {
		files := clusterFile("apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\n")
		files["packages/web/package.yaml"] = &fstest.MapFile{Data: []byte(before)}
		c, err := yamledit.Skipped(files, "web", "1.2.0")
		if err != nil {
			t.Errorf("%s: %v", before, err)
			continue
		}
		if diff := cmp.Diff(want, string(c.After)); diff != "" {
			t.Error(diff)
		}
	}
}
