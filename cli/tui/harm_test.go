package tui

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/adrg/xdg"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// elsewhere has tests keep what they keep in a folder of their own.
func elsewhere(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	xdg.Reload()
	t.Cleanup(xdg.Reload)
}

// harmless says whether what is on the screen does no harm at a size, whatever that is.
func (s *stage) harmless(width, height int) bool {
	s.t.Helper()
	s.resize(width, height)
	view, look := s.drawn.get()
	wrong := harm(view.Content, width, height, look)
	for _, w := range wrong {
		s.t.Errorf("at %dx%d: %s", width, height, w)
	}
	return len(wrong) == 0
}

func TestKeysMashedAtAnySizeHarmNothing(t *testing.T) {
	elsewhere(t)
	repo, commit := clone(t)
	pool := append(strings.Split("jkgGfoOdyDlthEupaAzZSRU*cC@-[]pwnNr1234567890/:xX", ""),
		"<enter>", "<enter>", "<esc>", "<esc>", "<tab>", "<space>", "<ctrl+d>", "<ctrl+u>", "<left>", "<right>", "<up>", "<down>", "<end>",
		"<home>", "<backspace>", "<delete>", "/health:degraded<enter>", "/-l env=prod<enter>", "/"+hostile, ":clusters<enter>",
		":events<enter>", ":tree svc/payments<enter>", ":logs edge-us-05/payments<enter>", ":history<enter>", ":yaml payments<enter>", "?s<down><up><esc>")
	pool = without(pool, "e", "X", "K", "q") // those leave the console, or hand the terminal over
	sizes := [][2]int{{0, 0}, {1, 1}, {2, 3}, {7, 5}, {20, 4}, {80, 24}, {81, 1}, {500, 200}}
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 8))
				h := newHub(t, committed(commit))
				s := open(t, set{hub: h, repo: repo, now: clock(), look: paint.Options{Color: seed%2 == 0, ASCII: seed == 1}})
				var pressed []string
				for range 200 {
					k := pool[random.IntN(len(pool))]
					pressed = append(pressed, k)
					for _, msg := range keys(k) {
						s.program.Send(msg)
						synctest.Wait()
					}
					if random.IntN(8) == 0 {
						s.program.Send(tea.PasteMsg{Content: hostile})
						s.program.Send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
						vanish(h, random.IntN(12))
						s.pass(300 * time.Millisecond)
					}
					size := sizes[random.IntN(len(sizes))]
					if !s.harmless(size[0], size[1]) {
						t.Fatalf("after %q", pressed)
					}
				}
				select {
				case <-s.over:
					t.Errorf("it ended after %q", pressed)
				default:
				}
			})
		})
	}
}

func without(all []string, some ...string) []string {
	var out []string
	for _, one := range all {
		if !strings.Contains(strings.Join(some, ""), one) {
			out = append(out, one)
		}
	}
	return out
}

// vanish has a cluster and its rows be gone.
func vanish(h *hub, i int) {
	page := fleet()["/v1/clusters"].(*v1.List[v1.Cluster])
	name := page.Items[i].Name
	var gone []string
	for _, d := range fleet()["/v1/deployments"].(*v1.List[v1.Deployment]).Items {
		if d.Cluster == name {
			gone = append(gone, d.Cluster+"/"+d.Service)
		}
	}
	h.tell(v1.ChangedDeployments, v1.Changes[v1.Deployment]{Gone: gone})
	h.tell(v1.ChangedClusters, v1.Changes[v1.Cluster]{Gone: []string{name}})
}

func TestRowsThatVanishTakeTheirMarksAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, fleet())
		s := open(t, set{hub: h, now: clock(), line: "clusters"})
		s.press("*")
		s.shows("12 marked")
		for i := range 11 {
			vanish(h, i)
		}
		s.pass(time.Second)
		s.shows("1 marked", "▸✱ edge-very")
		vanish(h, 11)
		s.pass(time.Second)
		s.shows("there are no clusters yet")
		s.press("u d<enter>S<delete>")
		s.harmless(80, 24)
	})
}

func TestAHubThatComesBackIsFollowedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, fleet())
		s := open(t, set{hub: h, now: clock()})
		h.leave()
		s.pass(time.Minute)
		s.shows("hub away", "72 · by phase")
		h.comeBack()
		s.pass(20 * time.Second) // the longest pause between two attempts, and less than the silence after which a stream is given up
		s.shows("live", "72 · by phase")
	})
}

func TestAThousandChangesASecondAreShownAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, fleet())
		s := open(t, set{hub: h, now: clock()})
		for beat := range 10 {
			for i := range 100 {
				d := payments()
				d.Held, d.Message = nil, fmt.Sprintf("change %d", beat*100+i)
				h.tell(v1.ChangedDeployments, v1.Changes[v1.Deployment]{Items: []v1.Deployment{d}})
			}
			s.press("jk")
			s.harmless(80, 24)
		}
		s.pass(time.Second)
		s.shows("change 999", "72 · by phase")
	})
}

func TestAHubThatTalksNonsenseIsSurvived(t *testing.T) {
	elsewhere(t)
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, strings.Repeat("[", 64<<10)); err != nil {
				return
			}
		}
	}
	for name, answer := range map[string]any{
		"errors":         refusal(500, "panic: "+hostile, hostile),
		"no JSON":        "<html>" + hostile,
		"wrong JSON":     `{"items": 7, "total": "many"}`,
		"null":           "null",
		"rows of nobody": `{"items":[{},{},{"name":"\u001b[2J"},null],"total":-3,"next":"","since":"\u001b"}`,
		"no end":         endless,
		"silence":        func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a broken pipe":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHub(t, map[string]any{})
				good := fleet()
				for path, its := range good {
					h.set(path, answer)
					if name == "no end" && path != "/v1/deployments" { // one is enough to wade through
						h.set(path, its)
					}
				}
				h.set("/v1/stream", answer)
				s := open(t, set{hub: h, now: clock()})
				for _, keys := range []string{"", "j<enter><esc>", ":clusters<enter>d<esc>", ":logs cl/edge-us-05<enter>", ":tree svc/payments<enter>", ":history<enter>d"} {
					s.press(keys)
					s.harmless(80, 24)
				}
				for path, answer := range good { // it comes to its senses
					h.set(path, answer)
				}
				h.forget("/v1/stream")
				s.pass(time.Minute)
				s.press(":fleet<enter>")
				if name != "null" && name != "rows of nobody" { // which were lists
					s.shows("live", "edge-ap-06")
				}
				s.harmless(80, 24)
			})
		})
	}
}

func TestAStreamOfNonsenseIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, fleet())
		s := open(t, set{hub: h, now: clock()})
		for _, text := range []string{
			"event: deployments\ndata: {\"items\": 7}\n\n", "event: \x1b[2J\ndata: [[[[\n\n", "data\n\n", ":\n\n", "event: summary\ndata: null\n\n",
			"event: reset\ndata: {}\n\n", "event: deployments\ndata: {\"items\":[{}],\"gone\":[\"\",\"/\",\"a/b/c\"]}\n\n", "id: \x00\n\n",
		} {
			h.send(text)
			s.pass(time.Second)
			s.harmless(80, 24)
		}
		s.pass(time.Minute)
		s.shows("live", "edge-ap-06")
	})
}

func TestATerminalThatSaysWhatItIsLateIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, fleet()), now: clock(), look: paint.Options{Color: true, Dark: true}})
		before := s.screen(80, 24)
		s.program.Send(tea.BackgroundColorMsg{Color: white{}})
		s.pass(time.Second)
		if s.screen(80, 24) == before {
			t.Error("a light background changed nothing")
		}
		s.program.Send(pane.Told{Text: hostile, Bad: true})
		s.pass(time.Second)
		s.harmless(80, 24)
		s.harmless(3, 2)
	})
}

// white is a background.
type white struct{}

// RGBA makes it a color.Color.
func (white) RGBA() (r, g, b, a uint32) { return 0xffff, 0xffff, 0xffff, 0xffff }
