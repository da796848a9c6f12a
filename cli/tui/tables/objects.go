package tables

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/kinds"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/internal/filter"
)

const (
	// maxAsked is how many clusters are asked for objects at once: a hub lets one person have 64 requests under way.
	maxAsked = 16
	// again is how long what a cluster said is shown before it is asked again, patience how long it has to answer.
	again    = 5 * time.Second
	patience = 10 * time.Second
)

// objects is a table of all objects of one kind, on the clusters that the filter leaves. They are asked anew while somebody looks.
type objects struct {
	*table[model.Object]
	word string
	// asked are the clusters that were asked in this round, of so many that were meant; left is how many have not answered yet.
	asked       []string
	meant, left int
	// turn is the number of the round, ended when the last one did.
	turn  int
	ended time.Time
	// wrong is what clusters said in the place of objects; more says that some have more of them than are listed.
	wrong  map[string]error
	more   map[string]bool
	shaped bool
	// above is how many lines stood above the table when it was drawn.
	above  int
	ctx    context.Context //nolint:containedctx // ends with the pane
	cancel context.CancelFunc
}

// listed is what a cluster answered in a round.
type listed struct {
	to      *objects
	turn    int
	cluster string
	table   *kinds.Table
	err     error
}

func newObjects(w *pane.World, about pane.Subject, text string) (pane.Pane, error) {
	o := &objects{word: about.Name, wrong: map[string]error{}, more: map[string]bool{}}
	if err := o.shape(w, nil, text); err != nil {
		return nil, err
	}
	o.ctx, o.cancel = context.WithCancel(w.Context)
	return o, nil
}

// shape has the table have the columns that clusters have for the kind.
func (o *objects) shape(w *pane.World, columns []kinds.Column, text string) error {
	var names []string
	var numbers []bool
	for _, c := range columns {
		names, numbers = append(names, c.Name), append(numbers, c.Number)
	}
	list := model.NewObjects(names, numbers, func(row *model.Object) bool { return unwell(names, row) })
	made, err := newTable(w, objectKind(&cells{w}, o.word, columns, list), pane.Subject{}, text)
	if err != nil {
		return err
	}
	if o.table != nil {
		o.table.Close()
	}
	o.table = made.(*table[model.Object])
	return nil
}

func objectKind(c *cells, word string, columns []kinds.Column, list *model.List[model.Object]) kind[model.Object] {
	k := kind[model.Object]{
		title: word, noun: word, list: list, pinned: 3, leads: "describe",
		subject: func(o *model.Object) pane.Subject {
			return pane.Subject{Kind: pane.KindObject, Name: o.Name, Cluster: o.Cluster, Service: o.Service, Object: new(o.Object)}
		},
		columns: []column[model.Object]{
			{
				Column: paint.Column{Name: "CLUSTER", Weight: 1, Min: 8, Max: 40}, by: "cluster", key: "c",
				cell: func(o *model.Object) paint.Cell { return text(o.Cluster) },
			},
			{
				Column: paint.Column{Name: "NAMESPACE", Weight: 1, Min: 9, Max: 40, Spare: always}, by: "namespace", key: "n",
				cell: func(o *model.Object) paint.Cell { return faint(o.Namespace) },
			},
			{
				Column: paint.Column{Name: "NAME", Weight: 3, Min: 12}, by: "name", key: "m",
				cell: func(o *model.Object) paint.Cell { return text(o.Name) },
			},
		},
	}
	if slices.ContainsFunc(columns, func(c kinds.Column) bool { return c.Name == message }) {
		k.columns[2].Max, k.sorted = 16, "age" // names of events say nothing
	}
	k.enter = func(o *model.Object) (pane.Open, bool) { return pane.Open{Pane: "describe", About: k.subject(o)}, true }
	for i, col := range columns {
		k.columns = append(k.columns, column[model.Object]{
			Column: columnOf(col, i),
			by:     strings.ReplaceAll(strings.ToLower(col.Name), " ", "-"),
			cell:   func(o *model.Object) paint.Cell { return cellOf(o, i) },
		})
	}
	k.columns = append(k.columns, column[model.Object]{
		Column: paint.Column{Name: "AGE", Right: true, Rank: 1}, by: "age", key: "a",
		cell: func(o *model.Object) paint.Cell { return c.since(o.Created) },
	})
	return k
}

