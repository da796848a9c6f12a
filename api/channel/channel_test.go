package channel_test

import (
	"testing"
	"time"

	"github.com/pluralsh/plural/api/channel"
)

func TestAgreeIsTheNewestVersionThatBothSpeak(t *testing.T) {
	for _, test := range []struct {
		a, b channel.Versions
		want int32
		ok   bool
	}{
		{channel.Versions{Min: 1, Max: 1}, channel.Versions{Min: 1, Max: 1}, 1, true},
		{channel.Versions{Min: 1, Max: 3}, channel.Versions{Min: 2, Max: 5}, 3, true},
		{channel.Versions{Min: 1, Max: 2}, channel.Versions{Min: 3, Max: 5}, 2, false},
		{channel.Versions{Min: 1, Max: 3}, channel.Versions{}, 0, false},
		{channel.Versions{Min: 1, Max: 3}, channel.Versions{Min: -5, Max: 2}, 2, true},
		{channel.Versions{Min: 1, Max: 3}, channel.Versions{Min: 3, Max: 2}, 2, false},
	} {
		for _, sides := range [][2]channel.Versions{{test.a, test.b}, {test.b, test.a}} {
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
		if a, b := channel.NewBoot(now), channel.NewBoot(now.Add(later)); a >= b {
			t.Errorf("%s is not less than %s", a, b)
		}
	}
	if one, other := channel.NewBoot(now), channel.NewBoot(now); one == other {
		t.Error("two processes that start at once have one name")
	}
}
