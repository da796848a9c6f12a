package paint_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/paint"
)

func looks() map[string]*paint.Look {
	return map[string]*paint.Look{
		"dark":  paint.NewLook(paint.Options{Color: true, Dark: true}),
		"light": paint.NewLook(paint.Options{Color: true}),
		"mono":  paint.NewLook(paint.Options{}),
		"ascii": paint.NewLook(paint.Options{ASCII: true}),
		"both":  paint.NewLook(paint.Options{ASCII: true, Color: true, Dark: true}),
	}
}

func TestNothingThatATerminalActsOnIsPainted(t *testing.T) {
	l := looks()["mono"]
	for text, want := range map[string]string{
		"plain":                    "plain",
		"":                         "",
		"two\nlines\tand\rmore":    "two lines and more",
		"\x1b[31mred\x1b[0m":       `\x1b[31mred\x1b[0m`,
		"\x1b]0;title\x07":         `\x1b]0;title\a`,
		"bell\a nul\x00 del\x7f":   `bell\a nul\x00 del\x7f`,
		"c1 \u009b31m":             `c1 \u009b31m`,
		"rtl \u202eevil\u2066":     `rtl \u202eevil\u2066`,
		"zero\u200bwidth\ufeff":    `zero\u200bwidth\ufeff`,
		"bad \xff utf8":            "bad \ufffd utf8",
		"Größe 日本 ok":              "Größe 日本 ok",
		"heart \u2764\ufe0f plain": "heart \u2764 plain",
	} {
		if got := l.Paint(paint.Bad, text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := looks()["ascii"].Clean("Größe 日本 \x1b"); got != `Gr??e ?? \x1b` {
		t.Errorf("in ASCII: %q", got)
	}
}

func TestTextIsCutAndPaddedByCells(t *testing.T) {
	l, a := looks()["mono"], looks()["ascii"]
	for _, c := range []struct {
		look        *paint.Look
		text        string
		width       int
		cut, padded string
	}{
		{l, "payments", 10, "payments", "payments  "},
		{l, "payments", 8, "payments", "payments"},
		{l, "payments", 5, "paym…", "paym…"},
		{a, "payments", 5, "paym~", "paym~"},
		{l, "日本語", 5, "日本…", "日本…"},
		{l, "日本語", 4, "日…", "日… "},
		{l, "x", 0, "", ""},
		{l, "xy", 1, "…", "…"},
		{l, "", 3, "", "   "},
	} {
		if got := c.look.Cut(c.text, c.width); got != c.cut {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.cut)
		}
		if got := c.look.Pad(c.text, c.width); got != c.padded {
			t.Errorf("%q padded to %d: %q, want %q", c.text, c.width, got, c.padded)
		}
	}
}

func TestPaintedLinesAreCutWithTheirColours(t *testing.T) {
	l := looks()["dark"]
	line := l.Paint(paint.Good, "healthy") + " " + l.Paint(paint.Bad, "failed")
	if got := l.Fit(line, 100); got != line {
		t.Errorf("with room enough: %q", got)
	}
	got := l.Fit(line, 10)
	if ansi.Strip(got) != "healthy f…" || !strings.HasSuffix(got, "\x1b[m") {
		t.Errorf("cut to ten: %q", got)
	}
	if got := l.Fit("a\x1b[2Jb\x1b[1mc", 100); got != `a\x1b[2Jb`+"\x1b[1mc" {
		t.Errorf("sequences that are no colours: %q", got)
	}
	if got := looks()["mono"].Fit("\x1b[1mc", 100); got != `\x1b[1mc` {
		t.Errorf("without colours: %q", got)
	}
}

func TestEveryPhaseHasASignOfItsOwnInOneCell(t *testing.T) {
	for name, l := range looks() {
		seen := map[string]v1.Phase{}
		for _, p := range v1.Phases() {
			glyph, style := l.Phase(p)
			if paint.Width(glyph) != 1 || l.Clean(glyph) != glyph {
				t.Errorf("%s: %s has the sign %q", name, p, glyph)
			}
			if other, ok := seen[glyph]; ok {
				t.Errorf("%s: %s and %s have the sign %q", name, p, other, glyph)
			}
			if seen[glyph] = p; style == paint.Plain {
				t.Errorf("%s: %s has no style", name, p)
			}
		}
		for _, h := range v1.ObjectHealth("").Words() {
			if glyph, style := l.Health(v1.ObjectHealth(h)); paint.Width(glyph) != 1 || style == paint.Plain {
				t.Errorf("%s: %s has the sign %q", name, h, glyph)
			}
		}
		for _, u := range v1.UpgradeState("").Words() {
			if glyph, style := l.Upgrade(v1.UpgradeState(u)); paint.Width(glyph) != 1 || style == paint.Plain {
				t.Errorf("%s: %s has the sign %q", name, u, glyph)
			}
		}
		for g := paint.Ellipsis; g <= paint.More; g++ {
			if glyph := l.Glyph(g); paint.Width(glyph) != 1 || l.Clean(glyph) != glyph {
				t.Errorf("%s: sign %d is %q", name, g, glyph)
			}
		}
	}
	if glyph, _ := looks()["dark"].Phase("new in a later hub"); glyph != "?" {
		t.Errorf("a phase that is not known has the sign %q", glyph)
	}
}

func TestStylesShowOnBothBackgroundsAndNotWithoutColours(t *testing.T) {
	for name, l := range looks() {
		for s := paint.Plain; s <= paint.Cursor; s++ {
			for _, got := range []string{l.Paint(s, "word"), l.Under(s, "word")} {
				if ansi.Strip(got) != "word" {
					t.Errorf("%s: style %d says %q", name, s, got)
				}
				if !l.Options().Color && got != "word" {
					t.Errorf("%s: style %d has colours: %q", name, s, got)
				}
			}
		}
	}
}

func TestBarsAreFullOnlyWhenAllIsDone(t *testing.T) {
	l := looks()["ascii"]
	for _, c := range []struct {
		done, all int
		want      string
	}{
		{0, 10, "........"},
		{1, 1000, "#......."},
		{5, 10, "####...."},
		{999, 1000, "#######."},
		{10, 10, "########"},
		{11, 10, "########"},
		{0, 0, "........"},
		{-1, 3, "........"},
	} {
		if got := l.Bar(c.done, c.all, 8); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.all, got, c.want)
		}
	}
	if got := looks()["dark"].Bar(1, 2, 10); paint.Width(got) != 10 {
		t.Errorf("ten cells became %q", got)
	}
}

