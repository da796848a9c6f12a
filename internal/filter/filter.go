// Package filter owns the filter language of lists.
//
// It refuses to know what the items are: a [Schema] says which keys they have and how a value is read.
//
// A filter is terms with spaces between them, all of which have to hold. Upper and lower case are the same everywhere.
//
//	prod                 a name of the item contains the text
//	health:degraded      the value is this one; health:degraded,failed is one of them, cluster:prod-* one that begins so
//	message~image        the value contains the text
//	env:prod             any other key is a tag, where items have tags; tag.health:x is the tag "health"
//	env:                 there is no value
//	!env:prod -web       a leading ! or - turns a term round
//	"two words"          quotes, also message~"no image", keep spaces, commas and stars; \" and \\ stand for themselves
//	^web- a|b pay.*api   a word with one of ^ $ | ( ) [ ] { } + ? \ or .* is a regular expression, looked for in names
//	/web/                so is what stands between slashes
//	@prod-*              the cluster, as cluster:prod-*, wherever items are on one
//	-l env=prod,tier!=db tags, as kubectl has them: all of them have to hold; env is one that is there, !env one that is not
//	-f pymt              a name has these characters in this order
package filter

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bounds of one filter.
const (
	MaxBytes = 1024
	maxTerms = 32
)

// Schema says what items can be picked by.
type Schema[T any] struct {
	Fields map[string]Field[T]
	// Names are what a term without a key is looked for in. They are fixed, as tags are.
	Names []func(T) string
	// Tag is the value of one of an item's tags; nil: items have none, and a key that is no field's is an error.
	Tag func(item T, name string) string
	// At is the key of the field that "@" stands for; empty: there is none.
	At string
}

// Field is one value of an item.
type Field[T any] struct {
	Get func(T) string
	// Words are all values that there can be; nil: any.
	Words []string
	// Fixed says that an item keeps it for as long as it is there.
	Fixed bool
}

// Filter picks items. The zero filter picks all. It is safe for concurrent use.
type Filter[T any] struct{ terms []term[T] }

// Error says which term is wrong.
type Error struct{ Term, Message, Fix string }

// Error names the term.
func (e *Error) Error() string { return "filter " + strconv.Quote(e.Term) + ": " + e.Message }

type term[T any] struct {
	values []func(T) string // it holds when one of them fits
	fits   []pattern        // one of them
	not    bool
	fixed  bool
}

// Parse reads a filter. The error is an *Error.
func Parse[T any](text string, schema Schema[T]) (Filter[T], error) {
	if len(text) > MaxBytes {
		return Filter[T]{}, &Error{text[:20] + "...", fmt.Sprintf("it is longer than %d bytes", MaxBytes), "pick by fewer words"}
	}
	words, err := split(text)
	if err != nil {
		return Filter[T]{}, err
	}
	if len(words) > maxTerms {
		return Filter[T]{}, &Error{words[maxTerms].text, fmt.Sprintf("there are more than %d terms", maxTerms), "pick by fewer words"}
	}
	var f Filter[T]
	for _, w := range words {
		t, err := compile(w, schema)
		if err != nil {
			return Filter[T]{}, err
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// Match says whether the filter picks an item.
func (f *Filter[T]) Match(item T) bool {
	for i := range f.terms {
		if f.terms[i].holds(item) == f.terms[i].not {
			return false
		}
	}
	return true
}

// MatchFixed is Match by what an item keeps for as long as it is there: one that it refuses is never picked.
func (f *Filter[T]) MatchFixed(item T) bool {
	for i := range f.terms {
		if f.terms[i].fixed && f.terms[i].holds(item) == f.terms[i].not {
			return false
		}
	}
	return true
}

func (t *term[T]) holds(item T) bool {
	for _, value := range t.values {
		text := value(item)
		for i := range t.fits {
			if t.fits[i].fits(text) {
				return true
			}
		}
	}
	return false
}

func compile[T any](w word, schema Schema[T]) (term[T], error) {
	t := term[T]{fits: w.patterns, not: w.not, fixed: true}
	if key, value, is := strings.Cut(w.text, "="); is && w.key == "" {
		if _, known := schema.Fields[strings.ToLower(strings.TrimLeft(key, "!-"))]; known {
			return t, &Error{w.text, "a value follows a colon", "write " + key + ":" + value}
		}
	}
	if w.key == "" && !w.at {
		t.values = schema.Names
		return t, nil
	}
	key := strings.ToLower(w.key)
	if w.at {
		key = schema.At
	}
	field, ok := schema.Fields[key]
	switch {
	case w.at && !ok:
		return t, &Error{w.text, "nothing in this list is on one cluster", "leave it out"}
	case schema.Tag == nil && (w.tag || strings.HasPrefix(key, "tag.")):
		return t, &Error{w.text, "nothing in this list has tags", "leave it out; clusters have tags, and services on them by theirs"}
	case ok && !w.tag:
		if err := w.among(field.Words); err != nil {
			return t, err
		}
		t.values, t.fixed = []func(T) string{field.Get}, field.Fixed
		return t, nil
	case schema.Tag == nil:
		keys := strings.Join(slices.Sorted(maps.Keys(schema.Fields)), ", ")
		return t, &Error{w.text, "there is no key " + strconv.Quote(w.key), "the keys are " + keys}
	}
	name := w.key
	if strings.HasPrefix(key, "tag.") && !w.tag {
		name = w.key[len("tag."):]
	}
	t.values = []func(T) string{func(item T) string { return schema.Tag(item, name) }}
	return t, nil
}
