package resolve

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

func TestFilesThatAreLeftOutAtMorePlacesThanAnybodyCanLookAtHoldTheService(t *testing.T) {
	whole := committed(t, map[string]string{"x.txt": "x"})
	file, _, err := whole.Hash("x.txt")
	if err != nil {
		t.Fatal(err)
	}
	var g snapshot.Graft
	add := func(entries ...snapshot.Entry) snapshot.Hash {
		t.Helper()
		id, err := g.Add(entries)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	var many, places []snapshot.Entry
	for i := range 10_000 {
		many = append(many, snapshot.Entry{Name: fmt.Sprintf("%05d.txt", i), Mode: 0o644, Hash: file})
	}
	leaf := add(many...)
	for i := range 100 {
		places = append(places, snapshot.Entry{Name: fmt.Sprintf("%03d", i), Mode: fs.ModeDir | 0o755, Hash: leaf})
	}
	g.Root = add(snapshot.Entry{Name: "big", Mode: fs.ModeDir | 0o755, Hash: add(places...)})
	out := []string{"*.txt"}
	p := &picker{r: New(), snap: whole.Grafted(&g), reading: reading{
		dir: "big", renderer: rendererRaw, patterns: out, exclusion: newExclusion("big", out),
	}}
	if _, f := p.input("big", &selection{all: true}); f == nil || !strings.Contains(f.message, "files and folders") || f.fix == "" {
		t.Errorf("fault is %+v", f)
	}
}
