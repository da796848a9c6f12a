// Package versions owns the choice of a version in a range.
//
// It refuses to know what has the versions, charts or tags, and who lists them. A version is semantic in full, such as
// 6.7.0, v6.7.0 or 6.7.0-rc.1; other texts are passed over, so that "latest" or a date among them is no harm. A [Range]
// is parsed once and asked for the [Range.Newest] of each list.
package versions

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// maxLength bounds a version or range, in bytes.
const maxLength = 256

// Range is what people write to follow a line of versions. The zero value is the newest version that is no pre-release.
type Range struct {
	text       string
	constraint *semver.Constraints
}

// ParseRange takes an exact version, a range such as "^6.7", "~1.2.3", "6.x" or ">=1.2.0 <2.0.0 || ^3", or nothing.
// Pre-releases match when the range names one (">=7.0.0-0"), and by their exact name.
func ParseRange(text string) (Range, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Range{}, nil
	}
	if len(text) > maxLength {
		return Range{}, fmt.Errorf("version range %q… is longer than %d bytes", text[:32], maxLength)
	}
	constraint, err := semver.NewConstraint(text)
	if err != nil {
		return Range{}, fmt.Errorf("version range %q: %w: write one like 6.7.0, ^6.7 or >=1.2.0 <2.0.0", text, err)
	}
	return Range{text: text, constraint: constraint}, nil
}

// Looks says whether a text can only be meant as a range, and not as one version or another name: it holds an operator,
// or x for a number.
func Looks(text string) bool {
	if strings.ContainsAny(text, "^~<>=!*,| ") {
		return true
	}
	wild := false
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "v"), ".") {
		if part == "x" || part == "X" {
			wild = true
		} else if strings.Trim(part, "0123456789") != "" || part == "" {
			return false
		}
	}
	return wild && text != "x" && text != "X"
}

// MatchError says that no version is in a range.
type MatchError struct {
	// Range is empty when any but a pre-release would do.
	Range string
	// Newest of all that were listed; empty when there was none.
	Newest string
}

func (e *MatchError) Error() string {
	what := fmt.Sprintf("no version matches %q", e.Range)
	if e.Range == "" {
		what = "no version but pre-releases is listed"
	}
	if e.Newest == "" {
		return "no semantic version is listed"
	}
	return fmt.Sprintf("%s: the newest of all is %s", what, clip(e.Newest))
}

// GoneError says that the version in use is listed no longer, and that only older ones match. Nobody is taken back to
// one of those unasked: a list may be incomplete for a while, and an older version may not know newer data.
type GoneError struct{ InUse, Newest string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("version %s, which is in use, is gone; the newest that matches is %s: name that one to go back",
		clip(e.InUse), clip(e.Newest))
}

// Newest picks from a list; none is a *MatchError, one that is older than the version in use, which may be empty or no
// version, a *GoneError. Of versions that differ in build metadata alone, which have no order, the last by its text is
// taken, so that the answer depends on the list's content only.
func (r Range) Newest(list []string, inUse string) (string, error) {
	picked, err := r.pick(list)
	if v, w := Parse(picked), Parse(inUse); err == nil && v != nil && w != nil && v.LessThan(w) {
		return "", &GoneError{InUse: inUse, Newest: picked}
	}
	return picked, err
}

func (r Range) pick(list []string) (string, error) {
	var best, newest *semver.Version
	for _, text := range list {
		if text == r.text && text != "" {
			return text, nil
		}
		v := Parse(text)
		if v == nil {
			continue
		}
		if newest == nil || less(newest, v) {
			newest = v
		}
		if r.has(v) && (best == nil || less(best, v)) {
			best = v
		}
	}
	switch {
	case best != nil:
		return best.Original(), nil
	case newest != nil:
		return "", &MatchError{Range: r.text, Newest: newest.Original()}
	}
	return "", &MatchError{Range: r.text}
}

func (r Range) has(v *semver.Version) bool {
	if r.constraint == nil {
		return v.Prerelease() == ""
	}
	return r.constraint.Check(v)
}

// Has says whether a version is in the range. An admitted pre-release, which somebody has asked for by name, counts like any
// other version.
func (r Range) Has(v *semver.Version, admitted bool) bool {
	if !admitted || r.has(v) {
		return r.has(v)
	}
	if r.constraint == nil {
		return true
	}
	every := *r.constraint
	every.IncludePrerelease = true
	return every.Check(v)
}

// Is says whether a text is a version.
func Is(text string) bool { return Parse(text) != nil }

// Compare orders versions from the oldest to the newest, and those that differ in build metadata alone by their texts.
func Compare(a, b *semver.Version) int {
	return cmp.Or(a.Compare(b), strings.Compare(a.Original(), b.Original()))
}

// Parse reads a version; nil is none.
func Parse(text string) *semver.Version {
	if len(text) > maxLength {
		return nil
	}
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(text, "v")); err != nil {
		return nil
	}
	v, err := semver.NewVersion(text) // keeps the text as it was written
	if err != nil {
		return nil
	}
	return v
}

func less(a, b *semver.Version) bool { return Compare(a, b) < 0 }

func clip(text string) string { return text[:min(len(text), 64)] }
