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
		s.click(10, 5) // the line of the third row
		if line := lineOf(t, s.screen(120, 40), "▸"); !strings.Contains(line, "c02") {
			t.Errorf("the cursor is on %q", line)
		}
		s.click(5, 2) // the name of the first column
		lineOf(t, s.screen(120, 40), "CLUSTER ↑")
		s.click(5, 2)
		screen := s.screen(120, 40)
		lineOf(t, screen, "CLUSTER ↓")
		if line := strings.Split(screen, "\n")[3]; !strings.Contains(line, "c08") {
			t.Errorf("the first row is %q", line)
		}
		for _, nowhere := range [][2]int{{10, 0}, {10, 30}, {10, 39}, {119, 2}} {
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
		s.click(10, 5)
		if line, want := lineOf(t, s.screen(120, 40), "▸  "), strings.Split(s.screen(120, 40), "\n")[5]; line != want {
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
