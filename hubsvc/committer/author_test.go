package committer

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Somebody whom only an identity provider knows is called by what that says.
func TestAnAuthorIsWhoeverTheNameSaysAndNobodyElse(t *testing.T) {
	for _, name := range []string{"corp:x<ada@plural>", "corp:x<", "corp:a>b"} {
		by := Author(name)
		dir := t.TempDir()
		g, err := git.PlainInit(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		tree := g.Storer.NewEncodedObject()
		_ = (&object.Tree{}).Encode(tree)
		hash, _ := g.Storer.SetEncodedObject(tree)
		o := g.Storer.NewEncodedObject()
		if err := (&object.Commit{Author: object.Signature{Name: by.Name, Email: by.Email}, Committer: object.Signature{Name: "plural", Email: "plural@localhost"}, Message: "x\n", TreeHash: hash}).Encode(o); err != nil {
			t.Error(err)
			continue
		}
		id, _ := g.Storer.SetEncodedObject(o)
		_ = g.Storer.SetReference(plumbing.NewHashReference("refs/heads/master", id))
		raw, _ := exec.Command("git", "-C", dir, "cat-file", "-p", id.String()).CombinedOutput()
		out, _ := exec.Command("git", "-C", dir, "log", "--format=%an|%ae", id.String()).CombinedOutput()
		fsck, err := exec.Command("git", "-C", dir, "fsck", "--strict").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != by.Name+"|"+by.Email {
			t.Errorf("%s: git says %s, fsck %v %s\n%s", name, strings.TrimSpace(string(out)), err, strings.TrimSpace(string(fsck)), raw)
		}
	}
}
