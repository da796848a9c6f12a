package filter

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// word is one term as it was written.
type word struct {
	text, key string
	patterns  []pattern
	not       bool
	// tag says that key is a tag's name and no field's; at, that the value is of the schema's field for @.
	tag, at bool
}

const spaces = " \t\n\r"

// split takes a filter's text apart.
func split(text string) ([]word, error) {
	var words []word
	budget := maxSteps
	for rest := strings.TrimLeft(text, spaces); rest != ""; rest = strings.TrimLeft(rest, spaces) {
		if option := firstWord(rest); option == "-l" || option == "-f" {
			more, after, err := argument(option, strings.TrimLeft(rest[len(option):], spaces))
			if err != nil {
				return nil, err
			}
			words, rest = append(words, more...), after
			continue
		}
		w, after, err := next(rest, &budget)
		if err != nil {
			return nil, err
		}
		words, rest = append(words, w), after
	}
	return words, nil
}

func firstWord(text string) string {
	if end := strings.IndexAny(text, spaces); end >= 0 {
		return text[:end]
	}
	return text
}

// next reads the first term of a text that begins with one.
func next(text string, budget *int) (w word, rest string, err error) {
	rest = text
	if rest[0] == '!' || rest[0] == '-' {
		w.not, rest = true, rest[1:]
	}
	if expr := firstWord(rest); len(expr) > 2 && expr[0] == '/' && expr[len(expr)-1] == '/' {
		w.text = text[:len(text)-len(rest)+len(expr)]
		w.patterns, err = expression(w.text, expr[1:len(expr)-1], budget)
		return w, rest[len(expr):], err
	}
	loose := true // contains is enough
	if end := strings.IndexFunc(rest, noKey); end > 0 && (rest[end] == ':' || rest[end] == '~') {
		loose = rest[end] == '~'
		w.key, rest = rest[:end], rest[end+1:]
	}
	if w.key == "" && strings.HasPrefix(rest, "@") {
		w.at, loose, rest = true, false, rest[1:]
	}
	bare := w.key == "" && !w.at
	values := reader{rest: rest, commas: !bare}
	if err := values.read(); err != nil {
		return w, "", &Error{text, err.Error(), `close it: "..."`}
	}
	w.text, rest = text[:len(text)-len(values.rest)], values.rest
	if bare && values.special {
		w.patterns, err = expression(w.text, values.expr.String(), budget)
		return w, rest, err
	}
	for _, parts := range values.values {
		p := newPattern(parts, loose)
		if (loose || w.at) && strings.Join(parts, "") == "" && (loose || len(parts) == 1) {
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

// argument reads what follows an option.
func argument(option, text string) (words []word, rest string, err error) {
	fix := map[string]string{"-l": "write tags after it: -l env=prod,tier!=db", "-f": "write a text after it: -f pymt"}[option]
	values := reader{rest: text, commas: option == "-l"}
	if err := values.read(); err != nil {
		return nil, "", &Error{option + " " + text, err.Error(), `close it: "..."`}
	}
	for _, parts := range values.values {
		w := word{text: option + " " + strings.Join(parts, "*")}
		if option == "-f" {
			w.patterns = []pattern{newPattern(strings.Split(strings.Join(parts, "*"), ""), true)}
		} else {
			w.tagged(parts)
		}
		if strings.Join(parts, "") == "" || option == "-l" && w.key == "" {
			return nil, "", &Error{w.text, "there is nothing to look for", fix}
		}
		words = append(words, w)
	}
	return words, values.rest, nil
}

// tagged reads one of -l's conditions: k=v, k==v, k!=v, k for a tag that is there, !k for one that is not.
func (w *word) tagged(parts []string) {
	w.tag = true
	first := parts[0]
	at := strings.IndexByte(first, '=')
	if at < 0 {
		name, absent := strings.CutPrefix(first, "!")
		if len(parts) == 1 && strings.IndexFunc(name, noKey) < 0 {
			w.key, w.not, w.patterns = name, !absent, []pattern{newPattern([]string{""}, false)}
		}
		return
	}
	name, value := first[:at], strings.TrimPrefix(first[at+1:], "=")
	name, w.not = strings.CutSuffix(name, "!")
	if strings.IndexFunc(name, noKey) < 0 {
		w.key, w.patterns = name, []pattern{newPattern(append([]string{value}, parts[1:]...), false)}
	}
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
	// expr is the same as a regular expression, in which what was quoted stands for itself; special says that it is meant to be one.
	expr    strings.Builder
	special bool
}

type unclosed struct{}

func (unclosed) Error() string { return "a quote is open at its end" }

func (r *reader) read() error {
	var part strings.Builder
	var parts []string
	for r.rest != "" && !strings.ContainsRune(spaces, rune(r.rest[0])) {
		c := r.rest[0]
		r.rest = r.rest[1:]
		if c != '"' {
			r.special = r.special || strings.IndexByte(`^$|()[]{}+?\`, c) >= 0 || c == '.' && strings.HasPrefix(r.rest, "*")
			r.expr.WriteByte(c)
		}
		switch {
		case c == '"':
			before := part.Len()
			if err := r.quoted(&part); err != nil {
				return err
			}
			r.expr.WriteString(regexp.QuoteMeta(part.String()[before:]))
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
