package resolve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// branches has the installation repo, and of any source no ref that is asked for.
type branches struct{ repos }

func (b branches) Snapshot(name, ref string) (*snapshot.Snapshot, error) {
	if name == "" {
		return b.repos.Snapshot(name, ref)
	}
	return nil, fmt.Errorf("%w: %w: ref %q: the remote has no such branch or tag", snapshot.ErrNotFetched, snapshot.ErrNotFetched, ref)
}

func TestARefThatASourceDoesNotHaveIsToldWhereItIsWritten(t *testing.T) {
	files := secretive(t, "[]")
	files["services/a.yaml"] = strings.Replace(files["services/a.yaml"], "{path: a}", "{name: up, ref: v9, path: a}", 1)
	files["sources/up.yaml"] = "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: up}\nspec: {git: {url: \"https://git.example.com/up\", ref: main}}\n"
	own := committed(t, files)
	list, err := For(load(t, own), "c", branches{repos{"": own}})
	if err != nil || list[0].Hold == nil {
		t.Fatal(err, list)
	}
	at := strings.Index(strings.Split(files["services/a.yaml"], "\n")[list[0].Hold.Position.Line-1], "v9") + 1
	if p := list[0].Hold; p.Position.File != "services/a.yaml" || p.Position.Column != at || p.Fix != "plural service set a --ref REF" ||
		p.Message != `source "up": ref "v9": the remote has no such branch or tag` {
		t.Errorf("%+v, want column %d", p, at)
	}
}
