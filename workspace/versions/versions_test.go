package versions

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestTheNewestInTheRangeIsPicked(t *testing.T) {
	list := []string{
		"6.6.0", "v6.7.1", "6.10.0", "7.0.0-rc.1", "5.0.0", "latest", "20260101", "6", "6.9", "6.7.0+b", "6.7.0+a", "",
		strings.Repeat("1", 300) + ".0.0", "8.0.0-alpha",
	}
	for text, want := range map[string]string{
		"": "6.10.0", " ": "6.10.0", "*": "6.10.0", "6.7.1": "v6.7.1", "v6.7.1": "v6.7.1", "6.6.0": "6.6.0", "^6.6": "6.10.0", "~6.7": "v6.7.1", "6.7.x": "v6.7.1",
		"6.7.0": "6.7.0+b", "6.7.0+a": "6.7.0+a", "<6": "5.0.0", ">=6 <6.10": "v6.7.1", "^4 || ^5": "5.0.0",
		">=7.0.0-0": "8.0.0-alpha", "~7.0.0-0": "7.0.0-rc.1", "7.0.0-rc.1": "7.0.0-rc.1", "latest": "",
	} {
		r, err := ParseRange(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q is a range", text)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		for range 3 {
			if got, err := r.Newest(list, "main"); got != want {
				t.Errorf("%q = %q, %v; want %q", text, got, err, want)
			}
			slices.Reverse(list)
		}
	}
}

func TestNoMatchSaysWhatThereIs(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		list       []string
	}{
		{"^7", `no version matches "^7": the newest of all is 6.0.0`, []string{"5.0.0", "6.0.0"}},
		{"", "no version but pre-releases is listed: the newest of all is 1.0.0-rc.1", []string{"1.0.0-rc.1"}},
		{"", "no semantic version is listed", []string{"latest"}},
	} {
		r, err := ParseRange(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Newest(tc.list, "")
		var none *MatchError
		if !errors.As(err, &none) || err.Error() != tc.want {
			t.Errorf("error %q, want %q", err, tc.want)
		}
	}
	for _, text := range []string{"not a range", ">>1", strings.Repeat("1", 1000)} {
		if _, err := ParseRange(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestARangeIsToldFromAName(t *testing.T) {
	for text, want := range map[string]bool{
		"^6": true, ">=1 <2": true, "6.x": true, "v6.7.X": true, "*": true, "~1": true,
		"6.7.0": false, "6": false, "6.7": false, "latest": false, "main": false, "x": false, "1.x-alpine": false, "v1": false, "": false, "linux.x": false,
	} {
		if Looks(text) != want {
			t.Errorf("Looks(%q) = %v", text, !want)
		}
	}
}

func TestAnOlderVersionIsNotTakenForOneThatIsGone(t *testing.T) {
	list := []string{"6.7.0", "6.9.0"}
	for inUse, gone := range map[string]bool{
		"v6.10.0": true, "7.0.0-rc.1": true, "6.9.0": false, "6.7.0": false, "6.9.0-rc.1": false, "main": false, "": false,
	} {
		got, err := Range{}.Newest(list, inUse)
		var older *GoneError
		if errors.As(err, &older) != gone || !gone && got != "6.9.0" {
			t.Errorf("in use %q: %q, %v", inUse, got, err)
		}
	}
	if !Is("v1.2.3") || Is("1.2") || Is("latest") {
		t.Error("Is")
	}
}

func TestAPreReleaseThatIsAdmittedCountsLikeAnyOther(t *testing.T) {
	for _, tc := range []struct {
		text, version string
		plain, rated  bool
	}{
		{"", "1.0.0", true, true},
		{"", "1.0.0-rc.1", false, true},
		{">=1", "2.0.0-rc.1", false, true},
		{">=2", "2.0.0-rc.1", false, false},
		{"<2", "2.0.0-rc.1", false, true},
		{">=2.0.0-0", "2.0.0-rc.1", true, true},
		{"^1", "2.1.0", false, false},
	} {
		r, err := ParseRange(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		v := Parse(tc.version)
		if plain, admitted := r.Has(v, false), r.Has(v, true); plain != tc.plain || admitted != tc.rated {
			t.Errorf("%q has %s: %v, and admitted %v", tc.text, tc.version, plain, admitted)
		}
	}
}
