package tables

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// cells are how values stand in columns.
type cells struct{ *pane.World }

func text(s string) paint.Cell { return paint.Cell{Text: s} }

func faint(s string) paint.Cell { return paint.Cell{Text: s, Style: paint.Faint} }

func (c *cells) phase(p v1.Phase) paint.Cell {
	glyph, style := c.Look.Phase(p)
	return paint.Cell{Glyph: glyph, Text: string(p), Style: style}
}

// part is how many of all: what is not whole stands out.
func part(ready, all int) paint.Cell {
	cell := paint.Cell{Text: strconv.Itoa(ready) + "/" + strconv.Itoa(all)}
	if ready < all {
		cell.Style = paint.Bold
	}
	return cell
}

func number(n int64) paint.Cell {
	if n == 0 {
		return faint("0")
	}
	return text(strconv.FormatInt(n, 10))
}

// age is how old what is known of a row is. What is not from now says so in words: a row that is silently old is a lie.
func (c *cells) age(age time.Duration, silent bool) paint.Cell {
	switch {
	case age < 0:
		return paint.Cell{Text: "never seen", Style: paint.Old}
	case silent:
		return paint.Cell{Text: "stale " + duration.HumanDuration(age), Style: paint.Old}
	case c.Fleet.State.Link == model.Live:
		return paint.Cell{Text: "now", Style: paint.Faint, Usual: true}
	}
	return paint.Cell{Text: duration.HumanDuration(age), Style: paint.Old}
}

// shown is age of what is as old as everything that is shown.
func (c *cells) shown() paint.Cell {
	at := c.Fleet.AsOf()
	if at.IsZero() {
		return c.age(-1, false)
	}
	return c.age(max(0, c.Now().Sub(at)), false)
}

// since is how long ago something was.
func (c *cells) since(t *time.Time) paint.Cell {
	if t == nil || t.IsZero() {
		return faint("never")
	}
	return faint(duration.HumanDuration(max(0, c.Now().Sub(*t))))
}

// report is how long ago a cluster reported last, where it is not on time. A live hub says when it is late, and else does not say
// of each report that it came: a time that is counted from the last it spoke of would grow while all is well.
func (c *cells) report(row *v1.Cluster) paint.Cell {
	if !model.Reporting(row) {
		return c.since(row.LastReport)
	}
	if c.Fleet.State.Link == model.Live {
		return paint.Cell{Text: "on time", Style: paint.Faint, Usual: true}
	}
	at := c.Fleet.AsOf()
	if at.IsZero() {
		at = *row.LastReport
	}
	return c.since(&at)
}

// clock is when something was, to the second where that was today.
func (c *cells) clock(t time.Time) paint.Cell {
	now := c.Now()
	t = t.In(now.Location())
	if now.Sub(t) < 12*time.Hour && t.YearDay() == now.YearDay() {
		return faint(t.Format("15:04:05"))
	}
	return faint(t.Format("Jan 02 15:04"))
}

func tags(all map[string]string) string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=" + all[name])
	}
	return b.String()
}

// reason is a message behind what else a person should know.
func reason(message string, suspended bool, held int) string {
	var parts []string
	if suspended && !strings.HasPrefix(message, "suspended") {
		parts = append(parts, "suspended")
	}
	if held > 0 && !strings.Contains(message, "deletions wait") {
		parts = append(parts, strconv.Itoa(held)+" deletions wait for a yes")
	}
	if message != "" {
		parts = append(parts, message)
	}
	return strings.Join(parts, "; ")
}

// short is a commit as people read it.
func short(commit string) string { return commit[:min(len(commit), 7)] }
