package poll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errDown = errors.New("down")

// record runs a loop for some time and gives when each call happened, since the start.
func record(t *testing.T, l Loop, lasts time.Duration, wake chan struct{}, fn func(call int) error) []time.Duration {
	t.Helper()
	var calls []time.Duration
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	err := l.Run(ctx, wake, func(context.Context) error {
		calls = append(calls, time.Since(start))
		return fn(len(calls))
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run = %v", err)
	}
	return calls
}

func same(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("calls at %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("calls at %v, want %v", got, want)
		}
	}
}

func well(int) error { return nil }

func TestRunCallsAtOnceAndThenAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same(t, record(t, Loop{Interval: time.Minute}, 150*time.Second, nil, well), 0, time.Minute, 2*time.Minute)
	})
}

func TestWakeShortensTheWaitAndIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		time.AfterFunc(10*time.Second, func() { wake <- struct{}{} })
		same(t, record(t, Loop{Interval: time.Minute}, 75*time.Second, wake, well), 0, 10*time.Second, 70*time.Second)
	})
}

func TestFailuresBackOffAndSuccessEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Loop{Interval: 10 * time.Second, MinBackoff: time.Second, MaxBackoff: 10 * time.Second}
		got := record(t, l, 40*time.Second, nil, func(call int) error {
			if call <= 5 {
				return errDown
			}
			return nil
		})
		const s = time.Second
		same(t, got, 0, 1*s, 3*s, 7*s, 15*s, 25*s, 35*s)
	})
}

func TestWakeStormCannotHammerWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		go func() {
			for {
				select {
				case wake <- struct{}{}:
				case <-t.Context().Done():
					return
				}
			}
		}()
		l := Loop{Interval: time.Minute, MinBackoff: time.Second}
		got := record(t, l, 10*time.Second+time.Millisecond, wake, func(int) error { return errDown })
		if len(got) != 11 {
			t.Errorf("%d calls in 10 s, want 11", len(got))
		}
	})
}

func TestJitterStaysWithinItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := record(t, Loop{Interval: time.Minute, Jitter: 0.1}, 100*time.Minute, nil, well)
		varied := false
		for i := 1; i < len(got); i++ {
			gap := got[i] - got[i-1]
			if gap < 54*time.Second || gap > 66*time.Second {
				t.Errorf("gap of %v", gap)
			}
			varied = varied || gap != time.Minute
		}
		if !varied {
			t.Error("no jitter")
		}
	})
}

func TestManyFailuresDoNotOverflowTheWait(t *testing.T) {
	if got := (Loop{Interval: time.Second}).wait(1 << 20); got != DefaultMaxBackoff {
		t.Errorf("wait = %v", got)
	}
}
