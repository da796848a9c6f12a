package details

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/logstream"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/ui"
)

// firstLines is how many of the newest lines of each log are asked for at first.
const firstLines = 500

// reader is the pane of logs.
type reader struct {
	sheet
	ring
	w          *pane.World
	about      pane.Subject
	of         logstream.Of
	previous   bool
	timestamps bool
	feed       *feed[entry]
	// err is why there is nothing to read; done says that nothing more comes.
	err  error
	done bool
}

type logKeys struct{ previous, timestamps, wrap, again key.Binding }

func logKeysOf() logKeys {
	return logKeys{
		previous:   bind("p", "of the containers before, or not", "p"),
		timestamps: bind("t", "times, or not", "t"),
		wrap:       movesOf().wrap, again: again(),
	}
}

func newLogs(w *pane.World, about pane.Subject, filter string) (pane.Pane, error) {
	r := &reader{w: w, about: about}
	switch about.Kind {
	case pane.KindFleet:
		r.of.Hub = true
	case pane.KindCluster:
		r.of.Agent = about.Name
	case pane.KindService:
		r.of.Service = about.Name
	case pane.KindDeployment:
		r.of.Service, r.of.Clusters = about.Service, []string{about.Cluster}
	case pane.KindObject:
		switch o := about.Object; {
		case o == nil:
			return nil, errors.New("which object is meant is not known")
		case o.Kind == "Pod" && o.Group == "":
			r.of.Pod = logstream.Pod{Cluster: about.Cluster, Namespace: o.Namespace, Name: o.Name}
		case about.Service != "":
			r.of.Service, r.of.Clusters, r.of.Below = about.Service, []string{about.Cluster}, o.UID
		default:
			return nil, fmt.Errorf("a %s has no log", o.Kind)
		}
	default:
		return nil, fmt.Errorf("a %s has no log", about.Kind)
	}
	r.end = true
	return r, r.SetFilter(filter)
}

// Init begins to read.
func (r *reader) Init() tea.Cmd {
	r.Close()
	r.clear()
	r.lines, r.err, r.done, r.end, r.feed = nil, nil, false, true, nil
	if r.w.Hub == nil {
		r.err, r.done = errNoHub(), true
		return nil
	}
	hub, now, of := r.w.Hub, r.w.Now, r.of
	options := logstream.Options{Follow: !r.previous, Previous: r.previous, Timestamps: r.timestamps, Tail: firstLines}
	var cmd tea.Cmd
	r.feed, cmd = look(r.w.Context, func(ctx context.Context, put func(entry) error) error {
		told := func(style paint.Style, whose, text string) {
			_ = put(entry{whose, text, style}) // that nobody looks any more ends the reading
		}
		from := logstream.Reader{
			Hub: hub, Now: now, Options: options,
			Line: func(l logstream.Line) error { return pieces(l, put) },
			Problem: func(whose string, err error) {
				told(paint.Bad, whose, "-- cannot be read: "+oneLine(err))
			},
			Ended: func(whose string, err error) {
				text := "-- the log ended, and is taken up again"
				if err != nil {
					text += ": " + oneLine(err)
				}
				told(paint.Note, whose, text)
			},
		}
		return from.Run(ctx, of)
	})
	return cmd
}

// maxPiece is where a line goes on as the next one, in bytes: a screen of such lines is drawn at once.
const maxPiece = 4 << 10

func pieces(l logstream.Line, put func(entry) error) error {
	for len(l.Text) > maxPiece {
		to := maxPiece
		for to > maxPiece-utf8.UTFMax && !utf8.RuneStart(l.Text[to]) {
			to--
		}
		if err := put(entry{l.From, l.Text[:to], paint.Plain}); err != nil {
			return err
		}
		l.Text = l.Text[to:]
	}
	return put(entry{l.From, l.Text, paint.Plain})
}

