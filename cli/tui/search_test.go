package tui

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/adrg/xdg"

	"github.com/pluralsh/plural/cli/tui/paint"
)

// depth is how far below the list that all hangs below the console is.
func (s *stage) depth() int {
	s.t.Helper()
	for line := range strings.Lines(s.screen(120, 40)) {
		if strings.HasPrefix(line, "fleet") {
			return strings.Count(line, s.world.Look.Glyph(paint.Step))
		}
	}
	s.t.Fatalf("nobody knows where this is:\n%s", s.screen(120, 40))
	return 0
}

func TestWhatIsTypedAsAFilterIsNeverRunAsCommands(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	xdg.Reload()
	t.Cleanup(xdg.Reload)
	repo, commit := clone(t)
	for keys, shows := range map[string]string{
		"d": "found 1 of", "y": "found 1 of", "t": "nothing can be filtered here", "h": "nothing can be filtered here",
		"@": "nothing can be filtered here",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, set{hub: newHub(t, committed(commit)), repo: repo, now: clock()})
			s.press(keys)
			before := s.depth()
			if before != 1 {
				t.Fatalf("%q goes nowhere", keys)
			}
			s.press("/e")
			s.shows(shows)
			s.press("dge-2 pod Ryz")
			if at := s.depth(); at != before || !strings.Contains(s.screen(120, 40), "/edge-2 pod Ryz") {
				t.Errorf("after %q it is at\n%s", keys, s.screen(120, 40))
			}
			s.press("<enter>")
			if at := s.depth(); at != before {
				t.Errorf("after %q and enter it is at\n%s", keys, s.screen(120, 40))
			}
		})
	}
}

func TestAPageIsNotOpenedOnItself(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	xdg.Reload()
	t.Cleanup(xdg.Reload)
	repo, commit := clone(t)
	for _, key := range []string{"d", "y", "D", "t", "h", "E"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, set{hub: newHub(t, committed(commit)), repo: repo, now: clock()})
			s.press(key)
			before := s.depth()
			s.press("g" + key)
			if after := s.depth(); after != before {
				t.Errorf("%s: %d steps below the list, and then %d", key, before, after)
			}
		})
	}
}
