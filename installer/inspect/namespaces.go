package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/yamlstrict"
)

// maxNamespaces is in how many namespaces a slip is looked for: each is held against all others.
const maxNamespaces = 1000

// misspelt warns of namespaces that one service alone uses, and that are one typing slip from that of another: they would be made
// without a word. Where a subject is named, it is about that service only.
func (i *inspector) misspelt(subject string) {
	users := map[string]int{}
	for n := range i.Fleet.Services {
		if name := i.Fleet.Services[n].Spec.Namespace; name != "" {
			users[name]++
		}
	}
	if len(users) > maxNamespaces {
		return
	}
	names := slices.Sorted(maps.Keys(users))
	for n := range i.Fleet.Services {
		s := &i.Fleet.Services[n]
		own := s.Spec.Namespace
		if users[own] != 1 || subject != "" && s.Metadata.Name != subject {
			continue
		}
		if near := slices.IndexFunc(names, func(name string) bool { return slipped(own, name) }); near >= 0 {
			i.tell(&i.report.Warnings, Finding{
				Where:   s.Place("spec.namespace").String(),
				Message: fmt.Sprintf("service %s: namespace %s is used by this service alone", s.Metadata.Name, yamlstrict.Quote(own)),
				Fix:     fmt.Sprintf("did you mean %s?", yamlstrict.Quote(names[near])),
			})
		}
	}
}

// slipped says whether two namespaces differ by one slip in one of their words. What differs in digits, or in a word as short as eu
// and us or a and b, has a name of its own.
func slipped(a, b string) bool {
	const short = 3
	differ := false
	wordsA, wordsB := strings.Split(a, "-"), strings.Split(b, "-")
	if len(wordsA) != len(wordsB) {
		return false
	}
	for n, word := range wordsA {
		if word == wordsB[n] {
			continue
		}
		if differ || min(len(word), len(wordsB[n])) <= short || letters(word) == letters(wordsB[n]) || !yamlstrict.Slip(word, wordsB[n]) {
			return false
		}
		differ = true
	}
	return differ
}

// letters is a word without its digits.
func letters(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, word)
}
