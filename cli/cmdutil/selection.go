package cmdutil

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

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
