package filter

import (
	"slices"
	"strconv"
	"strings"
)

// word is one term as it was written.
type word struct {
	text, key string
	patterns  []pattern
	not       bool
}

// split takes a filter's text apart.
func split(text string) ([]word, error) {
	var words []word
	for rest := strings.TrimLeft(text, " \t\n\r"); rest != ""; rest = strings.TrimLeft(rest, " \t\n\r") {
		w, after, err := next(rest)
		if err != nil {
			return nil, err
		}
		words, rest = append(words, w), after
	}
	return words, nil
}

// next reads the first term of a text that begins with one.
func next(text string) (w word, rest string, err error) {
	rest = text
	if rest[0] == '!' || rest[0] == '-' {
		w.not, rest = true, rest[1:]
	}
	loose := true // contains is enough
	if end := strings.IndexFunc(rest, noKey); end > 0 && (rest[end] == ':' || rest[end] == '~') {
		loose = rest[end] == '~'
		w.key, rest = rest[:end], rest[end+1:]
	}
	keyed := w.key != ""
	values := reader{rest: rest, commas: keyed}
	if err := values.read(); err != nil {
		return w, "", &Error{text, err.Error(), `close it: "..."`}
	}
	w.text, rest = text[:len(text)-len(values.rest)], values.rest
	for _, parts := range values.values {
		p := newPattern(parts, loose)
		if loose && strings.Join(parts, "") == "" {
			return w, "", &Error{w.text, "there is nothing to look for", "write a text after it"}
		}
		w.patterns = append(w.patterns, p)
	}
	return w, rest, nil
}

// noKey says that a key ends here: keys are made of what names of tags are.
func noKey(c rune) bool {
	letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	return !letter && !strings.ContainsRune("._/-", c)
}

// among refuses a value that a field can never have. What begins or ends with a star may mean any.
func (w *word) among(words []string) error {
	if words == nil {
		return nil
	}
	for _, p := range w.patterns {
		if !slices.ContainsFunc(words, p.fits) {
			return &Error{w.text, w.key + " is never " + strconv.Quote(strings.Join(p.parts, "*")), "it is one of " + strings.Join(words, ", ")}
		}
	}
	return nil
}

// reader reads the values of one term: parts between stars, of values between commas.
type reader struct {
	rest   string
	commas bool
	values [][]string
}

type unclosed struct{}

func (unclosed) Error() string { return "a quote is open at its end" }

func (r *reader) read() error {
	var part strings.Builder
	var parts []string
	for r.rest != "" && !strings.ContainsRune(" \t\n\r", rune(r.rest[0])) {
		c := r.rest[0]
		r.rest = r.rest[1:]
		switch {
		case c == '"':
			if err := r.quoted(&part); err != nil {
				return err
			}
		case c == '*':
			parts = append(parts, part.String())
			part.Reset()
		case c == ',' && r.commas:
			r.values = append(r.values, append(parts, part.String()))
			part.Reset()
			parts = nil
		default:
			part.WriteByte(c)
		}
	}
	r.values = append(r.values, append(parts, part.String()))
	return nil
}

// quoted reads up to the closing quote.
func (r *reader) quoted(into *strings.Builder) error {
	for r.rest != "" {
		c := r.rest[0]
		r.rest = r.rest[1:]
		switch {
		case c == '"':
			return nil
		case c == '\\' && r.rest != "" && (r.rest[0] == '"' || r.rest[0] == '\\'):
			c, r.rest = r.rest[0], r.rest[1:]
		}
		into.WriteByte(c)
	}
	return unclosed{}
}
