package scale

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp/kb"
)

const (
	pageOpens   = 5
	pageKeys    = 300
	pageViewers = 50
	pageStorm   = 20 * time.Second
	// viewersWatch is how long viewers look: the simulator's changes last for both that and the storm.
	viewersWatch = 15 * time.Second
)

// BenchmarkPage opens the hub's page in a real Chromium before the shipped hub with a simulated fleet of 10,000 clusters of 10 services
// each, and prints a line "bench NAME VALUE UNIT" for each figure, beside its target. It runs once, and takes some five minutes. What a
// page shows is painted by the browser's own account: a time ends with the frame in which it is drawn. Hub, simulator and browser share
// the processors, and a machine that has other work to do shows in every time.
func BenchmarkPage(b *testing.B) {
	if b.N > 1 {
		return
	}
	var viewers []string
	f := newSimulated(b, func(f *simulated) { viewers = f.viewers(pageViewers) })
	hub := newTap(b, strings.TrimPrefix(f.url, "https://"))

	var cold, kilobytes []float64
	for range pageOpens {
		chromium := f.browser(hub)
		t := chromium.tab()
		before := hub.bytes.Load()
		cold = append(cold, t.open("/fleet"))
		kilobytes = append(kilobytes, float64(hub.bytes.Load()-before)/1e3)
		t.steps("a new browser")
		chromium.end()
	}
	figure("page_first_rows_ms", middleOf(b, "first rows, a new browser, in milliseconds", cold), "ms", 500)
	figure("page_bytes_kb", middleOf(b, "until then, in kilobytes", kilobytes), "kB", 60)

	chromium := f.browser(hub)
	chromium.tab().open("/fleet")
	var warm, lcp, cls, blocked, long []float64
	for range pageOpens {
		t := chromium.tab(far)
		warm = append(warm, t.open("/fleet"))
		t.steps("far away")
		t.close()
		t = chromium.tab(far, slow)
		t.open("/fleet")
		<-time.After(time.Second) // what moves late counts
		lcp, cls = append(lcp, t.number("watched.lcp")), append(cls, t.number("watched.cls"))
		blocked = append(blocked, t.number("watched.blocked"))
		long = append(long, eval[[]float64](t, "watched.long")...)
		t.close()
	}
	figure("page_first_rows_40ms_rtt_ms", middleOf(b, "first rows, 40 ms and 10 Mbit/s away, in milliseconds", warm), "ms", 500)
	figure("page_slow_lcp_ms", middleOf(b, "largest paint, the same with a fourth of a processor, in milliseconds", lcp), "ms", 1200)
	slices.Sort(cls)
	figure("page_slow_cls", cls[len(cls)-1], "", 0.02)
	b.Logf("tasks of more than 50 ms, with a fourth of a processor: %.0f ms", long)
	figure("page_slow_blocked_ms", middleOf(b, "blocked, in milliseconds", blocked), "ms", 100)

	t := chromium.tab()
	t.open("/fleet")
	figure("page_filter_p99_ms", t.filters(), "ms", 150)
	figure("page_jump_ms", t.jumps(), "ms", 0)

	f.change()
	<-time.After(time.Second) // the first of them have come
	figure("page_key_paint_p99_ms", t.quantile("keys", t.cursor()), "ms", 33)
	t.number("watched.long.length = watched.frames = 0")
	<-time.After(pageStorm)
	b.Logf("tasks of more than 50 ms: %.0f ms; the document changed %.1f times a second",
		eval[[]float64](t, "watched.long"), t.number("watched.frames")/pageStorm.Seconds())
	figure("page_long_tasks", t.number("watched.long.length"), "", 0)
	must(t, heapprofiler.CollectGarbage, cdp.Empty{})
	figure("page_heap_mb", must(t, runtime.GetHeapUsage, cdp.Empty{}).UsedSize/1e6, "MB", 30)
	if reports := t.number("watched.reports"); reports > 0 {
		b.Errorf("%.0f violations of the page's policy", reports)
	}
	t.close()

	f.watched(b, viewers)
	f.changed()
	figure("page_tree_1500_ms", chromium.tab().tree(b), "ms", 300)
}

// filters types filters key by key, and takes them back, and gives what passes from a key until the rows that the hub picked are painted.
func (t *tab) filters() float64 {
	t.t.Helper()
	t.press("/")
	var took []float64
	worst, at := 0.0, ""
	for _, filter := range []string{"c-0012", "s-03 c-09", "stage:prod", "p1 health:healthy", "region:r3 c-004", "health:degraded"} {
		for _, key := range append(spelled(filter), slices.Repeat([]string{kb.Backspace}, len(filter))...) {
			t.press(key)
			if ms := t.number("watched.picked"); ms >= 0 { // else it is no filter yet
				took = append(took, ms)
				if ms > worst {
					worst, at = ms, eval[string](t, `document.querySelector("#filter").value`)
				}
			}
		}
	}
	t.press("\r") // back to the rows
	t.t.Logf("the longest was that for %q", at)
	return t.quantile("keys of filters", took)
}

// jumps scrolls to places in the list, and gives the median of what passes until their rows are painted.
func (t *tab) jumps() float64 {
	t.t.Helper()
	var took []float64
	for _, part := range []float64{0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6} {
		took = append(took, t.number(fmt.Sprintf(`(async () => {
			const table = document.querySelector(".table"), began = performance.now(), last = table.ariaRowCount;
			table.scrollTop = (table.scrollHeight - table.clientHeight) * %g;
			return await watched.when(() => {
				const rows = [...document.querySelectorAll(".rows .row")];
				return rows.some((row) => Math.abs(row.ariaRowIndex / last - %[1]g) < 0.001) && !rows.some((row) => row.classList.contains("absent"));
			}) - began;
		})()`, part)))
	}
	t.press(kb.End)
	t.number(`watched.when(() => document.querySelector(".row.at:not(.absent)")?.ariaRowIndex ===
		document.querySelector(".table").ariaRowCount)`)
	t.press(kb.Home)
	t.number(`watched.when(() => document.querySelector(".row.at:not(.absent)")?.ariaRowIndex === "2")`)
	t.quantile("jumps", took)
	return took[len(took)/2]
}

// cursor moves the cursor down, and up again a little.
func (t *tab) cursor() []float64 {
	t.t.Helper()
	t.number("watched.moves = 0")
	took := t.keys(slices.Repeat([]string{"j", "j", "k"}, pageKeys/3)...)
	if moves := t.number("watched.moves"); moves < 0.9*pageKeys {
		t.t.Errorf("%d keys moved the cursor %.0f times", pageKeys, moves)
	}
	return took
}
