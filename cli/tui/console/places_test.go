package console

import (
	"testing"

	"github.com/pluralsh/plural/cli/tui/pane"
)

func TestPlacesGoBackAndForthAsABrowserDoes(t *testing.T) {
	for _, tt := range []struct{ name, steps, want string }{
		{"nothing before the first", "a<", "a"},
		{"back and forth", "abc<<>", "b"},
		{"a visit forgets what lay behind", "abc<<d>", "d"},
		{"the same place twice is one", "aab<", "a"},
		{"last goes to and fro", "ab--", "b"},
		{"last, after going back", "abc<-", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p places
			at := ""
			for _, step := range tt.steps {
				to, is := pane.Open{Pane: string(step)}, true
				switch step {
				case '<':
					to, is = p.step(-1)
				case '>':
					to, is = p.step(1)
				case '-':
					to, is = p.last()
				}
				if is {
					p.visit(to)
					at = to.Pane
				}
			}
			if at != tt.want {
				t.Errorf("at %q, want %q", at, tt.want)
			}
		})
	}
}

func TestPlacesAreBounded(t *testing.T) {
	var p places
	for i := range 3 * maxPlaces {
		p.visit(pane.Open{Pane: string(rune('a' + i%7))})
		p.said(string(rune('a' + i%7)))
	}
	if len(p.seen) > maxPlaces || len(p.typed) > maxPlaces || p.at != len(p.seen)-1 {
		t.Errorf("%d places, %d commands, at %d", len(p.seen), len(p.typed), p.at)
	}
}
