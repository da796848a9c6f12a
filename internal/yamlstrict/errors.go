package yamlstrict

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxErrors bounds one Errors: a file full of nonsense must not cost memory or drown the reader.
const maxErrors = 1000

// Error is one mistake in what people wrote.
type Error struct {
	Position
	// Message says what is wrong; Fix, where there is one, what to write instead.
	Message, Fix string
	// Missing is what is named and does not exist, as KIND/NAME; empty where the mistake is another.
	Missing string
}

// Error is "file:line:column: message: fix" on one line, without control characters.
func (e *Error) Error() string {
	parts := []string{e.Position.String(), Printable(e.Message)}
	if e.Fix != "" {
		parts = append(parts, Printable(e.Fix))
	}
	return strings.Join(parts, ": ")
}

// Errors are all mistakes of one load, sorted by place.
type Errors []*Error

// Error is one line for each mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single mistakes to errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// Faults collects mistakes up to maxErrors. The zero value has none.
type Faults struct {
	// Redact takes out of a text what must not be repeated. May be nil.
	Redact  func(string) string
	list    Errors
	dropped int
}

// Len is how many there are.
func (f *Faults) Len() int { return len(f.list) }

// Add keeps a mistake, unless there are too many already.
func (f *Faults) Add(at Position, fix, format string, args ...any) {
	f.Put(&Error{Position: at, Message: fmt.Sprintf(format, args...), Fix: fix})
}

// Put keeps a mistake.
func (f *Faults) Put(e *Error) {
	if f.Redact != nil {
		e.Message, e.Fix = f.Redact(e.Message), f.Redact(e.Fix)
	}
	if len(f.list) >= maxErrors {
		f.dropped++
		return
	}
	f.list = append(f.list, e)
}

// Take keeps the mistakes that others found, too.
func (f *Faults) Take(other *Faults) {
	for _, e := range other.list {
		f.Put(e)
	}
	f.dropped += other.dropped
}

// Has says whether a mistake was found at this very place.
func (f *Faults) Has(at Position) bool {
	return slices.ContainsFunc(f.list, func(e *Error) bool { return e.Position == at })
}

// In says whether a mistake was found in a file.
func (f *Faults) In(file string) bool {
	return slices.ContainsFunc(f.list, func(e *Error) bool { return e.File == file })
}

// Err is nil when there was no mistake.
func (f *Faults) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if f.dropped > 0 {
		last := f.list[len(f.list)-1].Position
		f.list = append(f.list, &Error{Position: last, Message: fmt.Sprintf("%d more errors are not shown", f.dropped)})
	}
	return f.list
}

// Quote makes what a person typed safe and short enough for one line.
func Quote(s string) string { return strconv.Quote(Shorten(s)) }

// Shorten cuts text that would fill a screen.
func Shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// Printable escapes what a terminal would act on: control characters, direction marks, invalid UTF-8.
func Printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		_, width := utf8.DecodeRuneInString(s[i:])
		if strconv.IsPrint(r) && (r != utf8.RuneError || width > 1) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.Quote(s[i : i+width])
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