func TestBoxesHaveTheSizeThatIsAskedFor(t *testing.T) {
	want := []string{
		"+- Sort by --------+",
		"| one              |",
		"| a line that is ~ |",
		"|                  |",
		"+------------------+",
	}
	if diff := cmp.Diff(want, looks()["ascii"].Box("Sort by", []string{"one", "a line that is too long"}, 20, 5)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, l := range looks() {
		for width := range 30 {
			for _, line := range l.Box("a rather long title", []string{l.Paint(paint.Good, "日本語日本語")}, width, 4) {
				if paint.Width(line) != width {
					t.Errorf("%s: %d cells became %q", name, width, line)
				}
			}
		}
	}
}

func TestKeyHintsSayKeyAndWord(t *testing.T) {
	if got := looks()["mono"].KeyHint("f", "faults"); got != "f faults" {
		t.Error(got)
	}
}

var columns = []paint.Column{
	{Name: "CLUSTER", Weight: 1, Min: 8},
	{Name: "SERVICE", Weight: 1, Min: 8},
	{Name: "PHASE"},
	{Name: "READY", Right: true, Rank: 1},
	{Name: "VERSION", Max: 10, Rank: 3},
	{Name: "AGE", Right: true, Rank: 2},
	{Name: "TAGS", Hide: 100, Rank: 4, Weight: 1},
	{Name: "REASON", Weight: 4},
}

func rows(l *paint.Look, n int) paint.Rows {
	phases := v1.Phases()
	return paint.Rows{
		N: n, Cursor: 1,
		Cells: func(i int, cells []paint.Cell) {
			glyph, style := l.Phase(phases[i%len(phases)])
			cells[0] = paint.Cell{Text: fmt.Sprintf("prod-eu-%d", i)}
			cells[1] = paint.Cell{Text: "payments"}
			cells[2] = paint.Cell{Glyph: glyph, Text: string(phases[i%len(phases)]), Style: style}
			cells[3] = paint.Cell{Text: "3/12"}
			cells[4] = paint.Cell{Text: "1.2.3-rc.14+build", Style: paint.Faint}
			cells[5] = paint.Cell{Text: "7m", Style: paint.Old}
			cells[6] = paint.Cell{Text: "env=prod"}
			cells[7] = paint.Cell{Text: "Deployment/web: 2 of 3 pods wait for the image registry.example.com/web:1.2.3\nback-off"}
		},
		Marked: func(i int) bool { return i == 2 },
	}
}

func TestColumnsShareTheWidthAndGoByRank(t *testing.T) {
	l := looks()["ascii"]
	for width, want := range map[int][]string{
		0: nil,
		40: {
			"   CLUSTER~  SERVICE   PHASE      REASON",
			"   prod-eu~  payments  + healthy  Deplo~",
			">  prod-eu~  payments  - removi~  Deplo~",
			" * prod-eu~  payments  ~ progre~  Deplo~",
			"   prod-eu~  payments  . pending  Deplo~",
		},
		80: {
			"   CLUSTER v  SERVICE   PHASE          READY  VERSION     AGE  REASON",
			"   prod-eu-0  payments  + healthy       3/12  1.2.3-rc.~   7m  Deployment/web: ~",
			">  prod-eu-1  payments  - removing      3/12  1.2.3-rc.~   7m  Deployment/web: ~",
			" * prod-eu-2  payments  ~ progressing   3/12  1.2.3-rc.~   7m  Deployment/web: ~",
			"   prod-eu-3  payments  . pending       3/12  1.2.3-rc.~   7m  Deployment/web: ~",
		},
		120: {
			"   CLUSTER v  SERVICE   PHASE          READY  VERSION     AGE  TAGS      REASON",
			"   prod-eu-0  payments  + healthy       3/12  1.2.3-rc.~   7m  env=prod  Deployment/web: 2 of 3 pods wait for the image~",
			">  prod-eu-1  payments  - removing      3/12  1.2.3-rc.~   7m  env=prod  Deployment/web: 2 of 3 pods wait for the image~",
			" * prod-eu-2  payments  ~ progressing   3/12  1.2.3-rc.~   7m  env=prod  Deployment/web: 2 of 3 pods wait for the image~",
			"   prod-eu-3  payments  . pending       3/12  1.2.3-rc.~   7m  env=prod  Deployment/web: 2 of 3 pods wait for the image~",
		},
	} {
		g := paint.Grid{Columns: columns, Sorted: 0, Descending: true, Pinned: 2}
		if diff := cmp.Diff(want, g.Draw(l, width, 5, rows(l, 100))); diff != "" {
			t.Errorf("%d cells (-want +got):\n%s", width, diff)
		}
	}
}

func TestScrolledColumnsMakeRoomForOthers(t *testing.T) {
	l := looks()["ascii"]
	g := paint.Grid{Columns: columns, Sorted: -1, Pinned: 2}
	draw := func() []string { return g.Draw(l, 70, 2, rows(l, 100)) }
	draw()
	g.Scroll(3)
	want := []string{
		"   CLUSTER    SERVICE   AGE  REASON",
		"   prod-eu-0  payments   7m  Deployment/web: 2 of 3 pods wait for the~",
	}
	if diff := cmp.Diff(want, draw()); diff != "" {
		t.Errorf("scrolled by three (-want +got):\n%s", diff)
	}
	g.Scroll(100)
	last := draw()
	if !strings.HasPrefix(last[0], "   CLUSTER    SERVICE   REASON") {
		t.Errorf("the last column is scrolled away: %q", last[0])
	}
	g.Scroll(-100)
	if first := draw(); !strings.Contains(first[0], "PHASE") {
		t.Errorf("scrolled back: %q", first[0])
	}
}

func FuzzGridStaysInItsCells(f *testing.F) {
	f.Add("prod", "payments\x1b[2J", "日本語", 80, 24, 3, uint8(0))
	f.Add("\u202e", "👍🏽👩‍👩‍👧", "\xff\x9b31m", 12, 3, 0, uint8(1))
	f.Add("e\u0301\u0301\u0301", "각", "🇩🇪🇩", 33, 9, 1, uint8(2))
	f.Fuzz(func(t *testing.T, a, b, c string, width, height, shift int, look uint8) {
		width, height = width%300, height%100
		l := looks()[[]string{"dark", "light", "mono", "ascii", "both"}[look%5]]
		g := paint.Grid{Columns: columns, Sorted: int(look) % len(columns), Pinned: 2}
		r := paint.Rows{N: 20, Cursor: 2, Marked: func(i int) bool { return i%2 == 0 }, Cells: func(i int, cells []paint.Cell) {
			for at, text := range []string{a, b, c, c, b, a, a, b} {
				cells[at] = paint.Cell{Text: text, Style: paint.Style((i + at) % int(paint.Cursor+1))}
			}
			cells[i%8].Glyph = l.Glyph(paint.Glyph(i))
		}}
		lines := g.Draw(l, width, height, r)
		g.Scroll(shift)
		lines = append(lines, g.Draw(l, width, height, r)...)
		if height > 0 && len(lines) > 2*height {
			t.Fatalf("%d lines in %d", len(lines), height)
		}
		lines = append(lines, l.Fit(a+l.Paint(paint.Bad, b)+c, width), l.Cut(a+b, width), l.Pad(b+c, width))
		for _, line := range lines {
			checkLine(t, l, line, max(width, 0))
		}
	})
}

func checkLine(t *testing.T, l *paint.Look, line string, width int) {
	t.Helper()
	if got := ansi.StringWidth(line); got > width {
		t.Fatalf("%d cells instead of %d: %q", got, width, line)
	}
	if !utf8.ValidString(line) {
		t.Fatalf("no UTF-8: %q", line)
	}
	for rest := line; rest != ""; {
		if n := strings.IndexByte(rest, 'm'); strings.HasPrefix(rest, "\x1b[") && n > 0 &&
			strings.Trim(rest[2:n], "0123456789;") == "" && l.Options().Color {
			rest = rest[n+1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			t.Fatalf("%U in %q", r, line)
		}
		if l.Options().ASCII && r >= 0x80 {
			t.Fatalf("%U in ASCII: %q", r, line)
		}
		rest = rest[size:]
	}
}

func BenchmarkGrid(b *testing.B) {
	for name, l := range looks() {
		b.Run(name, func(b *testing.B) {
			g := paint.Grid{Columns: columns, Sorted: -1, Pinned: 2}
			r := rows(l, 100_000)
			b.ReportAllocs()
			for i := range b.N {
				r.Top = i % 50_000
				r.Cursor = r.Top + i%50
				g.Draw(l, 200, 51, r)
			}
		})
	}
}

func TestFiguresHaveCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 12_345_678: "12,345,678", -1234: "-1,234", -123: "-123"} {
		if got := paint.Figure(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
