package diff

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/inspect"
)

const (
	// maxNames bounds a list of names on the screen.
	maxNames = 5
	// maxSame bounds how many changes of the same fields, to other values, are shown.
	maxSame = 3
)

// screen prints a report for people.
type screen struct {
	streams *ui.Streams
	unified bool
}

func (s screen) write(w io.Writer, r *report) error {
	b := &strings.Builder{}
	s.groups(b, r.Items)
	for _, set := range r.Settings {
		s.head(b, "settings of service "+set.Service, "")
		fmt.Fprintf(b, "  %s\n", ui.Clean(set.Where))
		s.fields(b, set.Fields)
		b.WriteByte('\n')
	}
	if len(r.Left) > 0 {
		s.head(b, count(len(r.Left), "cluster")+" leaving the fleet", ui.Yellow)
		fmt.Fprintf(b, "  %s: what runs there stays\n\n", cmdutil.Few(r.Left))
	}
	for _, hold := range r.Held {
		s.hold(b, hold)
	}
	for _, p := range r.Problems {
		s.problem(b, p)
	}
	if len(r.Items) > 0 {
		fmt.Fprintf(b, "%s\n", summary(r))
	}
	s.findings(b, "mistake", ui.Red, r.Mistakes)
	s.findings(b, "warning", ui.Yellow, r.Warnings)
	if len(r.Items) > 0 && r.Packages != nil {
		b.WriteByte('\n')
	}
	s.packages(b, r.Packages)
	if r.Live != nil {
		s.live(b, r.Live)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s screen) head(b *strings.Builder, text string, style ui.Style) {
	if style == "" {
		style = ui.Bold
	}
	fmt.Fprintln(b, s.streams.Paint(style, ui.Clean(text)))
}

// groups prints what differs. Of changes that only set other values at the same fields of the same objects, a few are enough.
func (s screen) groups(b *strings.Builder, groups []compare.Group) {
	eachShape(groups, func(g *compare.Group) { s.group(b, g) }, func(more ratio) {
		fmt.Fprintf(b, "%s of the same fields to other values, on %s\n\n",
			s.streams.Paint(ui.Bold, count(more.some, "more change")), count(more.all, "cluster"))
	})
}

// eachShape calls show for the first maxSame groups of each shape, and after the last of a shape more, with how many others there
// are on how many clusters.
func eachShape(groups []compare.Group, show func(*compare.Group), more func(ratio)) {
	shown, left := map[string]int{}, map[string]ratio{}
	last := map[string]int{}
	for i := range groups {
		last[shape(&groups[i])] = i
	}
	for i := range groups {
		g := &groups[i]
		name := shape(g)
		if shown[name]++; shown[name] <= maxSame {
			show(g)
		} else {
			m := left[name]
			left[name] = ratio{m.some + 1, m.all + len(g.Clusters)}
		}
		if m := left[name]; last[name] == i && m.some > 0 {
			more(m)
		}
	}
}

// shape is the same for changes that differ in values alone.
func shape(g *compare.Group) string {
	parts := []string{string(g.Action)}
	for _, o := range g.Objects {
		parts = append(parts, o.Service, o.Object)
	}
	for _, f := range g.Fields {
		parts = append(parts, f.Path, string(f.Action))
	}
	if g.Action != compare.Changed {
		parts = append(parts, g.Clusters...) // what comes and goes is told each time
	}
	return strings.Join(parts, "\n")
}

func (s screen) group(b *strings.Builder, g *compare.Group) {
	verb, style := string(g.Action), map[compare.Action]ui.Style{compare.Added: ui.Green, compare.Deleted: ui.Red, compare.Refused: ui.Red}[g.Action]
	if g.Stays() {
		verb, style = "no longer rendered:", ui.Yellow
	}
	if len(g.Objects) == 1 {
		s.head(b, verb+" "+g.Objects[0].Object+s.remark(g, g.Objects[0]), style)
	} else {
		s.head(b, verb+" "+count(len(g.Objects), "object"), style)
		s.objects(b, g)
	}
	fmt.Fprintf(b, "  %s on %s\n", about(g), reach(g.Clusters))
	for _, note := range g.Notes {
		fmt.Fprintf(b, "  %s\n", s.streams.Paint(ui.Yellow, ui.Clean(note)))
	}
	if g.Contents > 1 {
		fmt.Fprintf(b, "  with %d different contents\n", g.Contents)
	}
	if s.unified {
		s.lines(b, "  ", unifiedOf(g.Example))
	} else {
		s.fields(b, g.Fields)
	}
	b.WriteByte('\n')
}

// maxObjects bounds the list of a group's objects on the screen.
const maxObjects = 20

func (s screen) objects(b *strings.Builder, g *compare.Group) {
	several := len(servicesOf(g)) > 1
	for _, o := range g.Objects[:min(len(g.Objects), maxObjects)] {
		name := o.Object
		if several {
			name += " of " + o.Service
		}
		fmt.Fprintf(b, "  %s%s\n", ui.Clean(name), s.remark(g, o))
	}
	if more := len(g.Objects) - maxObjects; more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

// remark is what sets one object of a group apart.
func (s screen) remark(g *compare.Group, o compare.Object) string {
	text := ""
	if o.Clusters != len(g.Clusters) {
		text = " (" + count(o.Clusters, "cluster") + ")"
	}
	if o.Stays != "" {
		text += ", stays: " + ui.Clean(o.Stays)
	}
	return text
}

// about says whose objects they are.
func about(g *compare.Group) string {
	names := servicesOf(g)
	if from := g.Objects[0].From; from != "" { // all of a group come from one service and go to one
		return "moves from service " + ui.Clean(from) + " to " + ui.Clean(names[0])
	}
	if len(names) == 1 {
		return "service " + ui.Clean(names[0])
	}
	return "services " + cmdutil.Few(names)
}

func servicesOf(g *compare.Group) []string {
	var names []string
	for _, o := range g.Objects {
		names = append(names, o.Service)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// reach is "2 clusters: edge-1, edge-2".
func reach(clusters []string) string {
	return count(len(clusters), "cluster") + ": " + cmdutil.Few(clusters)
}

func (s screen) fields(b *strings.Builder, fields []compare.Field) {
	for i := range fields {
		s.field(b, &fields[i])
	}
}

// field prints one field on one line when both values are short, and as lines that come and go when they are not.
func (s screen) field(b *strings.Builder, f *compare.Field) {
	before, shortBefore := short(f.Before)
	after, shortAfter := short(f.After)
	path := ui.Clean(f.Path)
	switch {
	case shortBefore && shortAfter && f.Action == compare.Added:
		fmt.Fprintf(b, "  %s: %s\n", path, s.streams.Paint(ui.Green, "+ "+after))
	case shortBefore && shortAfter && f.Action == compare.Deleted:
		fmt.Fprintf(b, "  %s: %s\n", path, s.streams.Paint(ui.Red, "- "+before))
	case shortBefore && shortAfter:
		fmt.Fprintf(b, "  %s: %s → %s\n", path, s.streams.Paint(ui.Red, before), s.streams.Paint(ui.Green, after))
	default:
		fmt.Fprintf(b, "  %s: %s\n", path, f.Action)
		_, diff, _ := strings.Cut(unifiedText(long(f.Before), long(f.After)), "\n@@")
		_, diff, _ = strings.Cut(diff, "\n")
		s.lines(b, "    ", diff)
	}
}

// maxShort is how many characters of a value stand on one line.
const maxShort = 80

// short is a value on one line, if it fits there.
func short(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		if v == "" {
			return `""`, true
		}
		return ui.Clean(v), len(v) <= maxShort && !strings.Contains(v, "\n")
	case map[string]any:
		return "{}", len(v) == 0
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			text, ok := short(v[i])
			if _, nested := v[i].(map[string]any); nested || !ok {
				return "", false
			}
			parts[i] = text
		}
		text := "[" + strings.Join(parts, ", ") + "]"
		return text, len(text) <= maxShort
	}
	return fmt.Sprint(value), true
}

// long is a value as lines.
func long(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return strings.TrimSuffix(v, "\n") + "\n"
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Sprintln(value)
	}
	return string(text)
}

// lines prints a diff, with nothing in it that steers a terminal.
func (s screen) lines(b *strings.Builder, indent, diff string) {
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		fmt.Fprintln(b, strings.TrimRight(indent+s.streams.Difference(line), " "))
	}
}

