package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
)

func TestSelectionBecomesAQuery(t *testing.T) {
	s := Selection{Filter: "health:degraded | x", Tags: []string{"env=prod,!old", "tier!=db"}, Sort: "-health", Limit: 7}
	want := paging.Query{
		Filter: `name:"web","pay-"* tag.env:"prod" tag.old: !tag.tier:"db" health:degraded | x`, Sort: "-health", Limit: 7,
	}
	if got, err := s.Query("name", []string{"web", "pay-*"}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, limit := range []int{0, 501} {
		if got, err := (&Selection{Limit: limit}).Query("name", nil); err != nil || got != (paging.Query{Limit: paging.MaxLimit}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, wrong := range []Selection{{Limit: -1}, {Tags: []string{"="}}, {Tags: []string{""}}} {
		var told *ui.Err
		if _, err := wrong.Query("name", nil); !errors.As(Explain(err), &told) || told.Fix == "" {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestPickReadsPagesUpToTheLimit(t *testing.T) {
	asked := 0
	page := func(_ context.Context, q paging.Query) (*v1.List[int], error) {
		asked++
		first, _ := strconv.Atoi(q.Continue)
		list := &v1.List[int]{Total: 5}
		for i := first; i < min(first+2, 5); i++ {
			list.Items = append(list.Items, i)
		}
		if first+2 < 5 {
			list.Next = fmt.Sprint(first + 2)
		}
		return list, nil
	}
	for limit, want := range map[int][]int{0: {0, 1, 2, 3, 4}, 1: {0}, 3: {0, 1, 2}, 9: {0, 1, 2, 3, 4}} {
		asked = 0
		got, err := Pick(t.Context(), &Selection{Limit: limit}, paging.Query{}, page)
		if err != nil || cmp.Diff(want, got.Items) != "" || got.Total != 5 || asked > (len(want)+1)/2 {
			t.Errorf("%d: %v, %v after %d pages", limit, got, err, asked)
		}
	}
	away := errors.New("away")
	broken := func(context.Context, paging.Query) (*v1.List[int], error) { return nil, away }
	if _, err := Pick(t.Context(), &Selection{}, paging.Query{}, broken); !errors.Is(err, away) {
		t.Error(err)
	}
}

func TestPickFromSortsAndFiltersWhatIsHere(t *testing.T) {
	name := func(s string) string { return s }
	schema := filter.Schema[string]{Fields: map[string]filter.Field[string]{"name": {Get: name}}, Names: []func(string) string{name}}
	table := paging.Table[string]{Columns: map[string]paging.Column[string]{"name": {Text: name}}, ID: []string{"name"}}
	pick := func(s Selection, names ...string) ([]string, error) {
		q, err := s.Query("name", names)
		if err != nil {
			return nil, err
		}
		return PickFrom(&s, q, schema, table, []string{"c", "ab", "a"})
	}
	for _, tt := range []struct {
		s     Selection
		names []string
		want  []string
	}{
		{Selection{}, nil, []string{"a", "ab", "c"}},
		{Selection{Sort: "-name", Limit: 2}, nil, []string{"c", "ab"}},
		{Selection{Filter: "!c"}, nil, []string{"a", "ab"}},
		{Selection{}, []string{"a*"}, []string{"a", "ab"}},
		{Selection{}, []string{"x"}, []string{}},
	} {
		if got, err := pick(tt.s, tt.names...); err != nil || cmp.Diff(tt.want, got) != "" {
			t.Errorf("%+v: %v, %v", tt, got, err)
		}
	}
	for _, wrong := range []Selection{{Filter: "x("}, {Sort: "x"}, {Tags: []string{"a=b"}}} {
		var told *ui.Err
		if _, err := pick(wrong); !errors.As(Explain(err), &told) || told.Fix == "" {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestNamesThatAreNotThereAreAnErrorUnlessOtherThingsPickToo(t *testing.T) {
	asked, found := []string{"a", "b", "c*"}, []string{"thing/a"}
	if err := (&Selection{}).Missing("thing", asked, found); err == nil || err.Error() != `there is no thing "b"` {
		t.Error(err)
	}
	if err := (&Selection{Filter: "x"}).Missing("thing", asked, found); err != nil {
		t.Error(err)
	}
}
