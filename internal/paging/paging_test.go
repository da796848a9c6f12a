package paging_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pluralsh/plural/internal/paging"
)

type row struct {
	name, kind string
	size       int64
}

var table = paging.Table[row]{
	Columns: map[string]paging.Column[row]{
		"name": {Text: func(r row) string { return r.name }}, "kind": {Text: func(r row) string { return r.kind }},
		"size": {Number: func(r row) int64 { return r.size }},
	},
	ID: []string{"name"},
}

func one(row) int { return 1 }

// whole reads a list page by page; between is called between two pages.
func whole(t rapid.TB, rows *[]row, q paging.Query, size func(row) int, between func()) (names []string) {
	for pages := 0; ; pages++ {
		p, err := table.Start(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range *rows {
			p.Add(r)
		}
		items, next := p.Items(size)
		for _, r := range items {
			names = append(names, r.name)
		}
		if q.Continue = next; next == "" {
			return names
		}
		if pages > 2000 {
			t.Fatal("there is no end")
		}
		between()
	}
}

func TestPagesTogetherAreTheSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []row
		for i := range rapid.IntRange(0, 60).Draw(t, "rows") {
			rows = append(rows, row{
				fmt.Sprintf("r%02d", i), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "kind"), rapid.Int64Range(-2, 2).Draw(t, "size"),
			})
		}
		sort := rapid.SampledFrom([]string{"", "name", "-name", "kind", "-kind,size", "size,-kind,-name", "-size"}).Draw(t, "sort")
		want := slices.Clone(rows)
		slices.SortStableFunc(want, func(a, b row) int {
			for _, column := range strings.Split(sort, ",") {
				name, down := strings.CutPrefix(column, "-")
				var c int
				switch name {
				case "name":
					c = strings.Compare(a.name, b.name)
				case "kind":
					c = strings.Compare(a.kind, b.kind)
				case "size":
					c = int(a.size - b.size)
				}
				if down {
					c = -c
				}
				if c != 0 {
					return c
				}
			}
			return strings.Compare(a.name, b.name)
		})
		var names []string
		for _, r := range want {
			names = append(names, r.name)
		}
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		got := whole(t, &rows, paging.Query{Sort: sort, Limit: rapid.IntRange(1, 20).Draw(t, "limit")}, one, func() {})
		if diff := cmp.Diff(names, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestPagesOfWhatComesInOrderAreTheSameAtAnyOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []row
		for i := range rapid.IntRange(0, 80).Draw(t, "rows") {
			kind := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "kind")
			rows = append(rows, row{fmt.Sprintf("r%02d", i), kind, rapid.Int64Range(-2, 2).Draw(t, "size")})
		}
		sorts := []string{"", "name", "-name", "kind", "-kind,size", "size,-kind,-name", "-size", "-kind,name", "name,kind"}
		q := paging.Query{
			Sort: rapid.SampledFrom(sorts).Draw(t, "sort"), Limit: rapid.IntRange(1, 20).Draw(t, "limit"), Offset: rapid.IntRange(0, 90).Draw(t, "offset"),
		}
		ordered := table
		ordered.Ordered = true
		read := func(table paging.Table[row], q paging.Query, rows []row) ([]row, string) {
			p, err := table.Start(q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				p.Add(r)
			}
			return p.Items(one)
		}
		all, _ := read(table, paging.Query{Sort: q.Sort, Limit: 100}, rows)
		want := all[min(q.Offset, len(all)):min(q.Offset+q.Limit, len(all))]
		shuffled := slices.Clone(rows)
		rand.Shuffle(len(rows), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		got, next := read(ordered, q, rows)
		other, then := read(table, q, shuffled)
		if !slices.Equal(got, want) || !slices.Equal(other, want) || next != then ||
			(next != "") != (len(want) > 0 && q.Offset+q.Limit < len(all)) {
			t.Fatalf("want %v, in order %v, next %q, in no order %v, next %q", want, got, next, other, then)
		}
		if next == "" {
			return
		}
		got, _ = read(ordered, paging.Query{Sort: q.Sort, Limit: q.Limit, Continue: next}, rows)
		if want = all[q.Offset+q.Limit : min(q.Offset+2*q.Limit, len(all))]; !slices.Equal(got, want) {
			t.Fatalf("the page after is %v, want %v", got, want)
		}
	})
}

