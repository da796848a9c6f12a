package act

import (
	"strings"
	"time"
)

// Bounds of the log.
const (
	maxEntries = 500
	// maxKept bounds what is kept of what one command said, in bytes.
	maxKept = 16 << 10
)

// Ending says how a command ended.
type Ending uint8

// How commands end.
const (
	Running Ending = iota
	Done
	Failed
	// Stopped: a person did not want it any more.
	Stopped
)

// String is the word for it.
func (e Ending) String() string {
	switch e {
	case Running:
		return "running"
	case Done:
		return "done"
	case Failed:
		return "failed"
	case Stopped:
		return "stopped"
	}
	return ""
}

// Entry is one command of the log.
type Entry struct {
	Began time.Time
	Took  time.Duration
	// Action is what was done by it, Line the command as a person would type it.
	Action, Line string
	Ending       Ending
	// Told is what was told of its end, in one line.
	Told string
	// Commit is what the installation repo is at because of it.
	Commit string
	// stop ends it, where it goes on in the background; nil: it does not.
	stop func()
	// Output is what it said, cut at its beginning.
	Output string
}

// Log is what was done, the newest last, bounded. The zero log is empty.
type Log struct{ entries []*Entry }

func (l *Log) add(e *Entry) {
	l.entries = append(l.entries, e)
	if over := len(l.entries) - maxEntries; over > 0 {
		l.entries = append([]*Entry(nil), l.entries[over:]...)
	}
}

// background are those that go on in the background, or did, the newest first.
func (l *Log) background() []*Entry {
	var out []*Entry
	for i := range l.Len() {
		if e := l.At(i); e.stop != nil {
			out = append(out, e)
		}
	}
	return out
}

// Len is how many there are; At is one of them, the newest first.
func (l *Log) Len() int { return len(l.entries) }

// At is an entry, the newest being 0.
func (l *Log) At(i int) *Entry { return l.entries[len(l.entries)-1-i] }

// end fills in how a command ended.
func (e *Entry) end(r Result, took time.Duration, commit string, stopped bool) {
	e.Took, e.Commit, e.Told = took, commit, r.told()
	switch {
	case r.Code == 0:
		e.Ending = Done
	case stopped:
		e.Ending = Stopped
	default:
		e.Ending = Failed
	}
	e.Output = strings.TrimRight(r.Err+r.Out, "\n")
	if over := len(e.Output) - maxKept; over > 0 {
		_, rest, _ := strings.Cut(e.Output[over:], "\n")
		e.Output = "(what came before is not kept)\n" + rest
	}
}
