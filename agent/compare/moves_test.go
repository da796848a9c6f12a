package compare_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/agent/object"
)

func widget(more string) string {
	return "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w" + more + "}\n---\n"
}

// in is delta for a service of another namespace.
func in(t *testing.T, namespace, service, before, after string) compare.Delta {
	t.Helper()
	old, now := compare.Side{Objects: objects(t, before), Namespace: namespace}, compare.Side{Objects: objects(t, after), Namespace: namespace}
	return compare.Delta{Service: service, Clusters: []string{"c1"}, Changes: compare.Objects(old, now, nil), Prune: true}
}

func TestWhatAnotherServiceRendersNowIsMoved(t *testing.T) {
	one, two := configMap("c", "1"), configMap("c", "2")
	renders := delta(t, "b", "c1", "", "")
	renders.Rendered = []object.ID{{Kind: "ConfigMap", Namespace: "web", Name: "c"}}
	tests := map[string]struct {
		deltas []compare.Delta
		want   []string
	}{
		"as it was": {
			[]compare.Delta{delta(t, "a", "c1 c2", one, ""), delta(t, "b", "c1 c2", "", one)},
			[]string{"moved b:c/2 on c1 c2 from a"},
		},
		"with other contents": {
			[]compare.Delta{delta(t, "b", "c1", "", two), delta(t, "a", "c1", one, "")},
			[]string{"moved b:c/1 on c1 from a: data.a 1 2"},
		},
		"where both rendered it before": {
			[]compare.Delta{delta(t, "b", "c1", one, two), delta(t, "a", "c1", one, "")},
			[]string{"moved b:c/1 on c1 from a: data.a 1 2"},
		},
		"on some clusters": {
			[]compare.Delta{delta(t, "a", "c1 c2 c3", one+configMap("x", "1"), ""), delta(t, "b", "c2 c3 c4", "", one)},
			[]string{"deleted a:x/3 on c1 c2 c3", "moved b:c/2 on c2 c3 from a", "deleted a:c/1 on c1", "added b:c/1 on c4"},
		},
		"to two services": {
			[]compare.Delta{delta(t, "a", "c1 c2", one, ""), delta(t, "b", "c1", "", one), delta(t, "d", "c2", "", one)},
			[]string{"moved b:c/1 on c1 from a", "moved d:c/1 on c2 from a"},
		},
		"on another cluster": {
			[]compare.Delta{delta(t, "a", "c1", one, ""), delta(t, "b", "c2", "", one)},
			[]string{"deleted a:c/1 on c1", "added b:c/1 on c2"},
		},
		"where nothing changes in it": {
			[]compare.Delta{delta(t, "a", "c1 c2", one, ""), renders},
			[]string{"deleted a:c/1 on c2"},
		},
		"to a namespace of the same name": {
			[]compare.Delta{in(t, "x", "a", widget(""), ""), in(t, "x", "b", "", widget(""))},
			[]string{"moved b:Widget.example.org w/1 on c1 from a"},
		},
		"to what may be another namespace": {
			[]compare.Delta{in(t, "x", "a", widget(""), ""), in(t, "y", "b", "", widget(""))},
			[]string{"deleted a:Widget.example.org w/1 on c1", "added b:Widget.example.org w/1 on c1"},
		},
		"to the namespace that was meant": {
			[]compare.Delta{in(t, "x", "a", widget(""), ""), in(t, "y", "b", "", widget(", namespace: x"))},
			[]string{"moved b:Widget.example.org x/w/1 on c1 from a"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			groups := compare.Of(compare.Moves(tt.deltas))
			lines := summed(groups)
			for i, g := range groups {
				if from := g.Objects[0].From; from != "" {
					lines[i] += " from " + from
				}
				for _, f := range g.Fields {
					lines[i] += fmt.Sprintf(": %s %v %v", f.Path, f.Before, f.After)
				}
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMovesCountForNoBudget(t *testing.T) {
	var many strings.Builder
	for i := range 12 {
		many.WriteString(configMap(fmt.Sprintf("c%d", i), "1"))
	}
	moves := compare.Moves([]compare.Delta{delta(t, "a", "c1 c2", many.String(), ""), delta(t, "b", "c1", "", many.String())})
	holds := compare.Holds(moves)
	if len(holds) != 1 || strings.Join(holds[0].Clusters, " ") != "c2" || !strings.Contains(holds[0].Message, "12 deletions wait") {
		t.Errorf("%+v", holds)
	}
}

func TestSecretsStayMaskedWhenTheyMove(t *testing.T) {
	secret := func(value string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: " + value + "}\n"
	}
	groups := compare.Of(compare.Moves([]compare.Delta{delta(t, "a", "c1", secret("canary-1"), ""), delta(t, "b", "c1", "", secret("canary-2"))}))
	if len(groups) != 1 || len(groups[0].Fields) != 1 {
		t.Fatalf("%+v", groups)
	}
	before, after := groups[0].Example.Masked()
	if text := fmt.Sprint(groups[0].Fields, before, after); strings.Contains(text, "canary") || before == nil || after == nil {
		t.Error(text)
	}
}
