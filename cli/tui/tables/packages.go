package tables

import (
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

func packages(c *cells) kind[v1.Upgrade] {
	return kind[v1.Upgrade]{
		title: "packages", noun: "installations", stream: v1.ChangedUpgrades, list: c.Fleet.Upgrades,
		pinned: 1, faults: "state:blocked,reverted",
		subject: installed,
		leads:   "describe",
		enter: func(row *v1.Upgrade) (pane.Open, bool) {
			return pane.Open{Pane: "describe", About: installed(row)}, true
		},
		start: "plural package search finds some, plural package add NAME adds one",
		columns: []column[v1.Upgrade]{
			{
				Column: paint.Column{Name: "INSTALLATION", Weight: 2, Min: 12, Max: 40}, by: "installation", key: "i",
				cell: func(row *v1.Upgrade) paint.Cell { return text(row.Installation) },
			},
			{
				Column: paint.Column{Name: "VERSION", Max: 18},
				cell:   func(row *v1.Upgrade) paint.Cell { return text(row.Version) },
			},
			{
				Column: paint.Column{Name: "NEWEST", Max: 18, Rank: 2},
				cell:   newest,
			},
			{
				Column: paint.Column{Name: "STATE"}, by: "state", key: "s",
				cell: func(row *v1.Upgrade) paint.Cell {
					glyph, style := c.Look.Upgrade(row.State)
					return paint.Cell{Glyph: glyph, Text: string(row.State), Style: style}
				},
			},
			{
				Column: paint.Column{Name: "POLICY", Rank: 3},
				cell:   func(row *v1.Upgrade) paint.Cell { return text(row.Policy) },
			},
			{
				Column: paint.Column{Name: "AGE", Right: true, Rank: 1},
				cell:   func(*v1.Upgrade) paint.Cell { return c.shown() },
			},
			{
				Column: paint.Column{Name: "PACKAGE", Max: 24, Rank: 4, Hide: 100}, by: "package", key: "p",
				cell: func(row *v1.Upgrade) paint.Cell { return faint(row.Package) },
			},
			{
				Column: paint.Column{Name: "CATALOG", Max: 24, Rank: 5, Hide: 140},
				cell:   func(row *v1.Upgrade) paint.Cell { return faint(row.Catalog) },
			},
			{
				Column: paint.Column{Name: "REASON", Weight: 5, Min: 16},
				cell:   func(row *v1.Upgrade) paint.Cell { return text(because(row)) },
			},
		},
	}
}

func newest(row *v1.Upgrade) paint.Cell {
	if row.Newest == "" {
		return faint("-")
	}
	return paint.Cell{Text: row.Newest, Style: paint.Bold}
}

// because is the first reason, with what to do about it.
func because(row *v1.Upgrade) string {
	if len(row.Reasons) == 0 {
		return row.URL
	}
	r := &row.Reasons[0]
	if r.Fix == "" {
		return r.Message
	}
	return r.Message + ": " + r.Fix
}

func installed(row *v1.Upgrade) pane.Subject {
	return pane.Subject{Kind: pane.KindPackage, Name: row.Installation}
}
