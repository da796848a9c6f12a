package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/internal/selector"
)

// Selector picks clusters for a group. All conditions given must hold, and at least one is given.
type Selector struct {
	// All picks every cluster, and stands alone.
	All              bool
	Names            []string
	MatchLabels      map[string]string
	MatchExpressions []Requirement
}

// Requirement is one condition on a tag.
type Requirement = selector.Requirement

// Matches says whether the selector picks the cluster with these tags.
func (s Selector) Matches(cluster string, has map[string]string) bool {
	all := selector.Conditions{Names: s.Names, Labels: s.MatchLabels, Requirements: s.MatchExpressions}
	return s.All || all.Match(cluster, has)
}

func (s Selector) empty() bool {
	return !s.All && len(s.Names) == 0 && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// String is the selector on one line, the same for all ways to write it:
//
//	names a,b matchLabels env=prod,zone=eu matchExpressions tier In gold,silver; gpu Exists
func (s Selector) String() string {
	if s.All {
		return "all"
	}
	var parts []string
	if len(s.Names) > 0 {
		parts = append(parts, "names "+Words(slices.Sorted(slices.Values(s.Names))))
	}
	if len(s.MatchLabels) > 0 {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
			labels = append(labels, Word(key)+"="+Word(s.MatchLabels[key]))
		}
		parts = append(parts, "matchLabels "+strings.Join(labels, ","))
	}
	if len(s.MatchExpressions) > 0 {
		var conditions []string
		for _, r := range s.MatchExpressions {
			conditions = append(conditions, condition(r))
		}
		slices.Sort(conditions)
		parts = append(parts, "matchExpressions "+strings.Join(conditions, "; "))
	}
	return strings.Join(parts, " ")
}

// condition is "KEY OPERATOR VALUES".
func condition(r Requirement) string {
	text := Word(r.Key) + " " + r.Operator
	if len(r.Values) > 0 {
		text += " " + Words(slices.Sorted(slices.Values(r.Values)))
	}
	return text
}

// Word is s as one word of a line that is compared and shown: quoted when it holds anything that could pass for the end
// of the word or act on a terminal.
func Word(s string) string {
	plain := func(r rune) bool {
		return r > ' ' && r < 0x7f && !strings.ContainsRune("\"`',;=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// Words are several, with commas between.
func Words(list []string) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = Word(s)
	}
	return strings.Join(words, ",")
}
