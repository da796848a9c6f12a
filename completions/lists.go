package completions

import (
	"slices"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
)

// List is what a list of the hub's can be filtered and sorted by, as its routes say.
type List struct {
	// Keys stand before the colon of a filter's terms, Columns in --sort.
	Keys, Columns []string
	// Tagged rows can be picked by tags of clusters.
	Tagged bool
}

// Lists are those of the hub, by what is listed.
func Lists() map[string]List {
	return map[string]List{
		"deployments": {
			Keys:    []string{"cluster", "service", "health", "namespace", "source", "version", "suspended", "message"},
			Columns: []string{"cluster", "service", "health", "namespace", "source", "version", "objects", "ready"}, Tagged: true,
		},
		"clusters": {
			Keys:    []string{"name", "cluster", "health", "kubernetes", "agent", "message"},
			Columns: []string{"name", "health", "services", "ready", "kubernetes", "agent", "reported"}, Tagged: true,
		},
		"services": {
			Keys:    []string{"name", "service", "health", "source", "ref", "namespace", "renderer", "message"},
			Columns: []string{"name", "health", "source", "namespace", "renderer", "clusters", "ready"},
		},
		"sources": {
			Keys:    []string{"name", "source", "kind", "url", "ref", "owner", "error"},
			Columns: []string{"name", "kind", "age", "failures"},
		},
		"events": {Keys: []string{"cluster", "service", "reason", "warning", "message"}, Columns: []string{"newest"}},
	}
}

// Filter is what the last term of a filter may become: the keys that it may begin with, with their colon, or, after one of those,
// the values that there can be. Names are of the kinds that the value of a key has, or nothing.
func (l List) Filter(text string) (before string, words []Word, names Kind) {
	at := strings.LastIndexByte(text, ' ') + 1
	term := strings.TrimLeft(text[at:], "!-")
	before = text[:len(text)-len(term)]
	key, value, isKey := strings.Cut(term, ":")
	if !isKey {
		for _, k := range l.Keys {
			words = append(words, Word{Text: k + ":"})
		}
		return before, words, Nothing
	}
	before += key + ":" + value[:strings.LastIndexByte(value, ',')+1]
	switch {
	case !slices.Contains(l.Keys, key):
		return before, nil, Nothing
	case key == "health":
		for _, word := range v1.Phase("").Words() {
			words = append(words, Word{Text: word})
		}
	case key == "suspended" || key == "warning":
		words = []Word{{Text: "true"}, {Text: "false"}}
	case key == "cluster" || key == "name" && l.Tagged:
		return before, nil, Clusters
	case key == "service":
		return before, nil, Services
	case key == "source":
		return before, nil, Sources
	}
	return before, words, Nothing
}

// Sort is what the last column of an order may become, each either way round.
func (l List) Sort(text string) (before string, words []Word) {
	before = text[:strings.LastIndexByte(text, ',')+1]
	for _, c := range l.Columns {
		words = append(words, Word{Text: c}, Word{Text: "-" + c})
	}
	return before, words
}
