package cmdutil

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
)

// Selection is which rows of a list are meant, and in which order: the flags are the same for every list.
type Selection struct {
	// Filter is in the words of package filter; Tags are what each -l says.
	Filter string
	Tags   []string
	// Sort is columns with commas between them.
	Sort string
	// Limit is the most rows; 0 is all.
	Limit int
}

// Flags declares -l, --filter, --sort and --limit.
func (s *Selection) Flags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&s.Tags, "selector", "l", nil, "only with these `TAGS`, such as env=prod,tier!=db")
	flags.StringVar(&s.Filter, "filter", "", "only what fits this `TEXT`: plural help filters")
	flags.StringVar(&s.Sort, "sort", "", "by these `COLUMNS`, such as -health,name")
	flags.IntVar(&s.Limit, "limit", 0, "at most so many `ROWS` (default: all)")
}

// Any says whether there is a condition at all.
func (s *Selection) Any() bool { return s.Filter != "" || len(s.Tags) > 0 }

// Query asks a list for what is meant. Names pick by the field key; a star in one stands for anything.
func (s *Selection) Query(key string, names []string) (paging.Query, error) {
	if s.Limit < 0 {
		return paging.Query{}, &ui.Err{Msg: fmt.Sprintf("--limit %d is negative", s.Limit), Fix: "--limit 50"}
	}
	var terms []string
	if len(names) > 0 {
		terms = append(terms, filter.OneOf(key, names))
	}
	for _, text := range s.Tags {
		tags, err := filter.Tags(text)
		if err != nil {
			return paging.Query{}, err
		}
		terms = append(terms, tags)
	}
	if s.Filter != "" {
		terms = append(terms, s.Filter)
	}
	q := paging.Query{Filter: strings.Join(terms, " "), Sort: s.Sort, Limit: paging.MaxLimit}
	if s.Limit > 0 {
		q.Limit = min(s.Limit, paging.MaxLimit)
	}
	return q, nil
}

// Pick reads what a query asks for from one of the hub's lists: page by page, up to the limit.
func Pick[T any](
	ctx context.Context, s *Selection, q paging.Query, page func(context.Context, paging.Query) (*v1.List[T], error),
) (*v1.List[T], error) {
	whole := &v1.List[T]{Items: []T{}}
	for {
		list, err := page(ctx, q)
		if err != nil {
			return nil, err
		}
		whole.Items = append(whole.Items, list.Items...)
		whole.Total, whole.Counts = list.Total, list.Counts
		if s.Limit > 0 && len(whole.Items) >= s.Limit {
			whole.Items = whole.Items[:s.Limit]
			return whole, nil
		}
		if q.Continue = list.Next; list.Next == "" {
			return whole, nil
		}
	}
}

// PickFrom is Pick from a list that is here.
func PickFrom[T any](s *Selection, q paging.Query, schema filter.Schema[T], table paging.Table[T], items []T) ([]T, error) {
	picks, err := filter.Parse(q.Filter, schema)
	if err != nil {
		return nil, err
	}
	q.Limit = len(items) + 1
	if s.Limit > 0 {
		q.Limit = s.Limit
	}
	page, err := table.Start(q)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if picks.Match(item) {
			page.Add(item)
		}
	}
	picked, _ := page.Items(func(T) int { return -1 }) // they are on no wire: no page is too large
	return append([]T{}, picked...), nil
}

// Missing is the error about names that were asked for, and of which nothing was found. Where there are other conditions too, none
// is missing.
func (s *Selection) Missing(noun string, asked, found []string) error {
	if s.Any() || s.Limit > 0 {
		return nil
	}
	var missing []string
	for _, name := range asked {
		if !strings.Contains(name, "*") && !slices.Contains(found, noun+"/"+name) {
			missing = append(missing, strconv.Quote(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &ui.Err{
		Msg: fmt.Sprintf("there is no %s %s", noun, strings.Join(missing, ", ")), Fix: "plural " + noun + " list", Doc: ui.DocNotFound,
	}
}

// Note tells how many rows there are beside those that are shown, and, where there are none at all, that.
func (s *Selection) Note(nouns string, shown, total int) string {
	switch {
	case shown < total:
		return fmt.Sprintf("%d of %d %s; --limit shows more", shown, total, nouns)
	case total == 0 && s.Any():
		return "no " + nouns + " fit the filter"
	}
	return ""
}
