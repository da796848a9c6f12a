package leakcheck

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseUpdates(t *testing.T) {
	one, zero := strings.Repeat("1a", 20), strings.Repeat("0", 40)
	got, err := parseUpdates(strings.NewReader("\nrefs/heads/a " + one + " refs/heads/a " + zero + "\nHEAD@{2 days ago} " + one + " refs/heads/b " + strings.Repeat("2", 64) + "\n"))
	want := []update{{one, "refs/heads/a", zero}, {one, "refs/heads/b", strings.Repeat("2", 64)}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(update{})); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	for _, bad := range []string{"x", "a " + one + " b", "a --all b " + zero, "a " + one + " b " + zero[1:], strings.Repeat("x", maxLine+1)} {
		if _, err := parseUpdates(strings.NewReader(bad)); err == nil {
			t.Errorf("%.40q passed", bad)
		}
	}
}

func FuzzParseUpdates(f *testing.F) {
	f.Add("refs/heads/a " + strings.Repeat("1", 40) + " refs/heads/a " + strings.Repeat("0", 40) + "\n")
	f.Add("\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseUpdates(strings.NewReader(text))
		if err != nil {
			return // no input that the property speaks of
		}
		for _, u := range all {
			if !isOid(u.local) || !isOid(u.remote) || strings.ContainsAny(u.local+u.remote, "- \n") {
				t.Fatalf("%q gave %+v", text, u)
			}
		}
	})
}