func TestListGoesOnWhereItWasWhileItemsComeAndGo(t *testing.T) {
	var rows []row
	for i := range 20 {
		rows = append(rows, row{name: fmt.Sprintf("r%02d", i)})
	}
	turn := 0
	got := whole(t, &rows, paging.Query{Limit: 5}, one, func() {
		turn++
		rows = slices.DeleteFunc(rows, func(r row) bool { return r.name == "r04" || r.name == "r12" }) // the place itself is gone
		rows = append(rows, row{name: fmt.Sprintf("q%02d", turn)})                                     // before the place: not in this reading
	})
	want := []string{}
	for i := range 20 {
		if i != 12 {
			want = append(want, fmt.Sprintf("r%02d", i))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPageEndsBeforeItGetsTooLarge(t *testing.T) {
	rows := []row{{name: "a"}, {name: "b"}, {name: "c"}}
	p, err := table.Start(paging.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		p.Add(r)
	}
	items, next := p.Items(func(row) int { return paging.MaxBytes/2 - 1 })
	if len(items) != 2 || next == "" {
		t.Errorf("%d items, next %q", len(items), next)
	}
	if got := whole(t, &rows, paging.Query{}, func(row) int { return 2 * paging.MaxBytes }, func() {}); len(got) != 3 {
		t.Errorf("items that are too large alone: %v", got)
	}
}

func TestTextsThatDifferFarBehindAreStillAllRead(t *testing.T) {
	var rows []row
	for i := range 10 {
		rows = append(rows, row{name: fmt.Sprintf("r%d", i), kind: strings.Repeat("ä", 200) + string(rune('a'+9-i))})
	}
	if got := whole(t, &rows, paging.Query{Sort: "kind", Limit: 1}, one, func() {}); len(got) != 10 {
		t.Errorf("%v", got)
	}
}

func TestWrongQueryIsRefused(t *testing.T) {
	p, err := table.Start(paging.Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.Add(row{name: "a"})
	p.Add(row{name: "b"})
	_, token := p.Items(one)
	for _, q := range []paging.Query{
		{Sort: "colour"},
		{Sort: "name,"},
		{Sort: ","},
		{Sort: "--name"},
		{Continue: "x"},
		{Continue: "!"},
		{Continue: token, Sort: "-name"},
		{Continue: strings.Repeat("A", 5000)},
		{Continue: token[:len(token)-4]},
	} {
		var wrong *paging.Error
		if _, err := table.Start(q); !errors.As(err, &wrong) || wrong.Message == "" || wrong.Fix == "" {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, limit := range []string{"0", "-1", "501", "x", "1e3", "99999999999999999999"} {
		if _, err := paging.FromURL(url.Values{"limit": {limit}}); err == nil {
			t.Errorf("limit %s", limit)
		}
	}
}

func TestQueryIsTheSameThereAndBack(t *testing.T) {
	want := paging.Query{Filter: `a:"b c"`, Sort: "-size,name", Continue: "abc", Limit: 7}
	if got, err := paging.FromURL(want.Values()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzContinue(f *testing.F) {
	p, err := table.Start(paging.Query{Limit: 1, Sort: "size"})
	if err != nil {
		f.Fatal(err)
	}
	p.Add(row{name: "a"})
	p.Add(row{name: "b"})
	_, token := p.Items(one)
	f.Add(token, "size")
	f.Add("", "-kind,name")
	f.Add("e30", "")
	f.Fuzz(func(t *testing.T, token, sort string) {
		p, err := table.Start(paging.Query{Continue: token, Sort: sort})
		if err != nil {
			if wrong := new(paging.Error); !errors.As(err, &wrong) {
				t.Fatal(err)
			}
			return
		}
		p.Add(row{name: "a"})
		if items, next := p.Items(one); len(items) > 1 || next != "" {
			t.Fatalf("%v, %q", items, next)
		}
	})
}

func TestWhoJumpsSeesWhatWhoPagesSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []row
		for i := range rapid.IntRange(0, 60).Draw(t, "rows") {
			rows = append(rows, row{fmt.Sprintf("r%02d", i), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind"), int64(rapid.IntRange(0, 3).Draw(t, "size"))})
		}
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		q := paging.Query{Sort: rapid.SampledFrom([]string{"", "kind", "-size"}).Draw(t, "sort"), Limit: 7}
		all := whole(t, &rows, q, one, func() {})
		q.Offset = rapid.IntRange(0, 70).Draw(t, "offset")
		p, err := table.Start(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			p.Add(r)
		}
		items, next := p.Items(one)
		var got []string
		for _, r := range items {
			got = append(got, r.name)
		}
		from := min(q.Offset, len(all))
		want := all[from:min(from+q.Limit, len(all))]
		if !slices.Equal(got, want) || (next != "") != (len(want) > 0 && from+len(want) < len(all)) {
			t.Fatalf("from %d: %v with next %q, want %v of %d", q.Offset, got, next, want, len(all))
		}
		if next == "" {
			return
		}
		q.Offset, q.Continue = 0, next
		if rest := whole(t, &rows, q, one, func() {}); !slices.Equal(rest, all[from+len(want):]) {
			t.Fatalf("after it: %v", rest)
		}
	})
}

func TestAnOffsetIsANumberAndStandsAlone(t *testing.T) {
	for _, text := range []string{"offset=-1", "offset=x", "offset=10000001", "offset=1&continue=abc"} {
		values, _ := url.ParseQuery(text)
		if _, err := paging.FromURL(values); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	values, _ := url.ParseQuery("offset=40")
	if q, err := paging.FromURL(values); err != nil || q.Offset != 40 || q.Values().Get("offset") != "40" {
		t.Errorf("%+v, %v", q, err)
	}
}
