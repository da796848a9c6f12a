package gitpoller

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace/mirror"
)

// complaining is an upstream that quotes a damaged file.
type complaining struct{}

func (complaining) Traffic() mirror.Traffic { return mirror.Traffic{} }

func (complaining) Fetch(context.Context, []string, mirror.Receiver) (mirror.Answer, error) {
	return mirror.Answer{}, errors.New("bad ref \x00\x00\x00 in packed-refs")
}

func TestWhatAnUpstreamComplainsOfHoldsNoNUL(t *testing.T) {
	a, err := New(Options{Name: "x", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a.Use("1", func() (mirror.Upstream, error) { return complaining{}, nil })
	a.Follow("main")
	if err := a.fetch(t.Context()); err == nil {
		t.Fatal("it did not complain")
	}
	_, unfetched := a.Tip("main")
	for _, text := range []string{a.Status().LastError, unfetched.Error()} {
		if !strings.Contains(text, "bad ref") || strings.Contains(text, "\x00") {
			t.Errorf("it says %q", text)
		}
	}
}
