package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/strict"
)

// misspelt warns of a namespace that no other service uses, and that is one typing slip from one that another does: it would be made
// without a word.
func (i *inspector) misspelt(s *fleet.Service) {
	own := s.Spec.Namespace
	others := map[string]bool{}
	for n := range i.Fleet.Services {
		if other := &i.Fleet.Services[n]; other.Metadata.Name != s.Metadata.Name && other.Spec.Namespace != "" {
			others[other.Spec.Namespace] = true
		}
	}
	if own == "" || others[own] {
		return
	}
	for _, near := range slices.Sorted(maps.Keys(others)) {
		if !slipped(own, near) {
			continue
		}
		i.tell(&i.report.Warnings, Finding{
			Where:   s.Place("spec.namespace").String(),
			Message: fmt.Sprintf("service %s: namespace %s is used by this service alone", s.Metadata.Name, strict.Quote(own)),
			Fix:     fmt.Sprintf("did you mean %s?", strict.Quote(near)),
		})
		return
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
		if differ || min(len(word), len(wordsB[n])) <= short || letters(word) == letters(wordsB[n]) || !strict.Slip(word, wordsB[n]) {
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
