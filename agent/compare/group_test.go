package compare_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/compare"
)

// delta compares one service on some clusters.
func delta(t testing.TB, service, clusters, before, after string) compare.Delta {
	t.Helper()
	old, now := compare.Side{Objects: objects(t, before), Namespace: "web"}, compare.Side{Objects: objects(t, after), Namespace: "web"}
	return compare.Delta{
		Service: service, Clusters: strings.Fields(clusters), Changes: compare.Objects(old, now, nil),
		Before: len(old.Objects), After: len(now.Objects), Prune: true,
	}
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: %s}\n---\n", name, value)
}

// summed is a line for each group.
func summed(groups []compare.Group) []string {
	lines := []string{}
	for _, g := range groups {
		var what []string
		for _, o := range g.Objects {
			what = append(what, fmt.Sprintf("%s:%s/%d", o.Service, strings.TrimPrefix(o.Object, "ConfigMap web/"), o.Clusters))
		}
		line := fmt.Sprintf("%s %s on %s", g.Action, strings.Join(what, " "), strings.Join(g.Clusters, " "))
		if g.Contents > 0 {
			line += fmt.Sprintf(", %d contents", g.Contents)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestTheSameChangeIsOneGroupAndTheFurthestComesFirst(t *testing.T) {
	one, two := configMap("c", "1"), configMap("c", "2")
	tests := map[string]struct {
		deltas []compare.Delta
		want   []string
	}{
		"on clusters whose objects differ elsewhere": {
			[]compare.Delta{delta(t, "a", "c1 c2", one, two), delta(t, "a", "c3", one+configMap("x", "1"), two+configMap("x", "1"))},
			[]string{"changed a:c/3 on c1 c2 c3"},
		},
		"in several services": {
			[]compare.Delta{delta(t, "a", "c1 c2", one, two), delta(t, "b", "c2 c3", one, two)},
			[]string{"changed a:c/2 b:c/2 on c1 c2 c3"},
		},
		"in several objects": {
			[]compare.Delta{delta(t, "a", "c1", one+configMap("d", "1"), two+configMap("d", "2"))},
			[]string{"changed a:c/1 a:d/1 on c1"},
		},
		"to other values": {
			[]compare.Delta{delta(t, "a", "c1", one, two), delta(t, "a", "c2 c3", one, configMap("c", "3"))},
			[]string{"changed a:c/2 on c2 c3", "changed a:c/1 on c1"},
		},
		"what is added with other contents": {
			[]compare.Delta{delta(t, "a", "c1", "", one), delta(t, "a", "c2", "", two)},
			[]string{"added a:c/2 on c1 c2, 2 contents"},
		},
		"what goes together": {
			[]compare.Delta{delta(t, "a", "c1 c2", one+configMap("d", "1"), ""), delta(t, "b", "c1", one, "")},
			[]string{"deleted a:c/2 a:d/2 on c1 c2", "deleted b:c/1 on c1"},
		},
		"as far, but deleting": {
			[]compare.Delta{delta(t, "a", "c1", one+configMap("d", "1"), two)},
			[]string{"deleted a:d/1 on c1", "changed a:c/1 on c1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, summed(compare.Of(tt.deltas))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDeletionsThatWillWaitAreForetold(t *testing.T) {
	var many strings.Builder
	for i := range 12 {
		many.WriteString(configMap(fmt.Sprintf("c%d", i), "1"))
	}
	with := func(d compare.Delta, change func(*compare.Delta)) compare.Delta {
		change(&d)
		return d
	}
	one := configMap("c0", "1")
	tests := map[string]struct {
		delta compare.Delta
		want  string
	}{
		"within the budget":            {delta(t, "a", "c1", many.String(), many.String()[:strings.LastIndex(strings.TrimSuffix(many.String(), "\n---\n"), "---")]), ""},
		"beyond the budget":            {delta(t, "a", "c1", many.String(), one), "11 deletions wait: the budget of 50% allows 10 of 12 objects"},
		"beyond a small budget":        {with(delta(t, "a", "c1", many.String(), configMap("c1", "1")+one), func(d *compare.Delta) { d.Budget = "1" }), "10 deletions wait: the budget of 1 allows 1 of 12 objects"},
		"nothing is left":              {delta(t, "a", "c1", one, ""), "nothing is left of what it renders to: 1 deletion waits"},
		"the service goes":             {with(delta(t, "a", "c1", many.String(), ""), func(d *compare.Delta) { d.Leaves = true }), ""},
		"pruning is off":               {with(delta(t, "a", "c1", many.String(), one), func(d *compare.Delta) { d.Prune = false }), ""},
		"what goes stays all the same": {delta(t, "a", "c1", "apiVersion: v1\nkind: Namespace\nmetadata: {name: n}", ""), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, h := range compare.Holds([]compare.Delta{tt.delta}) {
				got += h.Message
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHoldsOfOneServiceThatSayTheSameAreOne(t *testing.T) {
	a, b := delta(t, "a", "c2", configMap("c", "1"), ""), delta(t, "a", "c1", configMap("c", "2"), "")
	holds := compare.Holds([]compare.Delta{a, b})
	if len(holds) != 1 || strings.Join(holds[0].Clusters, " ") != "c1 c2" {
		t.Errorf("%+v", holds)
	}
}
