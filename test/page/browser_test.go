package page

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pluralsh/plural/test/support/needs"
)

// browser is one Chromium, and what it says that is wrong with any page.
type browser struct {
	ctx    context.Context            //nolint:containedctx // the browser is the context
	people map[string]context.Context // each has cookies of their own

	mu       sync.Mutex
	wrong    []string
	strange  bool     // a page of somebody else is looked at
	refused  []string // what was wrong meanwhile
	requests int
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := needs.Program(t, "chromium", "Debian's package chromium")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1280, 800), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return &browser{ctx: ctx, people: map[string]context.Context{}}
}

// hears keeps what a tab says that must not be: policies that are broken, requests to elsewhere, exceptions. Listeners must be fast.
func (b *browser) hears(hub string, said any) {
	wrong := ""
	switch event := said.(type) {
	case *network.EventRequestWillBeSent:
		at, err := url.Parse(event.Request.URL)
		switch {
		case err != nil || at.Scheme+"://"+at.Host != hub && !slices.Contains([]string{"data", "blob", "about", "devtools"}, at.Scheme):
			wrong = "a request to " + event.Request.URL
		case strings.HasPrefix(fmt.Sprint(event.Request.Headers["Referer"]), "http"):
			wrong = "a Referer: " + fmt.Sprint(event.Request.Headers["Referer"])
		}
		b.mu.Lock()
		b.requests++
		b.mu.Unlock()
	case *audits.EventIssueAdded:
		if details := event.Issue.Details; details.ContentSecurityPolicyIssueDetails != nil {
			wrong = fmt.Sprintf("a report: %+v", *details.ContentSecurityPolicyIssueDetails)
		}
	case *log.EventEntryAdded:
		if event.Entry.Source == "security" || strings.Contains(event.Entry.Text, "Content Security Policy") {
			wrong = event.Entry.Text
		}
	case *runtime.EventExceptionThrown:
		wrong = event.ExceptionDetails.Text
		if exception := event.ExceptionDetails.Exception; exception != nil {
			wrong += " " + exception.Description
		}
	}
	if wrong != "" {
		b.mu.Lock()
		if b.strange {
			b.refused = append(b.refused, wrong)
		} else {
			b.wrong = append(b.wrong, wrong)
		}
		b.mu.Unlock()
	}
}

// expects says whether a page of somebody else is looked at, which may do what the hub's may not.
func (b *browser) expects(strange bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strange = strange
}

// expected is what such a page has tried.
func (b *browser) expected() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.refused)
}

// heard is what was wrong since it was asked last.
func (b *browser) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrong := b.wrong
	b.wrong = nil
	return wrong
}

// tab is one page that a person looks at.
type tab struct {
	*world
	person string
	ctx    context.Context //nolint:containedctx // the tab is the context
	cancel context.CancelFunc
}

// tab opens an empty page in the browser of a person, who is logged in.
func (w *world) tab(person string) *tab {
	w.Helper()
	parent, known := w.browser.people[person]
	if !known {
		var options []chromedp.ContextOption
		if person != "" {
			options = append(options, chromedp.WithNewBrowserContext())
		}
		parent, _ = chromedp.NewContext(w.browser.ctx, options...) // ends with the browser
		w.browser.people[person] = parent
		if person != "" {
			first := w.tabIn(parent, person)
			first.logIn()
		}
	}
	ctx, cancel := chromedp.NewContext(parent)
	w.Cleanup(cancel)
	own := w.tabIn(ctx, person)
	own.cancel = cancel
	return own
}

func (w *world) tabIn(ctx context.Context, person string) *tab {
	w.Helper()
	t := &tab{world: w, person: person, ctx: ctx}
	b, hub := w.browser, w.hub
	err := chromedp.Listen(ctx, func(event any) { b.hears(hub, event) })
	call(t, err)
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	call(t, err)
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	call(t, err)
	_, err = chromedp.Call(ctx, audits.Enable, cdp.Empty{})
	call(t, err)
	_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	call(t, err)
	return t
}

func call(t *tab, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logIn logs in with the ticket that the terminal makes.
func (t *tab) logIn() {
	t.Helper()
	t.load(t.ticketed(t.person))
	t.until("it can be pressed", `document.querySelector("#login")?.disabled === false`)
	t.world.until("a window that has just got the focus takes no login yet", func() bool {
		t.click("#login", "")
		return eval[bool](t, `document.querySelector("#login")?.hidden !== false`)
	})
	t.until("it is logged in", `document.querySelector("header .corner a[href='/me']")?.textContent === `+strconv.Quote(t.person))
}

// load opens an address, as from the address bar.
func (t *tab) load(address string) {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		address = t.hub + address
	}
	if _, err := chromedp.Call(t.ctx, page.Navigate, page.NavigateParams{URL: address}); err != nil {
		t.Fatal(err)
	}
	t.until("it is loaded", `document.readyState === "complete" && location.href !== "about:blank"`)
}

