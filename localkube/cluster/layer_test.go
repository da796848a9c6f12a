package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func untilTold(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestPartThatEndsByItselfFailsItsLayer(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name string
		err  error
		want error
	}{
		{"with an error", broken, broken},
		{"without one", nil, errEndedEarly},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := start(t.Context(), part{"good", untilTold}, part{"bad", func(context.Context) error { return test.err }})
			defer l.stop(time.Second)
			err := <-l.failed
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), "bad") {
				t.Errorf("got error %v, want %v with the name of the part", err, test.want)
			}
		})
	}
}

func TestPartThatIsToldToEndDoesNotFail(t *testing.T) {
	l := start(t.Context(), part{"one", untilTold}, part{"two", untilTold})
	l.stop(time.Minute)
	select {
	case err := <-l.failed:
		t.Errorf("got error %v", err)
	default:
	}
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	release := make(chan struct{})
	l := start(t.Context(), part{"deaf", func(context.Context) error {
		<-release
		return nil
	}})
	l.stop(time.Millisecond)
	close(release)
	<-l.done
}