// message is the column of events that is read.
const message = "Message"

// always is a width that no screen has.
const always = 1 << 20

// columnOf has the first columns stay longest.
func columnOf(c kinds.Column, i int) paint.Column {
	name := strings.ToUpper(c.Name)
	if c.Name == message {
		return paint.Column{Name: name, Weight: 5, Min: 24}
	}
	return paint.Column{Name: name, Max: 32, Right: c.Number, Rank: i + 2}
}

func cellOf(o *model.Object, i int) paint.Cell {
	if i >= len(o.Cells) {
		return paint.Cell{}
	}
	return text(o.Cells[i])
}

// unwell says whether the columns of a kind tell that something is wrong: fewer are ready than should be, a status that is none of
// the good ones, a warning.
func unwell(columns []string, o *model.Object) bool {
	good := []string{"", "Running", "Completed", "Succeeded", "Active", "Bound", "Available", "Ready", "True", "Complete", "<none>"}
	status := ""
	for i, c := range columns[:min(len(columns), len(o.Cells))] {
		switch strings.ToLower(c) {
		case "status":
			status = o.Cells[i]
		case "type":
			if o.Cells[i] == "Warning" {
				return true
			}
		}
	}
	for i, c := range columns[:min(len(columns), len(o.Cells))] {
		ready, all, two := strings.Cut(o.Cells[i], "/")
		if strings.EqualFold(c, "ready") && two && ready != all && status != "Completed" {
			return true
		}
	}
	return !slices.Contains(good, status) || o.Deleting
}

// Init asks.
func (o *objects) Init() tea.Cmd { return o.ask() }

// Close ends what is under way.
func (o *objects) Close() {
	o.cancel()
	o.table.Close()
}

// ask begins a round.
func (o *objects) ask() tea.Cmd {
	o.turn++
	meant := o.clusters()
	o.meant, o.asked = len(meant), meant[:min(len(meant), maxAsked)]
	o.left = len(o.asked)
	if o.left == 0 {
		o.ended = o.Now()
	}
	all, word, turn := o.Kinds, o.word, o.turn
	var cmds []tea.Cmd
	for _, cluster := range o.asked {
		cmds = append(cmds, func() tea.Msg {
			ctx, cancel := context.WithTimeout(o.ctx, patience)
			defer cancel()
			kind, err := all.Find(ctx, cluster, word)
			if err != nil {
				return listed{o, turn, cluster, nil, err}
			}
			got, err := all.List(ctx, cluster, kind)
			return listed{o, turn, cluster, got, err}
		})
	}
	return tea.Batch(cmds...)
}

// clusters are those that what the filter says of clusters leaves: the rest of it is about objects.
func (o *objects) clusters() []string {
	var about []string
	words := strings.Fields(o.filter)
	for i, word := range words {
		bare := strings.TrimLeft(word, "!-")
		switch {
		case word == "-l" && i+1 < len(words):
			about = append(about, word, words[i+1])
		case strings.HasPrefix(bare, "@"), strings.HasPrefix(bare, "cluster:"):
			about = append(about, word)
		}
	}
	picks, err := filter.Parse(strings.Join(about, " "), o.Fleet.Clusters.Schema())
	var names []string
	each(o.Fleet.Clusters, func(c *v1.Cluster) {
		if err != nil || picks.Match(c) {
			names = append(names, c.Name)
		}
	})
	return names
}

