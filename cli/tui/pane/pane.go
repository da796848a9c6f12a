// Package pane owns the interface between the console and its panes.
//
// It refuses to know any pane and how the console is drawn around it.
//
// The console keeps a stack of panes and draws the one on top between its own lines. Keys come first to the console's prompts, then
// to a pane that is Typing, then to what the console does itself (help, filter, command line, back, actions on the subjects under the
// cursor), and then to the pane's Update. A pane asks for something by a command that returns one of the messages below. All of it
// happens on bubbletea's one goroutine: what takes time is a tea.Cmd, whose result comes back as a message.
package pane

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Pane is what fills the console between its header and its footer.
type Pane interface {
	// Init is the first command, such as a request for what is shown.
	Init() tea.Cmd
	// Update takes a message in: a key, Tick, or an answer to a command of the pane's own.
	Update(msg tea.Msg) tea.Cmd
	// Draw is at most height lines of at most width cells. It is called after every change, so it does not compute what did not change.
	Draw(width, height int) []string
	// Title is the pane's part of the breadcrumbs.
	Title() string
	// Keys are what its own keys do, the most useful first, for the footer and the help.
	Keys() []key.Binding
}

// Pointing panes have rows that are about something.
type Pointing interface {
	// Subjects are what the marked rows are about, or, where none are, the row under the cursor.
	Subjects() []Subject
	// Marked counts the marked rows.
	Marked() int
	// Unmark takes all marks away: something was done to them.
	Unmark()
}

// Filtered panes can be narrowed.
type Filtered interface {
	Filter() string
	// SetFilter takes the text as it stands after each key. The error is told while the person types; what is shown stays.
	SetFilter(text string) error
	// Words complete the last word of text.
	Words(text string) []string
}

// Searching panes stay whole when they are filtered: what fits is set off in them, and gone to.
type Searching interface{ Searches() bool }

// Noted panes have something to say at the end of the breadcrumbs, such as "12 of 1,204 by health".
type Noted interface{ Note() string }

// Typing panes take every key, but for ctrl-c, while they say so.
type Typing interface{ Typing() bool }

// Clicked panes take a click of the mouse, in cells from where they are drawn.
type Clicked interface{ Click(x, y int) tea.Cmd }

// Closing panes hold something, such as a stream, until they are closed.
type Closing interface{ Close() }

// Kind says what a subject is.
type Kind string

// Kinds of subjects.
const (
	KindFleet      Kind = "fleet"
	KindCluster    Kind = "cluster"
	KindService    Kind = "service"
	KindDeployment Kind = "deployment" // a service on a cluster
	KindObject     Kind = "object"
	KindSource     Kind = "source"
	KindPackage    Kind = "package"
	KindEvent      Kind = "event"
	KindCommit     Kind = "commit"
	KindCommand    Kind = "command"
)

// Subject is what a row is about. Fields that say nothing about its kind are empty.
type Subject struct {
	Kind Kind
	// Name is that of a cluster, a service, a source, an installation of a package, or a commit's id.
	Name string
	// Cluster and Service are those of a deployment, an object or an event; also where Kind is cluster or service.
	Cluster, Service string
	// Object is a live object of Cluster.
	Object *v1.Object
	// Phase is how it is, where that is known.
	Phase v1.Phase
	// Suspended says that agents leave it alone; Token is what a person may agree to.
	Suspended bool
	Token     string
}

// Messages by which panes ask the console.
type (
	// Open puts another pane on the stack.
	Open struct {
		// Pane is the name that it is known by, as on the command line: clusters, describe, logs.
		Pane string
		// About is what it is to show; Filter is for panes that are Filtered.
		About  Subject
		Filter string
	}
	// Push puts this pane on the stack.
	Push struct{ Pane Pane }
	// Question asks the person for a word, in the line where filters are typed. Value stands there at first, Words are offered, and Then
	// is given what was said; nothing comes of a question that is left.
	Question struct {
		Mark, Value string
		Words       []string
		Then        func(said string) tea.Cmd
	}
	// Back takes the pane off the stack.
	Back struct{}
	// Told is shown in the line above the footer until the next key.
	Told struct {
		Text string
		Bad  bool
	}
	// Ended says that what the person had done is over: who looks elsewhere by then is called.
	Ended struct{ Text string }
	// Repaint says that something that is shown changed, other than by a key. It is drawn with the next tick.
	Repaint struct{}
	// Tick comes about once a second, and after what is known of the fleet changed: ages grow, views may have other rows.
	Tick struct{ Now time.Time }
)

// Ask is a command that gives msg.
func Ask(msg tea.Msg) tea.Cmd { return func() tea.Msg { return msg } }
