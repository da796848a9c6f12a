package tables

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

func sources(c *cells) kind[v1.Source] {
	return kind[v1.Source]{
		title: "sources", noun: "sources", stream: v1.ChangedSources, list: c.Fleet.Sources,
		pinned: 1, faults: "!error:",
		subject: source,
		leads:   "what is read from it",
		enter:   func(row *v1.Source) (pane.Open, bool) { return pane.Open{Pane: "services", About: source(row)}, true },
		start:   "plural source add NAME --git URL adds a repository to read services from",
		columns: []column[v1.Source]{
			{
				Column: paint.Column{Name: "SOURCE", Weight: 1, Min: 6, Max: 40}, by: "name", key: "s",
				cell: func(row *v1.Source) paint.Cell { return text(row.Name) },
			},
			{
				Column: paint.Column{Name: "STATE"},
				cell: func(row *v1.Source) paint.Cell {
					p, word := v1.Healthy, "fetched"
					switch {
					case row.Error != "":
						p, word = v1.Failed, "failing"
					case row.LastFetch == nil:
						p, word = v1.Pending, "not yet"
					}
					cell := c.phase(p)
					cell.Text = word
					return cell
				},
			},
			{
				Column: paint.Column{Name: "KIND", Rank: 3}, by: "kind", key: "k",
				cell: func(row *v1.Source) paint.Cell { return text(row.Kind) },
			},
			{
				Column: paint.Column{Name: "AGE", Right: true, Rank: 1}, by: "age", key: "a", down: true,
				cell: func(row *v1.Source) paint.Cell { return c.fetched(row) },
			},
			{
				Column: paint.Column{Name: "FAILURES", Right: true, Rank: 4}, by: "failures", key: "f", down: true,
				cell: func(row *v1.Source) paint.Cell { return number(row.Failures) },
			},
			{
				Column: paint.Column{Name: "REF", Max: 16, Rank: 5},
				cell:   func(row *v1.Source) paint.Cell { return text(row.Ref) },
			},
			{
				Column: paint.Column{Name: "COMMIT", Rank: 6, Hide: 100},
				cell:   func(row *v1.Source) paint.Cell { return faint(short(row.Commit)) },
			},
			{
				Column: paint.Column{Name: "URL", Weight: 2, Rank: 7, Min: 16, Hide: 60},
				cell:   func(row *v1.Source) paint.Cell { return faint(row.URL) },
			},
			{
				Column: paint.Column{Name: "ERROR", Weight: 4, Min: 16},
				cell:   func(row *v1.Source) paint.Cell { return paint.Cell{Text: row.Error, Style: paint.Bad} },
			},
		},
	}
}

// fetched is how old what is served of a source is: as old as the hub said, and as what the hub said is by now.
func (c *cells) fetched(row *v1.Source) paint.Cell {
	at := c.Fleet.AsOf()
	switch {
	case at.IsZero():
		return c.age(-1, false)
	case row.LastFetch == nil:
		return faint("never")
	}
	age := time.Duration(row.Age*float64(time.Second)) + max(0, c.Now().Sub(at))
	cell := faint(duration.HumanDuration(max(0, age)))
	if row.Error != "" || c.Fleet.State.Link != model.Live {
		cell.Style = paint.Old
	}
	return cell
}

func source(row *v1.Source) pane.Subject { return pane.Subject{Kind: pane.KindSource, Name: row.Name} }
