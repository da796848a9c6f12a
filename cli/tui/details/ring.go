package details

import (
	"regexp"
	"strings"

	"github.com/pluralsh/plural/cli/tui/paint"
)

// Bounds of what is kept of logs.
const (
	maxLines = 5000
	maxBytes = 8 << 20
)

// entry is one line of a log, or what is told between them.
type entry struct {
	from, text string
	style      paint.Style
}

func (e *entry) size() int { return len(e.from) + len(e.text) + 64 }

// ring keeps the newest lines, and of those the ones that fit a filter, as they are shown.
type ring struct {
	entries []entry
	bytes   int
	// dropped counts lines that had to go.
	dropped int
	filter  lineFilter
	shown   []line
	// fits says of each entry whether it is among shown.
	fits []bool
}

// lineFilter picks lines: those that a regular expression is found in, or, after an exclamation mark, is not.
type lineFilter struct {
	text    string
	pattern *regexp.Regexp
	not     bool
}

// parseLines reads a filter. Upper and lower case are the same.
func parseLines(text string) (lineFilter, error) {
	f := lineFilter{text: text}
	words := strings.TrimSpace(text)
	f.not = strings.HasPrefix(words, "!")
	words = strings.TrimPrefix(words, "!")
	if len(words) > 1 && words[0] == '/' {
		words = strings.TrimSuffix(words[1:], "/")
	}
	if words == "" {
		return f, nil
	}
	var err error
	f.pattern, err = regexp.Compile("(?i)" + words)
	return f, err
}

// line is an entry as it is shown, if it fits. What the filter found is set off.
func (f *lineFilter) line(e *entry) (line, bool) {
	var at []int
	if f.pattern != nil {
		at = f.pattern.FindStringIndex(e.text)
		found := at != nil || f.pattern.MatchString(e.from)
		if found == f.not {
			return nil, false
		}
	}
	l := line{}
	if e.from != "" {
		l = append(l, span{paint.Faint, e.from + " "})
	}
	if at == nil || f.not {
		return append(l, span{e.style, e.text}), true
	}
	return append(l, span{e.style, e.text[:at[0]]}, span{paint.Found, e.text[at[0]:at[1]]}, span{e.style, e.text[at[1]:]}), true
}

// add takes a line in, and says how many lines that were shown had to go.
func (r *ring) add(e entry) (gone int) {
	l, fits := r.filter.line(&e)
	r.entries, r.fits = append(r.entries, e), append(r.fits, fits)
	if r.bytes += e.size(); fits {
		r.shown = append(r.shown, l)
	}
	for len(r.entries) > maxLines || r.bytes > maxBytes {
		if r.fits[0] {
			r.shown[0] = nil // so that nothing keeps it in memory
			r.shown = r.shown[1:]
			gone++
		}
		r.bytes -= r.entries[0].size()
		r.entries[0] = entry{}
		r.entries, r.fits = r.entries[1:], r.fits[1:]
		r.dropped++
	}
	return gone
}

// pick shows what another filter picks.
func (r *ring) pick(f lineFilter) {
	r.filter, r.shown = f, nil
	for i := range r.entries {
		l, fits := f.line(&r.entries[i])
		if r.fits[i] = fits; fits {
			r.shown = append(r.shown, l)
		}
	}
}

// clear forgets all lines.
func (r *ring) clear() { *r = ring{filter: r.filter} }
