package scale

import (
	"context"
	_ "embed"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pluralsh/plural/test/support/needs"
)

// pagePatience is how long a page may take to show something.
const pagePatience = 30 * time.Second

// watcher is what notes in a page when something is painted.
//
//go:embed testdata/watcher.js
var watcher string

// browser is a real Chromium, with nothing in its profile.
type browser struct {
	*simulated
	hub *tap
	ctx context.Context //nolint:containedctx // the browser is the context
	end func()
}

// tab is a page of it.
type tab struct {
	*browser
	ctx   context.Context //nolint:containedctx // the tab is the context
	close func()
}

// browser starts one that is to ask the hub by way of hub.
func (f *simulated) browser(hub *tap) *browser {
	f.t.Helper()
	program := needs.Program(f.t, "chromium", "Debian's package chromium")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(f.t.TempDir()),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true), chromedp.Flag("ignore-certificate-errors", true),
		chromedp.Flag("enable-precise-memory-info", true), chromedp.WindowSize(1600, 1000))
	allocated, free := chromedp.NewExecAllocator(f.t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	b := &browser{f, hub, ctx, func() {
		cancel()
		free()
	}}
	f.t.Cleanup(b.end)
	f.must(chromedp.Do(ctx)) // it runs
	return b
}

// tab opens a page in a context of its own: what another one has kept is not there. Before it is shown anything, prepare is called.
func (b *browser) tab(prepare ...func(*tab)) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	limited, stop := context.WithTimeout(ctx, fleetPatience)
	t := &tab{b, limited, func() {
		stop()
		cancel()
	}}
	b.t.Cleanup(t.close)
	must(t, network.Enable, network.EnableParams{})
	must(t, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + b.token}})
	must(t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watcher})
	for _, each := range prepare {
		each(t)
	}
	return t
}

// far has the hub answer after 40 ms, at 10 Mbit/s.
func far(t *tab) {
	away := &network.Conditions{Latency: 40, DownloadThroughput: 10e6 / 8, UploadThroughput: 10e6 / 8}
	must(t, network.EmulateNetworkConditionsByRule,
		network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{away}})
}

// slow has the page's processor be four times as slow.
func slow(t *tab) {
	must(t, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: 4})
}

// must sends a command of the browser's.
func must[P, R any](t *tab, command cdp.Command[P, R], params P) R {
	t.t.Helper()
	answer, err := chromedp.Call(t.ctx, command, params)
	t.must(err)
	return answer
}

// open loads a page, and gives the milliseconds from the beginning until the first row is painted.
func (t *tab) open(path string) float64 {
	t.t.Helper()
	t.must(chromedp.Do(t.ctx, chromedp.Navigate("https://"+t.hub.address()+path)))
	return t.number("watched.rows")
}

// steps logs when the page asked for what, and had it.
func (t *tab) steps(what string) {
	t.t.Helper()
	t.t.Logf("%s, begun, first byte, last byte: %s", what, eval[string](t, "watched.steps()"))
}

// eval is what an expression, or the promise that it gives, comes to.
func eval[T any](t *tab, expression string) T {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, pagePatience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		text, _ := chromedp.Run(t.ctx, chromedp.Evaluate[string]("location.href + ': ' + document.body.innerText.slice(0, 1000)"))
		t.t.Fatalf("%s: %v at %s", expression, err, text)
	}
	return value
}

func (t *tab) number(expression string) float64 { return eval[float64](t, expression) }

// press presses a key as a keyboard does: a page that takes a key keeps it from what has the focus.
func (t *tab) press(key string) {
	t.t.Helper()
	steps := kb.Encode([]rune(key)[0])
	down, up := *steps[0], *steps[len(steps)-1]
	if len(steps) == 3 { // with the character that it types
		down.Text, down.UnmodifiedText = steps[1].Text, steps[1].UnmodifiedText
	} else if down.Type == input.DispatchKeyEventTypeKeyDown {
		down.Type = input.DispatchKeyEventTypeRawKeyDown
	}
	must(t, input.DispatchKeyEvent, down)
	must(t, input.DispatchKeyEvent, up)
}

// keys presses keys one after another, each when what the one before has done is painted, and gives what each took in milliseconds.
func (t *tab) keys(keys ...string) []float64 {
	t.t.Helper()
	var took []float64
	for i, key := range keys {
		t.press(key)
		took = append(took, t.number("watched.key"))
		<-time.After(time.Duration(i%7) * 3 * time.Millisecond) // hands do not keep step with frames
	}
	return took
}

// quantile logs how long something took, and gives the 99th percentile.
func (t *tab) quantile(what string, took []float64) float64 {
	t.t.Helper()
	slices.Sort(took)
	if len(took) == 0 {
		t.t.Fatalf("%s: nothing was measured", what)
	}
	p99 := took[len(took)*99/100]
	t.t.Logf("%d %s: median %.1f ms, p99 %.1f ms, worst %.1f ms", len(took), what, took[len(took)/2], p99, took[len(took)-1])
	return p99
}

// middleOf is the median.
func middleOf(b *testing.B, what string, all []float64) float64 {
	b.Helper()
	b.Logf("%s: %.0f", what, all)
	slices.Sort(all)
	return all[len(all)/2]
}

// spelled is a text, key by key.
func spelled(text string) []string { return strings.Split(text, "") }
