package tunnelapi_test

import (
	"testing"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
)

func TestAgreeIsTheNewestVersionThatBothSpeak(t *testing.T) {
	for _, test := range []struct {
		a, b tunnelapi.Versions
		want int32
		ok   bool
	}{
		{tunnelapi.Versions{Min: 1, Max: 1}, tunnelapi.Versions{Min: 1, Max: 1}, 1, true},
		{tunnelapi.Versions{Min: 1, Max: 3}, tunnelapi.Versions{Min: 2, Max: 5}, 3, true},
		{tunnelapi.Versions{Min: 1, Max: 2}, tunnelapi.Versions{Min: 3, Max: 5}, 2, false},
		{tunnelapi.Versions{Min: 1, Max: 3}, tunnelapi.Versions{}, 0, false},
		{tunnelapi.Versions{Min: 1, Max: 3}, tunnelapi.Versions{Min: -5, Max: 2}, 2, true},
		{tunnelapi.Versions{Min: 1, Max: 3}, tunnelapi.Versions{Min: 3, Max: 2}, 2, false},
	} {
		for _, sides := range [][2]tunnelapi.Versions{{test.a, test.b}, {test.b, test.a}} {
			got, ok := sides[0].Agree(sides[1])
			if ok != test.ok || ok && got != test.want {
				t.Errorf("%v and %v: %d, %v", sides[0], sides[1], got, ok)
			}
		}
	}
}

func TestALaterBootIsGreater(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for _, later := range []time.Duration{time.Millisecond, time.Hour, 100 * 365 * 24 * time.Hour} {
		if a, b := tunnelapi.NewBoot(now), tunnelapi.NewBoot(now.Add(later)); a >= b {
			t.Errorf("%s is not less than %s", a, b)
		}
	}
	if one, other := tunnelapi.NewBoot(now), tunnelapi.NewBoot(now); one == other {
		t.Error("two processes that start at once have one name")
	}
}
