package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakePager makes a program that does what the script says with its input.
func fakePager(t *testing.T, script string) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pager")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func lines(n int) string { return strings.Repeat("line\n", n) }

func TestLongTextsAreShownByThePagerAndShortOnesAsTheyAre(t *testing.T) {
	marks := fakePager(t, "echo \"$* LESS=$LESS\"; cat; echo end\n")
	t.Setenv("LESS", "")
	if err := os.Unsetenv("LESS"); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		streams Streams
		text    string
		want    string
	}{
		"long": {
			Streams{OutTTY: true, Height: 5, Width: 80, Pager: marks + " -x"}, lines(5), "-x LESS=FRX\n" + lines(5) + "end\n",
		},
		"short":                 {Streams{OutTTY: true, Height: 5, Width: 80, Pager: marks}, lines(4), lines(4)},
		"long when wrapped":     {Streams{OutTTY: true, Height: 3, Width: 4, Pager: marks}, "123456789", " LESS=FRX\n123456789end\n"},
		"piped":                 {Streams{Height: 5, Pager: marks}, lines(9), lines(9)},
		"nobody knows the size": {Streams{OutTTY: true, Pager: marks}, lines(9), lines(9)},
		"no pager":              {Streams{OutTTY: true, Height: 5}, lines(9), lines(9)},
		"cat":                   {Streams{OutTTY: true, Height: 5, Pager: "cat"}, lines(9), lines(9)},
		"plain":                 {Streams{OutTTY: true, Height: 5, Plain: true, Pager: marks}, lines(9), lines(9)},
		"it is not there":       {Streams{OutTTY: true, Height: 5, Pager: "/nowhere/less -FRX"}, lines(9), lines(9)},
		"it cannot run":         {Streams{OutTTY: true, Height: 5, Pager: t.TempDir()}, lines(9), lines(9)},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tt.streams.Out = &out
			err := tt.streams.Paged(func(w io.Writer) error {
				_, err := io.WriteString(w, tt.text)
				return err
			})
			if diff := cmp.Diff(tt.want, out.String()); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

func TestPagerThatIsLeftEarlyIsNoError(t *testing.T) {
	s := Streams{Out: io.Discard, OutTTY: true, Height: 5, Width: 80, Pager: fakePager(t, "exit 3\n")}
	var stopped error
	if err := s.Paged(func(w io.Writer) error {
		for range 1 << 20 {
			if _, stopped = io.WriteString(w, lines(100)); stopped != nil {
				return fmt.Errorf("print: %w", stopped)
			}
		}
		return nil
	}); err != nil || stopped == nil {
		t.Errorf("%v after %v", err, stopped)
	}
}

func TestWhatKeepsATextFromBeingWrittenIsTold(t *testing.T) {
	broken := errors.New("broken")
	for _, height := range []int{0, 5} {
		var out bytes.Buffer
		s := Streams{Out: &out, OutTTY: true, Height: height, Pager: fakePager(t, "cat\n")}
		err := s.Paged(func(w io.Writer) error {
			_, err := io.WriteString(w, lines(9))
			return errors.Join(err, broken)
		})
		if !errors.Is(err, broken) || out.String() != lines(9) {
			t.Errorf("%v, %q", err, out.String())
		}
	}
}
