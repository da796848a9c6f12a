package ui

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type thing struct {
	Name  string `json:"name"`
	Phase string `json:"phase"`
	Seen  int    `json:"seen,omitempty"`
}

func viewOf(all ...thing) View {
	v := View{
		Columns: []Column{{Name: "NAME"}, {Name: "PHASE"}, {Name: "SEEN", Age: true}, {Name: "REASON"}},
		Rows:    [][]string{}, Names: []string{}, IDs: []string{},
	}
	still := []thing{}
	for _, one := range all {
		v.Rows = append(v.Rows, []string{one.Name, one.Phase, fmt.Sprint(one.Seen), "-"})
		v.Names, v.IDs = append(v.Names, "thing/"+one.Name), append(v.IDs, one.Name)
		one.Seen = 0
		still = append(still, one)
	}
	v.Value, v.Still = map[string]any{"items": append([]thing{}, all...), "total": len(all)}, map[string]any{"items": still}
	return v
}

func TestPipesGetWhatIsNewOfAViewThatIsWatched(t *testing.T) {
	views := []View{
		viewOf(thing{"a", "ok", 1}, thing{"b", "ok", 1}),
		viewOf(thing{"a", "ok", 2}, thing{"b", "ok", 2}), // only time went on
		viewOf(thing{"a", "bad", 3}, thing{"b", "ok", 3}, thing{"c", "ok", 3}),
		viewOf(thing{"b", "ok", 4}, thing{"c", "ok", 4}),
		viewOf(),
		viewOf(thing{"a", "bad", 5}),
	}
	for format, want := range map[string]string{
		"": `NAME	PHASE	SEEN	REASON
a	ok	1	-
b	ok	1	-
a	bad	3	-
c	ok	3	-
a	bad	3	gone
b	ok	4	gone
c	ok	4	gone
a	bad	5	-
`,
		"json": `{"items":[{"name":"a","phase":"ok","seen":1},{"name":"b","phase":"ok","seen":1}],"total":2}
{"items":[{"name":"a","phase":"bad","seen":3},{"name":"c","phase":"ok","seen":3}]}
{"gone":["a"],"items":[]}
{"gone":["b","c"],"items":[]}
{"items":[{"name":"a","phase":"bad","seen":5}]}
`,
		"name":                      "thing/a\nthing/b\nthing/a\nthing/c\nthing/a\n",
		"jsonpath={.items[*].name}": "a b\na c\n\n\na\n",
		"yaml": `items:
- name: a
  phase: ok
  seen: 1
- name: b
  phase: ok
  seen: 1
total: 2
---
items:
- name: a
  phase: bad
  seen: 3
- name: c
  phase: ok
  seen: 3
---
gone:
- a
items: []
---
gone:
- b
- c
items: []
---
items:
- name: a
  phase: bad
  seen: 5
`,
	} {
		t.Run(format, func(t *testing.T) {
			if diff := cmp.Diff(want, watched(t, &Streams{}, format, views)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// watched is what is printed of views one after the other.
func watched(t *testing.T, s *Streams, format string, views []View) string {
	t.Helper()
	var out bytes.Buffer
	s.Out, s.ErrOut = &out, &out
	p, err := NewPrinter(s, format, "")
	if err != nil {
		t.Fatal(err)
	}
	l := p.Live()
	for _, v := range views {
		if err := l.Print(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestScreensAndSingleValuesArePrintedWholeWhenTheyChange(t *testing.T) {
	var views []View
	for _, n := range []int{1, 1, 2} {
		views = append(views, View{
			Value: map[string]int{"n": n, "seen": len(views)}, Still: n, Names: []string{"thing/a"},
			Screen: func(w io.Writer) error { fmt.Fprintf(w, "n is %d\n", n); return nil },
		})
	}
	for format, want := range map[string]string{"": "n is 1\n\nn is 2\n", "json": "{\"n\":1,\"seen\":0}\n{\"n\":2,\"seen\":2}\n"} {
		if diff := cmp.Diff(want, watched(t, &Streams{}, format, views)); diff != "" {
			t.Errorf("%q: %s", format, diff)
		}
	}
}

func TestListsOfWhatHappenedOnlyGrow(t *testing.T) {
	var views []View
	for _, rows := range [][]string{{"x", "y"}, {"y", "z"}, {"y", "x"}} {
		v := View{Past: true, Columns: []Column{{Name: "WHAT"}}, Rows: [][]string{}, IDs: rows}
		for _, row := range rows {
			v.Rows = append(v.Rows, []string{row})
		}
		v.Value = rows
		views = append(views, v)
	}
	if got := watched(t, &Streams{}, "", views); got != "WHAT\nx\ny\nz\n" {
		t.Errorf("%q", got)
	}
	if got := watched(t, &Streams{}, "json", views); got != "[\"x\",\"y\"]\n[\"z\"]\n" {
		t.Errorf("%q", got)
	}
}

func TestTerminalsHaveAWatchedViewInOnePlace(t *testing.T) {
	first, second := viewOf(thing{"a", "ok", 1}, thing{"b", "ok", 1}), viewOf(thing{"a\x1b[2J", "ok", 9})
	second.Note = "more\x1b[2J"
	got := watched(t, &Streams{OutTTY: true, Width: 40, Height: 9}, "", []View{first, second})
	for _, want := range []string{
		"\x1b[?1049h\x1b[?25l\x1b[?2026h\x1b[HNAME  PHASE  SEEN  REASON\x1b[K\n",
		"\x1b[J\x1b[?2026l\x1b[?2026h\x1b[HNAME",
		`more\x1b`, "\x1b[?25h\x1b[?1049lNAME",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Contains(got, "\x1b[2J") || strings.Count(got, "1049h") != 1 {
		t.Errorf("%q", got)
	}
	high := viewOf(thing{"a", "", 1}, thing{"b", "", 1}, thing{"c", "", 1}, thing{"d", "", 1})
	long := watched(t, &Streams{OutTTY: true, Width: 90, Height: 4}, "", []View{high})
	frame, _, _ := strings.Cut(long, "\x1b[?25h")
	if !strings.Contains(frame, "and 3 lines more") || strings.Count(frame, "\n") != 3 {
		t.Errorf("%q", frame)
	}
}
