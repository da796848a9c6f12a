package apply

import (
	"errors"
	"testing"
	"time"
)

func TestAnOutageIsMoreThanABrokenWatch(t *testing.T) {
	refused := errors.New("connection refused")
	start := time.Now()
	type request struct {
		began, ended time.Duration
		err          error
	}
	for name, tt := range map[string]struct {
		requests []request
		want     []bool // after each, whether it turned
		away     bool
	}{
		"a server that restarts": {
			[]request{
				{0, 0, nil},
				{time.Second, time.Second, refused},
				{2 * time.Second, 2 * time.Second, nil},
				{5 * time.Second, 5 * time.Second, refused},
			},
			[]bool{false, false, false, false},
			false,
		},
		"one that goes away": {
			[]request{
				{0, 0, nil},
				{time.Second, time.Second, refused},
				{4 * time.Second, 4 * time.Second, refused},
				{9 * time.Second, 9 * time.Second, refused},
			},
			[]bool{false, false, true, false},
			true,
		},
		"one that comes back": {
			[]request{{0, time.Minute, refused}, {time.Hour, time.Hour, nil}, {time.Hour, time.Hour, nil}},
			[]bool{true, true, false},
			false,
		},
		"a connection that is tried for long while others answer": {
			[]request{{0, 29 * time.Second, nil}, {0, 30 * time.Second, refused}}, []bool{false, false}, false,
		},
	} {
		o := &outage{}
		for i, r := range tt.requests {
			if got := o.turned(start.Add(r.began), start.Add(r.ended), r.err); got != tt.want[i] {
				t.Errorf("%s: request %d turned it: %t", name, i, got)
			}
		}
		if got := o.why() != nil; got != tt.away {
			t.Errorf("%s: away is %t", name, got)
		}
	}
}