// eval is what an expression of the page gives.
func eval[T any](t *tab, expression string) T {
	t.Helper()
	value, err := chromedp.Run(t.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%v\n%s", err, expression)
	}
	return value
}

// until waits for an expression to be true in the page.
func (t *tab) until(what, expression string) {
	t.Helper()
	var err error
	if !within(patience, func() (yes bool) {
		yes, err = chromedp.Run(t.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && yes
	}) {
		t.Fatalf("waited in vain until %s: %s (%v)\n%s", what, expression, err, t.text())
	}
}

// text is what the page shows.
func (t *tab) text() string {
	text, err := chromedp.Run(t.ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text[:min(len(text), 4000)]
}

// sees waits until the page shows all of these.
func (t *tab) sees(texts ...string) {
	t.Helper()
	for _, text := range texts {
		t.until("it shows "+text, "document.body.innerText.includes("+strconv.Quote(text)+")")
	}
}

// at waits until the address is this path, with its query.
func (t *tab) at(path string) {
	t.Helper()
	t.until("it is at "+path, "location.pathname + decodeURIComponent(location.search) === "+strconv.Quote(path))
}

// keys presses keys, such as "j", "enter" and "ctrl+k".
func (t *tab) keys(names ...string) {
	t.Helper()
	special := map[string]string{
		"enter": kb.Enter, "esc": kb.Escape, "tab": kb.Tab, "space": " ", "down": kb.ArrowDown, "up": kb.ArrowUp, "left": kb.ArrowLeft, "right": kb.ArrowRight,
		"home": kb.Home, "end": kb.End,
	}
	for _, name := range names {
		modifiers := chromedp.Modifier(0)
		key, held := strings.CutPrefix(name, "ctrl+")
		if held {
			modifiers = chromedp.ModifierCtrl
		}
		if named := special[key]; named != "" {
			key = named
		}
		for _, r := range key {
			t.stroke(kb.Encode(r), modifiers)
		}
	}
}

// stroke presses one key. What it types is a part of the stroke, so that a page that takes the stroke for a command gets no character.
func (t *tab) stroke(events []*input.DispatchKeyEventParams, modifiers chromedp.Modifier) {
	t.Helper()
	for _, event := range events {
		event.Modifiers |= int64(modifiers)
		if event.Type == kb.KeyChar {
			continue
		}
		if event.Type == kb.KeyDown && modifiers == 0 && len(events) == 3 {
			event.Text, event.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
		}
		_, err := chromedp.Call(t.ctx, input.DispatchKeyEvent, *event)
		call(t, err)
	}
}

// types types a text into what has the focus.
func (t *tab) types(text string) {
	t.Helper()
	if err := chromedp.Do(t.ctx, chromedp.KeyEvent(text)); err != nil {
		t.Fatal(err)
	}
}

// click clicks in the middle of the first that is shown of what a selector picks and has the text, or begins with it.
func (t *tab) click(selector, text string) { t.clicks(selector, text, 1) }

func (t *tab) clicks(selector, text string, times int) {
	t.Helper()
	find := fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll(%s)].filter((one) => one.offsetParent !== null || one.getClientRects().length > 0);
		const found = all.find((one) => one.textContent.trim() === %[2]s) ?? all.find((one) => one.textContent.trim().startsWith(%[2]s));
		if (!found) return [];
		found.scrollIntoView({block: "nearest", inline: "nearest"});
		const box = found.getBoundingClientRect();
		const at = [box.x + Math.min(box.width / 2, 60), box.y + box.height / 2];
		const there = document.elementFromPoint(...at);
		return found.contains(there) || there?.contains(found) ? at : [];
	})()`, strconv.Quote(selector), strconv.Quote(text))
	var at []float64
	if !within(patience, func() bool {
		found, err := chromedp.Run(t.ctx, chromedp.Evaluate[[]float64](find))
		at = found
		return err == nil && len(found) == 2
	}) {
		t.Fatalf("nothing to click: %s with %q\n%s", selector, text, t.text())
	}
	if err := chromedp.Do(t.ctx, chromedp.MouseClickXY(at[0], at[1], chromedp.ClickCount(times))); err != nil {
		t.Fatal(err)
	}
}

// seen keeps a picture of what is shown, where PLURAL_TEST_PICTURES names a folder for it.
func (t *tab) seen(name string) {
	t.Helper()
	dir := os.Getenv("PLURAL_TEST_PICTURES")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(t.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}