// Update takes in what clusters answer, and asks again when it is time.
func (o *objects) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case listed:
		if msg.to == o && msg.turn == o.turn {
			o.take(msg)
		}
		return nil
	case pane.Tick:
		due := o.left == 0 && o.Now().Sub(o.ended) >= again
		if others := o.clusters(); due || !slices.Equal(o.asked, others[:min(len(others), maxAsked)]) {
			return o.ask()
		}
	case tea.KeyPressMsg:
		if !o.sorting && key.Matches(msg, askAgain()) {
			return o.ask()
		}
	}
	return o.table.Update(msg)
}

func askAgain() key.Binding { return bind("r", "ask again") }

// Keys are the table's, and one to ask again.
func (o *objects) Keys() []key.Binding {
	return append([]key.Binding{bind("enter", "describe"), askAgain()}, o.table.Keys()[1:]...)
}

func (o *objects) take(l listed) {
	if o.left--; o.left == 0 {
		o.ended = o.Now()
	}
	delete(o.wrong, l.cluster)
	if l.err != nil {
		o.wrong[l.cluster] = l.err
		return
	}
	if !o.shaped {
		if err := o.shape(o.World, l.table.Columns, o.filter); err != nil {
			_ = o.shape(o.World, l.table.Columns, "") // the filter was read before there were columns
		}
		o.shaped = true
	}
	var tags map[string]string
	if c := o.Fleet.Clusters.Get(l.cluster); c != nil {
		tags = c.Tags
	}
	o.more[l.cluster] = l.table.More
	rows := make([]model.Object, len(l.table.Rows))
	for i, r := range l.table.Rows {
		rows[i] = model.Object{Cluster: l.cluster, Service: r.Service, Tags: tags, Object: r.Object, Cells: r.Cells}
	}
	model.Renew(o.list, l.cluster, rows)
	for _, c := range o.stranded() {
		model.Renew(o.list, c, nil)
	}
}

// stranded are clusters with rows that are not asked any more.
func (o *objects) stranded() []string {
	var gone []string
	each(o.list, func(row *model.Object) {
		if !slices.Contains(o.asked, row.Cluster) && !slices.Contains(gone, row.Cluster) {
			gone = append(gone, row.Cluster)
		}
	})
	return gone
}

// Click is the table's.
func (o *objects) Click(x, y int) tea.Cmd {
	if y -= o.above; y < 0 {
		return nil
	}
	return o.table.Click(x, y)
}

// Note says how many there are, of how many clusters, and what is left out.
func (o *objects) Note() string {
	between := " " + o.Look.Glyph(paint.Between) + " "
	note := o.table.Note()
	if o.meant > len(o.asked) {
		note += between + fmt.Sprintf("%d of %d clusters asked", len(o.asked), o.meant)
	}
	for _, more := range o.more {
		if more {
			note += between + fmt.Sprintf("the first %d of each", kinds.MaxRows)
			break
		}
	}
	if !o.ended.IsZero() {
		note += between + "as of " + cmdutil.Ago(o.Now(), &o.ended)
	}
	return note
}

// Draw is the rows, under what clusters said in their place.
func (o *objects) Draw(width, height int) []string {
	var out []string
	for _, cluster := range o.asked {
		if err := o.wrong[cluster]; err != nil && len(out) < height/3 {
			said := cmdutil.Explain(err).Error()
			out = append(out, o.Look.Paint(paint.Bad, o.Look.Cut(cmp.Or(cluster, "?")+": "+said, width)))
		}
	}
	switch {
	case o.list.Len() == 0 && o.left > 0:
		out = append(out, o.Look.Paint(paint.Faint, o.Look.Cut(fmt.Sprintf("asking %d clusters for %s ...", o.left, o.word), width)))
	case o.list.Len() > 0 || len(out) == 0:
		o.above = len(out)
		out = append(out, o.table.Draw(width, height-len(out))...)
	}
	return out[:min(len(out), max(height, 0))]
}
