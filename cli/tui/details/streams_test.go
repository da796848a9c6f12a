package details

import (
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// streamed answers with texts, each sent off when it is asked for, until the client goes.
func streamed(first string, rest chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for text := first; ; {
			_, _ = fmt.Fprint(w, text)
			_ = http.NewResponseController(w).Flush()
			select {
			case text = <-rest:
				if text == "" {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

const grown = `event: objects
data: {"changed":[{"uid":"d","group":"apps","version":"v1","kind":"Deployment","resource":"deployments","namespace":"shop","name":"web","health":"degraded","message":"1 of 2 pods","applied":true,"created":"2026-03-04T11:00:00Z"},{"uid":"r","group":"apps","version":"v1","kind":"ReplicaSet","resource":"replicasets","namespace":"shop","name":"web-1","owner":"d","health":"progressing"},{"uid":"p0","version":"v1","kind":"Pod","resource":"pods","namespace":"shop","name":"web-1-a","owner":"r","health":"healthy"},{"uid":"p1","version":"v1","kind":"Pod","resource":"pods","namespace":"shop","name":"web-1-b","owner":"r","health":"degraded","message":"crash loop\u001b[1m"},{"uid":"s","version":"v1","kind":"Service","resource":"services","namespace":"shop","name":"web","health":"healthy","applied":true}]}

event: ready
data: {}

`

func TestObjectsGrowAsATree(t *testing.T) {
	more := make(chan string)
	w, _ := world(t, map[string]any{"/v1/clusters/edge-1/services/web/objects": streamed(grown, more)})
	s := open(t, w, "tree", onEdge)
	live := func(text string) func() bool {
		return func() bool { return strings.Contains(s.screen(120, 30), text) }
	}
	s.play(live(", live"))
	s.golden("tree-deployment")

	s.press("j j j j")
	if on := s.Pane.(pane.Pointing).Subjects()[0]; on.Kind != pane.KindObject || on.Object.Name != "web-1-b" || on.Cluster != "edge-1" || on.Service != "web" {
		t.Errorf("got %+v", on)
	}
	more <- "event: objects\ndata: {\"changed\":[{\"uid\":\"p\",\"version\":\"v1\",\"kind\":\"Pod\",\"namespace\":\"shop\",\"name\":\"a\",\"owner\":\"r\",\"health\":\"healthy\"}],\"deleted\":[\"p0\"]}\n\n"
	s.play(live("Pod/a"))
	if on := s.Pane.(pane.Pointing).Subjects()[0]; on.Object.Name != "web-1-b" {
		t.Errorf("the cursor went to %s", on.Object.Name)
	}
	s.press("left")
	s.press("left")
	if screen := s.screen(120, 30); strings.Contains(screen, "Pod/") || !strings.Contains(screen, "ReplicaSet/web-1") {
		t.Errorf("got %s", screen)
	}
	s.press("enter")
	s.says("Pod/a")
	s.press("j enter")
	s.play(func() bool { return len(s.asked) > 0 })
	if got := s.asked[0].(pane.Open); got.Pane != "describe" || got.About.Object.Name != "a" {
		t.Errorf("got %+v", got)
	}
}

func TestATreeWhoseStreamBreaksStaysAndSaysSo(t *testing.T) {
	more := make(chan string)
	w, h := world(t, map[string]any{"/v1/clusters/edge-1/services/web/objects": streamed(grown, more)})
	s := open(t, w, "tree", onEdge)
	s.play(func() bool { return strings.Contains(s.screen(120, 30), ", live") })
	h.set("/v1/clusters/edge-1/services/web/objects", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprint(w, `{"message":"cluster edge-1 is not connected"}`)
	}))
	more <- ""
	s.play(func() bool { return strings.Contains(s.screen(120, 30), "cluster edge-1 is not connected") })
	s.says("Pod/web-1-a", "broken 0s ago", "cluster edge-1, broken 0s ago: ")
	h.set("/v1/clusters/edge-1/services/web/objects", streamed("event: ready\ndata: {}\n\n", make(chan string)))
	s.play(func() bool { return strings.Contains(s.screen(120, 30), "nothing of it is there") })
}

func TestAServicesTreeLooksAtTheWorstClusterFirst(t *testing.T) {
	w, h := world(t, map[string]any{
		"/v1/services/web": v1.Service{Name: "web", Deployments: []v1.Deployment{
			{Cluster: "edge-1", Service: "web", Phase: v1.Healthy}, {Cluster: "edge-2", Service: "web", Phase: v1.Degraded},
		}},
		"/v1/clusters/edge-1/services/web/objects": streamed(strings.ReplaceAll(grown, "web-1-a", "other"), nil),
		"/v1/clusters/edge-2/services/web/objects": streamed(grown, nil),
	})
	s := open(t, w, "tree", theWeb)
	s.play(func() bool { return strings.Contains(s.screen(120, 30), "Pod/web-1-a") })
	for _, asked := range h.asked {
		if strings.Contains(asked, "edge-1") {
			t.Errorf("edge-1 was asked: %s", asked)
		}
	}
	s.press("G right")
	s.play(func() bool { return strings.Contains(s.screen(120, 30), "Pod/other") })
	if on := s.Pane.(pane.Pointing).Subjects()[0]; on.Kind != pane.KindDeployment || on.Cluster != "edge-1" {
		t.Errorf("got %+v", on)
	}
	s.press("left")
	if strings.Contains(s.screen(120, 30), "Pod/other") {
		t.Error("it is not folded")
	}
}

func TestOwnersInACircleAreDrawnOnce(t *testing.T) {
	r := &root{cluster: "c", feed: &feed[growth]{}, objects: map[string]v1.Object{}}
	for _, o := range []v1.Object{{UID: "a", Owner: "b"}, {UID: "b", Owner: "a"}, {UID: "c", Owner: "c"}, {UID: "d", Owner: "gone"}, {UID: "e", Owner: "a"}} {
		o.Kind, o.Name = "X", o.UID
		r.objects[o.UID] = o
	}
	seen := map[string]int{}
	for _, row := range r.rows(nil) {
		if row.object != nil {
			seen[row.object.UID]++
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestLogsAreFollowedAndFiltered(t *testing.T) {
	more := make(chan string)
	w, _ := world(t, map[string]any{
		"/v1/services/web": v1.Service{Name: "web", Deployments: []v1.Deployment{{Cluster: "edge-1", Service: "web"}}},
		"/v1/clusters/edge-1/services/web/objects": v1.List[v1.Object]{Items: []v1.Object{
			{UID: "p", Kind: "Pod", Namespace: "shop", Name: "web-0"}, {UID: "q", Kind: "Pod", Namespace: "shop", Name: "web-1"},
		}},
		"/v1/clusters/edge-1/pods/shop/web-0/logs": streamed("GET / 200\nGET /x 500\n\x1b]0;owned\x07\u202eevil\r\n", more),
	})
	s := open(t, w, "logs", onEdge)
	has := func(text string) func() bool {
		return func() bool { return strings.Contains(s.screen(120, 30), text) }
	}
	s.play(has("evil"))
	s.play(has("cannot be read"))
	s.says(`\x1b]0;owned\a\u202eevil`, "edge-1/web-1 -- cannot be read: there is no /v1/clusters/edge-1/pods/shop/web-1/logs", "following")
	f := s.Pane.(pane.Filtered)
	if err := f.SetFilter("get.*500"); err != nil {
		t.Fatal(err)
	}
	if got := s.screen(120, 30); !strings.Contains(got, "edge-1/web-0 GET /x 500") || strings.Contains(got, "200") || !strings.Contains(got, "1 of 4 lines") {
		t.Errorf("got %s", got)
	}
	if err := f.SetFilter("!get"); err != nil {
		t.Fatal(err)
	}
	if got := s.screen(120, 30); strings.Contains(got, "GET") {
		t.Errorf("got %s", got)
	}
	if err := f.SetFilter("("); err == nil || f.Filter() != "!get" {
		t.Errorf("got %v, %q", err, f.Filter())
	}
	more <- "new: fits\n"
	s.play(has("new: fits"))
}

func TestAPodsLogIsDrawn(t *testing.T) {
	w, _ := world(t, map[string]any{"/v1/clusters/edge-1/pods/shop/web-0/logs": streamed("GET / 200\n\x1b[31mGET /x\t500\n"+strings.Repeat("long ", 40)+"\n", nil)})
	s := open(t, w, "logs", pane.Subject{Kind: pane.KindObject, Cluster: "edge-1", Object: &v1.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"}})
	s.play(func() bool { return strings.Contains(s.screen(80, 10), "long") })
	s.press("w")
	s.golden("logs-pod")
}

func TestOfAPodWhatWasBeforeIsAskedFor(t *testing.T) {
	w, h := world(t, map[string]any{"/v1/clusters/edge-1/pods/shop/web-0/logs": streamed("hello\n", nil)})
	s := open(t, w, "logs", pane.Subject{Kind: pane.KindObject, Cluster: "edge-1", Object: &v1.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"}})
	asked := func(query string) func() bool {
		return func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return strings.HasSuffix(h.asked[len(h.asked)-1], query)
		}
	}
	s.play(func() bool { return strings.Contains(s.screen(80, 10), "hello") })
	s.press("t")
	s.play(asked("follow=true&tail=500&timestamps=true"))
	s.press("t p")
	s.play(asked("logs?previous=true&tail=500"))
	if s.Title() != "logs before Pod/web-0" {
		t.Errorf("got %q", s.Title())
	}
}

func TestARingLetsGoOfTheOldest(t *testing.T) {
	var r ring
	gone := 0
	for i := range maxLines + 10 {
		gone += r.add(entry{text: fmt.Sprint(i)})
	}
	if len(r.entries) != maxLines || len(r.shown) != maxLines || gone != 10 || r.dropped != 10 || r.shown[0][0].text != "10" {
		t.Errorf("%d entries, %d shown, %d gone, %d dropped", len(r.entries), len(r.shown), gone, r.dropped)
	}
	r.clear()
	for range 200 {
		r.add(entry{text: strings.Repeat("x", 64<<10)})
	}
	if r.bytes > maxBytes || len(r.entries) >= 200 || len(r.entries) != len(r.fits) {
		t.Errorf("%d bytes in %d entries", r.bytes, len(r.entries))
	}
}

func TestMemoryOfLogsIsBounded(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	r := &ring{}
	for i := range 4000 {
		r.add(entry{from: "edge-1/web-0", text: strings.Repeat(string(rune('a'+i%26)), 32<<10)})
	}
	if used := int64(heap()) - int64(before); used > maxBytes*3/2 {
		t.Errorf("%d bytes are in use after 128 MB of lines", used)
	}
	runtime.KeepAlive(r)
}

func TestAWindowThatDoesNotFollowStaysWhereItIs(t *testing.T) {
	w, _ := world(t, nil)
	p, err := newLogs(w, theWeb, "")
	if err != nil {
		t.Fatal(err)
	}
	r := p.(*reader)
	fill := func(n int) {
		for range n {
			gone := r.add(entry{text: fmt.Sprintf("line %d", r.dropped+len(r.entries))})
			r.lines, r.top = r.shown, max(0, r.top-gone)
		}
	}
	fill(maxLines)
	r.Draw(80, 10)
	r.Update(keyOf("k"))
	before := r.Draw(80, 10)
	fill(100)
	if diff := cmp.Diff(before, r.Draw(80, 10)); diff != "" {
		t.Error(diff)
	}
	r.Update(keyOf("G"))
	if got := r.Draw(80, 10); got[9] != "line 5099" {
		t.Errorf("got %q", got)
	}
}

func TestALongLineIsWrappedOrShifted(t *testing.T) {
	look := paint.NewLook(paint.Options{})
	s := sheet{lines: []line{{{paint.Name, "name  "}, {paint.Plain, "one two three four five 世界世界世界 end"}}, say(paint.Plain, "next")}}
	if got := s.draw(look, 16, 9); !regexp.MustCompile(`^name  one two.*…$`).MatchString(got[0]) || got[1] != "next" {
		t.Errorf("got %q", got)
	}
	s.left = 10
	if got := s.draw(look, 40, 9); got[0] != "two three four five 世界世界世界 end" {
		t.Errorf("got %q", got)
	}
	s.left, s.wrap = 0, true
	want := []string{"name  one two", "      three four", "      five 世界", "      世界世界", "      end", "next"}
	if diff := cmp.Diff(want, s.draw(look, 16, 9)); diff != "" {
		t.Error(diff)
	}
	for _, width := range []int{0, 1, 2, 3} { // narrower than some characters
		for _, l := range s.draw(look, width, 50) {
			if paint.Width(l) > width {
				t.Errorf("%q takes %d of %d cells", l, paint.Width(l), width)
			}
		}
	}
}

func TestScrollingGoesOverWrappedRows(t *testing.T) {
	look := paint.NewLook(paint.Options{})
	s := sheet{wrap: true}
	for i := range 5 {
		s.lines = append(s.lines, say(paint.Plain, fmt.Sprintf("%d%s", i, strings.Repeat("x", 24))))
	}
	first := s.draw(look, 10, 4)
	var seen []string
	for range 20 {
		s.scroll(1)
		seen = append(seen, s.draw(look, 10, 4)[0])
	}
	if want := "4" + strings.Repeat("x", 9); seen[10] != seen[19] || s.draw(look, 10, 4)[1] != want {
		t.Errorf("got %q, then %q", seen, s.draw(look, 10, 4))
	}
	s.scroll(-20)
	if diff := cmp.Diff(first, s.draw(look, 10, 4)); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkAScreenOfHostileLines(b *testing.B) {
	look := paint.NewLook(paint.Options{Color: true})
	s := sheet{wrap: true, end: true}
	for range maxLines {
		s.lines = append(s.lines, say(paint.Plain, strings.Repeat("\x1b[31m世\u0301 \u202e", maxPiece/14)))
	}
	for b.Loop() {
		s.draw(look, 200, 60)
		s.scroll(-1)
	}
}

func FuzzSheet(f *testing.F) {
	f.Add("a b\x1b[31m\n\u202e世界\t\x00", 7, 3, true, 2)
	f.Fuzz(func(t *testing.T, text string, width, height int, wrap bool, scroll int) {
		width, height, scroll = width&127, height&31, scroll&63
		s := sheet{wrap: wrap, left: scroll}
		for part := range strings.SplitSeq(text, "\n") {
			half := len(part) / 2
			s.lines = append(s.lines, line{{paint.Plain, part[:half]}, {paint.Bold, part[half:]}})
		}
		look := paint.NewLook(paint.Options{})
		s.draw(look, width, height)
		s.scroll(scroll)
		out := s.draw(look, width, height)
		if len(out) > height {
			t.Errorf("%d lines of %d", len(out), height)
		}
		for _, l := range out {
			if paint.Width(l) > width || strings.ContainsAny(l, "\x1b\n\x00\u202e") {
				t.Errorf("%q in %d cells", l, width)
			}
		}
	})
}
