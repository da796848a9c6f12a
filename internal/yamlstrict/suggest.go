package yamlstrict

import (
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// DidYouMean is the fix for a word that is none of known: the nearest of them, or all of them when they are few.
// what is their noun, in the plural.
func DidYouMean(word string, known []string, what string) string {
	if near, ok := Nearest(word, known); ok {
		return "did you mean " + Quote(near) + "?"
	}
	const few = 17
	switch {
	case len(known) == 0:
		return "there are no " + what + " here"
	case len(known) > few:
		return ""
	}
	return "known " + what + " are " + strings.Join(slices.Compact(slices.Clone(known)), ", ")
}

// Nearest finds the known word that a typing slip could have turned into word; the first of equals.
func Nearest(word string, known []string) (string, bool) {
	const longest = 64
	if word == "" || len(word) > longest {
		return "", false
	}
	slips := 1
	if len(word) > 3 {
		slips = max(2, len(word)/3)
	}
	best, bestDistance := "", slips+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if strings.EqualFold(k, word) {
			return k, true
		}
		d := levenshtein.Distance(word, k, nil)
		if swapped(word, k) {
			d = 1
		}
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best, best != ""
}

// Slip says whether one typing slip turns one word into the other: a letter that is missing, too many or another, or two that are
// swapped.
func Slip(a, b string) bool { return a != b && (levenshtein.Distance(a, b, nil) == 1 || swapped(a, b)) }

// swapped says whether two letters that follow each other are all that differs, the other way round.
func swapped(a, b string) bool {
	for i := 0; i+1 < min(len(a), len(b)); i++ {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}
