package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestAScreenShowsWhatATerminalWould(t *testing.T) {
	for name, c := range map[string]struct{ written, want string }{
		"text goes on below at the edge": {"abcdefghij", "abcdefgh\nij\n\n"},
		"the last column waits":          {"abcdefgh\r\nx", "abcdefgh\nx\n\n"},
		"the first row goes":             {"1\r\n2\r\n3\r\n4", "2\n3\n4\n"},
		"anywhere":                       {"\x1b[2;3Hx\x1b[1;1Hy", "y\n  x\n\n"},
		"erased to the end":              {"abcdef\x1b[3D\x1b[K", "abc\n\n\n"},
		"erased to here":                 {"abcdef\x1b[3D\x1b[1K", "    ef\n\n\n"},
		"everything erased":              {"a\r\nb\x1b[2J", "\n\n\n"},
		"characters erased":              {"abcdef\x1b[1;2H\x1b[3X", "a   ef\n\n\n"},
		"characters deleted":             {"abcdef\x1b[1;2H\x1b[3P", "aef\n\n\n"},
		"characters put between":         {"abc\x1b[1;2H\x1b[2@x", "ax bc\n\n\n"},
		"lines put between":              {"a\r\nb\r\nc\x1b[2;1H\x1b[Lx", "a\nx\nb\n"},
		"lines deleted":                  {"a\r\nb\r\nc\x1b[2;1H\x1b[M", "a\nc\n\n"},
		"a region scrolls":               {"a\r\nb\r\nc\x1b[2;3r\x1b[3;1H\n", "a\nc\n\n"},
		"back up at the top":             {"a\r\nb\x1b[1;1H\x1bMx", "x\na\nb\n"},
		"repeated":                       {"-\x1b[3bx", "----x\n\n\n"},
		"wide":                           {"日本x", "日本x\n\n\n"},
		"put together":                   {"e\u0301x", "e\u0301x\n\n\n"},
		"tabs end at the edge":           {"\tx", "       x\n\n\n"},
		"another screen, and back":       {"shell\x1b[?1049h\x1b[2Jtui\x1b[?1049l!", "shell!\n\n\n"},
		"a title is not shown":           {"\x1b]0;title\x07a", "a\n\n\n"},
		"what is asked is not shown":     {"\x1b[?2026$p\x1b[6na", "a\n\n\n"},
		"begun anew":                     {"a\x1b[31m\x1bcb", "b\n\n\n"},
		"no place is too far":            {"\x1b[99;99Hx\x1b[99Ay\x1b[99Dz", "z      y\n\n       x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(8, 3)
			fmt.Fprint(s, c.written)
			if got := s.text(); got != c.want {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func TestLooksAreReadFromWhatIsWritten(t *testing.T) {
	for written, want := range map[string]look{
		"\x1b[1;32mx":            {bold: true, fore: indexed(2)},
		"\x1b[38;5;238;2mx":      {faint: true, fore: "#444444"},
		"\x1b[48;2;1;2;3mx":      {back: "#010203"},
		"\x1b[7;4;3m\x1b[24mx":   {invert: true, italic: true},
		"\x1b[1;31;44m\x1b[mx":   {},
		"\x1b[91;101m\x1b[39mx":  {back: indexed(9)},
		"\x1b[1;2m\x1b[22;27m0x": {},
	} {
		s := newScreen(8, 1)
		fmt.Fprint(s, written)
		if got := s.cells[0][0].look; got != want {
			t.Errorf("%q: got %+v, want %+v", written, got, want)
		}
	}
}

func TestPicturesAreXMLThatWritesEachLineOnce(t *testing.T) {
	s := newScreen(20, 2)
	fmt.Fprint(s, "<a> & \x1b[1m\"b\"\x1b[m")
	one := frame{lines: [][]cell{s.cells[0], s.cells[0]}, shown: time.Second}
	for name, picture := range map[string][]byte{"still": still("a <title>", one), "cast": cast("a <title>", []frame{one, one})} {
		decoder := xml.NewDecoder(strings.NewReader(string(picture)))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, picture)
			}
		}
		if n := strings.Count(string(picture), "&lt;a&gt; &amp;"); n != 1 {
			t.Errorf("%s: the line is written %d times:\n%s", name, n, picture)
		}
	}
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("a\x1b[2;3r\x1b[9@\x1b[5P\x1b[3L\x1b[3M\x1b[4S\x1b[T\x1b[b日\x1b[4hx\x1bM\x1b[1J\x1b[X\x1b[Z\t"))
	f.Fuzz(func(t *testing.T, written []byte) {
		s := newScreen(7, 3)
		fmt.Fprint(s, string(written))
		for _, line := range s.cells {
			if len(line) != 7 {
				t.Fatalf("a line has %d cells", len(line))
			}
		}
		still("", frame{lines: s.cells})
	})
}