// unifiedOf is one change as a unified diff of YAML.
func unifiedOf(c *compare.Change) string {
	before, after := c.Masked()
	labels := [2]string{"a/" + c.String(), "b/" + c.String()}
	texts := [2]string{}
	for i, side := range []map[string]any{before, after} {
		if side == nil {
			labels[i] = "/dev/null"
			continue
		}
		texts[i] = long(side)
	}
	return udiff.Unified(labels[0], labels[1], texts[0], texts[1])
}

func unifiedText(before, after string) string { return udiff.Unified("a", "b", before, after) }

func (s screen) hold(b *strings.Builder, h compare.Hold) {
	s.head(b, "held", ui.Yellow)
	about := h.Message
	if h.Service != "" {
		about = "service " + h.Service + ": " + about
	}
	if len(h.Clusters) > 0 {
		about += ", on " + reach(h.Clusters)
	}
	ui.Problem{Message: about, Fix: h.Fix}.Write(b)
	b.WriteByte('\n')
}

func (s screen) problem(b *strings.Builder, p problem) {
	title, style := p.title()
	s.head(b, "service "+p.Service+" "+title, style)
	ui.Problem{Where: p.Where, Message: p.Message, Fix: p.Fix}.Write(b)
	fmt.Fprintf(b, "  on %s\n\n", reach(p.Clusters))
}

