package pkg

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packs"
)

// lines gives a reader one line at a time, as a terminal does.
type lines struct{ rest []string }

func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.rest[0]+"\n")
	l.rest = l.rest[1:]
	return n, nil
}

const header = "apiVersion: plural.sh/v1alpha1\n"

const asking = header + `kind: Package
metadata: {name: web}
spec:
  version: 1.0.0
  questions:
  - {name: kind, type: enum, options: [small, large], prompt: "How large?"}
  - {name: nodes, type: int, min: 3, when: "${answers.kind == 'large'}", prompt: "How many nodes?"}
  - {name: zones, type: list, when: "${answers.kind == 'small'}", prompt: "Which zones?"}
  - {name: user, type: string, default: admin, prompt: "Who?"}
  - {name: password, type: secret, generate: {}, prompt: "Which password?"}
  steps: [{name: web, manifests: {path: m}}]
`

// proposed is the adding of that package to a repo, and what it is planned to be.
func proposed(t *testing.T) *packs.Proposal {
	t.Helper()
	repo := fstest.MapFS{
		"plural.yaml":       {Data: []byte(header + "kind: Workspace\nmetadata: {name: demo}\nspec: {management: home}\n")},
		"clusters/all.yaml": {Data: []byte(header + "kind: Cluster\nmetadata: {name: home}\n")},
	}
	loaded, err := fleet.Load(repo)
	if err != nil {
		t.Fatal(err)
	}
	shelf := &packs.Snapshot{
		World: &compose.World{Fleet: loaded, Repo: repo, Lock: &lockfile.Lock{}},
		Catalogs: catalog.All(catalog.Folder("main", fstest.MapFS{
			"web/package.yaml": {Data: []byte(asking)}, "web/m/a.yaml": {Data: []byte("a: b\n")},
		})),
	}
	p, err := shelf.Add(context.Background(), packs.Wanted{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestQuestionsAreAskedOneAfterTheOther(t *testing.T) {
	for name, c := range map[string]struct {
		ask   bool
		typed []string
		set   []string
		want  map[string]any
	}{
		"conditions hold": {typed: []string{"large", "5"}, want: map[string]any{"kind": "large", "nodes": int64(5)}},
		"the other way":   {typed: []string{"small", "a,b"}, want: map[string]any{"kind": "small", "zones": []any{"a", "b"}}},
		"a slip is asked again": {
			typed: []string{"huge", "large", "2", "four", "4"}, want: map[string]any{"kind": "large", "nodes": int64(4)},
		},
		"what is given is not asked": {set: []string{"kind=large"}, typed: []string{"3"}, want: map[string]any{"kind": "large", "nodes": int64(3)}},
		"defaults too": {
			ask: true, set: []string{"kind=large", "nodes=3"}, typed: []string{"eve"},
			want: map[string]any{"kind": "large", "nodes": int64(3), "user": "eve"}, // without a terminal no secret is typed

		},
	} {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			f := &cmdutil.Factory{
				IO:  &ui.Streams{In: &lines{c.typed}, Out: io.Discard, ErrOut: &told, InTTY: true, ErrTTY: true, Plain: true},
				Now: time.Now, Getenv: func(string) string { return "" },
			}
			p := proposed(t)
			g := &Given{f: f, ask: c.ask, set: c.set}
			texts, _, err := g.read("web")
			if err != nil {
				t.Fatal(err)
			}
			all, err := parsed(p.Changed()[0].Package, texts["web"], nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := g.complete(context.Background(), p, p.Changed()[0], all)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAnswersAreForThePackageThatTheyName(t *testing.T) {
	g := &Given{f: &cmdutil.Factory{IO: &ui.Streams{In: strings.NewReader("a: 1\ndb.b: [x]\n")}}, set: []string{"c=x=y", "db.d="}, file: "-"}
	texts, values, err := g.read("web")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]map[string]string{"web": {"c": "x=y"}, "db": {"d": ""}}, texts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]map[string]any{"web": {"a": 1}, "db": {"b": []any{"x"}}}, values); d != "" {
		t.Error(d)
	}
	for name, g := range map[string]*Given{
		"no value":      {set: []string{"a"}},
		"no name":       {set: []string{"=a"}},
		"which package": {set: []string{"a=b"}},
		"no mapping":    {f: &cmdutil.Factory{IO: &ui.Streams{In: strings.NewReader("- hunter2\n")}}, file: "-"},
		"no file":       {f: &cmdutil.Factory{IO: &ui.Streams{}}, file: "/nowhere/answers.yaml"},
	} {
		_, _, err := g.read("")
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnswersOfAFileGoBeforeThoseThatCountOtherwise(t *testing.T) {
	f := &cmdutil.Factory{IO: &ui.Streams{In: strings.NewReader("web.user: bob\n"), Out: io.Discard, ErrOut: io.Discard}}
	g := NewGiven(f, []string{"web.kind=large"}, "-")
	for question, want := range map[string]bool{"user": true, "kind": true, "nodes": false} { // and standard input is read once
		if said, err := g.Says("web", question); err != nil || said != want {
			t.Errorf("%s was answered: %v, %v", question, said, err)
		}
	}
	g.Otherwise("web", map[string]any{"user": "carol", "kind": "small", "nodes": 3})
	p := proposed(t)
	if err := g.answer(t.Context(), p, ""); err != nil {
		t.Fatal(err)
	}
	result, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := "kind: large\nnodes: 3\nuser: bob\n"
	if diff := cmp.Diff(want, string(result.Changes["packages/web/values.yaml"])); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}
