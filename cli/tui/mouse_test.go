package tui

import (
	"strings"
	"testing"
	"testing/synctest"

	tea "charm.land/bubbletea/v2"
)

func (s *stage) click(x, y int) {
	s.program.Send(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft})
	synctest.Wait()
}

func TestTheMouseSelectsSortsAndScrolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, reaching(9)), now: clock(), line: "clusters"})
		s.resize(120, 40)
		s.click(10, 8) // the line of the third row, below the menu of keys
		if line := lineOf(t, s.screen(120, 40), "▸"); !strings.Contains(line, "c02") {
			t.Errorf("the cursor is on %q", line)
		}
		s.click(5, 5) // the name of the first column
		lineOf(t, s.screen(120, 40), "CLUSTER ↑")
		s.click(5, 5)
		screen := s.screen(120, 40)
		lineOf(t, screen, "CLUSTER ↓")
		if line := strings.Split(screen, "\n")[6]; !strings.Contains(line, "c08") {
			t.Errorf("the first row is %q", line)
		}
		for _, nowhere := range [][2]int{{10, 0}, {10, 30}, {10, 39}, {119, 5}} {
			s.click(nowhere[0], nowhere[1])
		}
		if line := lineOf(t, s.screen(120, 40), "▸"); !strings.Contains(line, "c02") {
			t.Errorf("the cursor went to %q", line)
		}
		s.program.Send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
		synctest.Wait()
		if line := lineOf(t, s.screen(120, 40), "▸"); strings.Contains(line, "c02") {
			t.Errorf("the wheel left the cursor on %q", line)
		}
	})
}

func TestTheMouseSelectsInATree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, fleet()), now: clock(), line: "tree edge-us-05/payments"})
		s.resize(120, 40)
		s.click(10, 8)
		if line, want := lineOf(t, s.screen(120, 40), "▸  "), strings.Split(s.screen(120, 40), "\n")[8]; line != want {
			t.Errorf("the cursor is on %q, and %q was clicked", line, want)
		}
	})
}

func TestTheMouseIsLeftToTheTerminalWhereAPersonWantsThat(t *testing.T) {
	for _, off := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, set{hub: newHub(t, crashing()), now: clock(), noMouse: off})
			view, _ := s.drawn.get()
			if got := view.MouseMode == tea.MouseModeNone; got != off {
				t.Errorf("noMouse %v: mode %v", off, view.MouseMode)
			}
		})
	}
}

func TestTheMenuOfKeysIsThereWhereThereIsRoomAndGoesByAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, crashing()), now: clock()})
		for size, want := range map[[2]int]bool{{80, 24}: false, {99, 40}: false, {120, 23}: false, {100, 24}: true, {200, 60}: true} {
			if got := strings.Contains(s.screen(size[0], size[1]), "enter  objects"); got != want {
				t.Errorf("at %v: %v", size, got)
			}
		}
		s.press("<ctrl+e>")
		if screen := s.screen(120, 40); strings.Contains(screen, "enter  objects") {
			t.Errorf("it stays:\n%s", screen)
		}
		s.press("<ctrl+e>")
		s.shows("enter  objects", "ctrl+e menu, or not")
	})
}