// maxFindings bounds the mistakes on the screen, and the warnings.
const maxFindings = 20

// findings are a line each.
func (s screen) findings(b *strings.Builder, title string, style ui.Style, list []inspect.Finding) {
	for _, f := range list[:min(len(list), maxFindings)] {
		fmt.Fprintf(b, "%s: %s\n", s.streams.Paint(style, title), ui.Clean(f.Sentence()))
	}
	if more := len(list) - maxFindings; more > 0 {
		fmt.Fprintf(b, "and %s: plural validate\n", count(more, "more "+title))
	}
}

// title says what a problem keeps from being shown.
func (p *problem) title() (string, ui.Style) {
	switch {
	case p.Elsewhere:
		return "not shown", ui.Yellow
	case p.Side == "before":
		return "could not be rendered before", ui.Yellow
	}
	return "cannot be rendered", ui.Red
}

// live prints what clusters said.
func (s screen) live(b *strings.Builder, l *liveReport) {
	fmt.Fprintf(b, "\n%s\n\n", s.streams.Paint(ui.Bold, "what an apply would do now, on "+reach(l.Clusters)))
	s.groups(b, l.Items)
	for _, gone := range l.Leaving {
		s.head(b, "service "+gone.Service+" leaves", ui.Red)
		fmt.Fprintf(b, "  with all that it has on %s\n\n", reach(gone.Clusters))
	}
	if len(l.Items)+len(l.Leaving) == 0 {
		fmt.Fprintln(b, "nothing")
	}
	for _, p := range l.Problems {
		title := "cluster " + p.Clusters[0] + " cannot be asked"
		if p.Service != "" {
			title = "service " + p.Service + " cannot be compared on " + p.Clusters[0]
		}
		s.head(b, title, ui.Red)
		ui.Problem{Where: p.Where, Message: p.Message, Fix: p.Fix}.Write(b)
		b.WriteByte('\n')
	}
	if len(l.Unreached) > 0 {
		fmt.Fprintf(b, "not asked: %s\n", reach(l.Unreached))
	}
}

// summary is the report in one line.
func summary(r *report) string {
	tally := map[compare.Action]int{}
	for i := range r.Items {
		for _, o := range r.Items[i].Objects {
			if o.Stays == "" {
				tally[r.Items[i].Action] += o.Clusters
			}
		}
	}
	moved := ""
	if n := tally[compare.Moved]; n > 0 {
		moved = fmt.Sprintf(", %d moved", n)
	}
	return fmt.Sprintf("%d added, %d changed, %d deleted%s on %d of %s",
		tally[compare.Added], tally[compare.Changed], tally[compare.Deleted], moved, r.Differ, count(r.Clusters, "cluster"))
}
