package terraform

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// shortest is the length of the shortest text that is hidden: a shorter one stands everywhere by chance.
const shortest = 4

// hidden stands for what is secret.
const hidden = "[redacted]"

// journal is where lines go to be read by people: whole lines, without what is secret.
type journal struct {
	mu      sync.Mutex // guards all below
	out     io.Writer
	told    func(string) // hears what a person waits for; nil is nobody
	warned  map[string]bool
	secrets []string
	hide    *strings.Replacer
	given   []string // those of the inputs, as they are
}

func newJournal(out io.Writer) *journal {
	if out == nil {
		out = io.Discard
	}
	return &journal{out: out, hide: strings.NewReplacer(), warned: map[string]bool{}}
}

// keep hides a value, and all that it is made of, from now on: as it is, and as programs commonly write it.
func (j *journal) keep(value any) {
	var texts []string
	leaves(value, func(text string) {
		for _, form := range forms(text) {
			if len(form) >= shortest {
				texts = append(texts, form)
			}
		}
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.secrets = append(j.secrets, texts...)
	slices.SortFunc(j.secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	j.secrets = slices.Compact(j.secrets)
	pairs := make([]string, 0, 2*len(j.secrets))
	for _, secret := range j.secrets { // the longest first: what is tried first wins
		pairs = append(pairs, secret, hidden)
	}
	j.hide = strings.NewReplacer(pairs...)
}

// give hides the value of an input, and knows it again in an output.
func (j *journal) give(value any) {
	j.keep(value)
	j.mu.Lock()
	defer j.mu.Unlock()
	leaves(value, func(text string) {
		if len(text) >= shortest {
			j.given = append(j.given, text)
		}
	})
}

// clean is a text without what is secret.
func (j *journal) clean(text string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hide.Replace(text)
}

// has says whether a value holds what is secret in an input.
func (j *journal) has(value any) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := false
	leaves(value, func(text string) {
		found = found || slices.ContainsFunc(j.given, func(secret string) bool { return strings.Contains(text, secret) })
	})
	return found
}

// say writes a text, each of its lines by one Write, and tells its first line.
func (j *journal) say(text string) {
	j.note(text)
	if j.told == nil {
		return
	}
	first, _, _ := strings.Cut(strings.TrimSpace(j.clean(text)), "\n")
	if first = strings.TrimSpace(first); first != "" {
		j.told(first)
	}
}

// warn is say, but tells nobody twice: a plan and its apply have the same warnings.
func (j *journal) warn(text string) {
	j.mu.Lock()
	again := j.warned[text]
	j.warned[text] = true
	j.mu.Unlock()
	if again {
		j.note(text)
		return
	}
	j.say(text)
}

// note writes a text without telling it.
func (j *journal) note(text string) {
	text = j.clean(text)
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if strings.TrimSpace(line) != "" {
			_, _ = io.WriteString(j.out, line) // a log that is gone stops nothing
		}
	}
}

// leaves calls do with each text, and each number as a text, that a value of JSON is made of.
func leaves(value any, do func(string)) {
	switch v := value.(type) {
	case nil, bool:
	case string:
		do(v)
	case []any:
		for _, item := range v {
			leaves(item, do)
		}
	case map[string]any:
		for _, item := range v {
			leaves(item, do)
		}
	default: // a number, or what only looks like one of the above: as JSON has it
		raw, err := json.Marshal(v)
		if err != nil {
			return
		}
		var plain any
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		if decoder.Decode(&plain) != nil {
			return
		}
		if number, ok := plain.(json.Number); ok {
			do(number.String())
		} else {
			leaves(plain, do)
		}
	}
}

// forms are the ways in which a text may stand in a log.
func forms(text string) []string {
	all := []string{
		text, quoted(text), url.QueryEscape(text), url.PathEscape(text),
		base64.StdEncoding.EncodeToString([]byte(text)), base64.URLEncoding.EncodeToString([]byte(text)),
	}
	if strings.ContainsAny(text, "\r\n") { // logs are cut into lines
		for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\r' || r == '\n' }) {
			all = append(all, strings.TrimSpace(line), quoted(line))
		}
	}
	return all
}

// quoted is a text as it stands in JSON, and in much that terraform says.
func quoted(text string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always can be
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}