// oneLine is an error with what to do about it.
func oneLine(err error) string {
	err = cmdutil.Explain(err)
	var told *ui.Err
	if errors.As(err, &told) && told.Fix != "" {
		return err.Error() + "; " + told.Fix
	}
	return err.Error()
}

// Close ends the reading.
func (r *reader) Close() {
	if r.feed != nil {
		r.feed.cancel()
	}
}

// Title is whose logs they are.
func (r *reader) Title() string {
	name := "logs"
	if r.previous {
		name = "logs before"
	}
	return title(name, r.about)
}

// Note says what of the lines is seen.
func (r *reader) Note() string {
	parts := []string{fmt.Sprintf("%d lines", len(r.entries))}
	if len(r.entries) == 1 {
		parts[0] = "1 line"
	}
	if r.filter.pattern != nil {
		parts[0] = fmt.Sprintf("%d of %d lines", len(r.shown), len(r.entries))
	}
	if r.dropped > 0 {
		parts = append(parts, fmt.Sprintf("%d older ones let go", r.dropped))
	}
	switch {
	case r.done:
		parts = append(parts, "ended")
	case r.end:
		parts = append(parts, "following")
	default:
		parts = append(parts, "not following: G")
	}
	return strings.Join(parts, ", ")
}

// Filter is what lines are picked by.
func (r *reader) Filter() string { return r.filter.text }

// SetFilter picks other lines.
func (r *reader) SetFilter(text string) error {
	f, err := parseLines(text)
	if err != nil {
		return fmt.Errorf("read the filter: %w", err)
	}
	r.pick(f)
	r.lines = r.shown
	r.end = true
	return nil
}

// Words complete nothing: what a log says is anything.
func (r *reader) Words(string) []string { return nil }

// Keys are those of logs, and of reading.
func (r *reader) Keys() []key.Binding {
	k := logKeysOf()
	keys := []key.Binding{k.wrap}
	if r.of.Agent == "" && !r.of.Hub {
		keys = append(keys, k.previous, k.timestamps)
	}
	return append(append(keys, k.again), movesOf().all()...)
}

// Update takes lines in, and keys.
func (r *reader) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case fed[entry]:
		if msg.from != r.feed {
			return nil
		}
		return r.take(msg)
	case tea.KeyPressMsg:
		pods := r.of.Agent == "" && !r.of.Hub
		switch k := logKeysOf(); {
		case key.Matches(msg, k.wrap):
			r.wrap, r.left = !r.wrap, 0
			return nil
		case key.Matches(msg, k.again):
			return r.Init()
		case pods && key.Matches(msg, k.previous):
			r.previous = !r.previous
			return r.Init()
		case pods && key.Matches(msg, k.timestamps):
			r.timestamps = !r.timestamps
			return r.Init()
		}
	}
	r.sheet.update(msg)
	return nil
}

// take has lines come in below. A window that does not follow stays over the lines that it shows.
func (r *reader) take(came fed[entry]) tea.Cmd {
	if came.over {
		r.done = true
		if came.err != nil && !errors.Is(came.err, logstream.ErrNone) && r.w.Context.Err() == nil {
			r.err = came.err
		}
		return nil
	}
	gone := 0
	for _, e := range came.items {
		gone += r.add(e)
	}
	r.lines = r.shown
	r.top = max(0, r.top-gone)
	return r.feed.next()
}

// Draw is the lines in the window.
func (r *reader) Draw(width, height int) []string {
	var head []line
	switch {
	case r.err != nil:
		head = trouble(r.err)
	case len(r.entries) == 0 && r.done:
		head = []line{say(paint.Faint, "there are no lines")}
	case len(r.entries) == 0:
		head = []line{say(paint.Faint, "asking for "+title("the logs of", r.about)+" ...")}
	case len(r.shown) == 0:
		head = []line{say(paint.Faint, "no line fits the filter")}
	}
	var out []string
	for _, l := range head {
		out = append(out, painted(r.w.Look, l, width))
	}
	return append(out, r.draw(r.w.Look, width, max(height-len(out), 0))...)
}
