package page

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe is what the accessibility checker finds wrong with what a tab shows. In the dark only colours are other ones.
func (t *tab) axe(what string, rules ...string) {
	t.Helper()
	if !eval[bool](t, "window.axe !== undefined") {
		source, err := os.ReadFile("../../web/node_modules/axe-core/axe.min.js")
		if err != nil {
			t.Fatal(err)
		}
		// As the protocol runs it, the page's policy does not count, and the page cannot load it itself.
		if err := chromedp.Do(t.ctx, chromedp.Steps(discard(chromedp.Evaluate[any](string(source)+";0")))); err != nil {
			t.Fatal(err)
		}
	}
	only := ""
	if len(rules) > 0 {
		only = `runOnly: ["` + strings.Join(rules, `","`) + `"],`
	}
	found, err := chromedp.Run(t.ctx, chromedp.Evaluate[[]string](`axe.run(document, {`+only+` resultTypes: ["violations"]}).then((result) =>
		result.violations.flatMap((one) => one.nodes.map((node) => one.id + " (" + one.help + "): " + node.html.slice(0, 200) + " " +
			[...node.any, ...node.all, ...node.none].map((check) => check.message).join("; ").slice(0, 300))))`,
		await))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found {
		t.Errorf("%s: %s", what, one)
	}
}

// await has an expression be what its promise comes to.
func await(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }

func discard[T any](action chromedp.Action[T]) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := action(ctx, target)
		return chromedp.Void{}, err
	}
}

// settled waits until a page has what it asked for.
func (t *tab) settled() {
	t.Helper()
	t.until("the page has its answers", `document.querySelector("main > *") && !document.querySelector("main [aria-busy=true]")`)
}

// pages are the addresses of all kinds of pages, each with a word that it shows once it is there.
func (w *world) pages() []string {
	return []string{
		"/fleet", "/clusters", "/services", "/sources", "/packages", "/events", "/history", "/audit", "/hub", "/me",
		"/clusters/edge-1", "/services/podinfo", "/services/podinfo?tab=history", "/sources/_", "/packages/none", "/history/" + w.git("rev-parse", "HEAD"),
		"/deployments/edge-1/podinfo", "/deployments/edge-1/podinfo?tab=objects", "/deployments/edge-1/podinfo?tab=diff",
		"/deployments/edge-1/podinfo?tab=logs", "/deployments/edge-1/podinfo?tab=events", "/deployments/edge-1/podinfo?tab=history",
		"/deployments/edge-2/broken", "/deployments/edge-2/broken?tab=objects", "/services/broken", "/nothing/like/it",
	}
}

// dark are the rules whose outcome depends on colours.
var dark = []string{"color-contrast", "link-in-text-block"}

// goTo is a link that is clicked: the page is not loaded anew.
func (t *tab) goTo(path string) {
	t.Helper()
	eval[bool](t, `(() => {
		const link = document.createElement("a");
		link.href = `+strconv.Quote(path)+`;
		document.body.append(link);
		link.click();
		link.remove();
		return true;
	})()`)
}

func (t *tab) theme(name string) {
	t.Helper()
	eval[string](t, fmt.Sprintf(`document.documentElement.dataset.theme = %q`, name))
}

// accessible has axe look at each page, as it is for somebody who may see it, in both themes.
func accessible(w *world) {
	tab := w.tab(ada)
	tab.load("/fleet")
	look := func(state string) {
		for _, path := range w.pages() {
			tab.goTo(path)
			tab.settled()
			tab.theme("light")
			tab.axe(state + " " + path)
			tab.theme("dark")
			tab.axe(state+" in the dark "+path, dark...)
		}
	}
	look("well")
	w.restartHub(func() {
		tab.sees("The hub has been away")
		for _, path := range []string{"/fleet", "/deployments/edge-1/podinfo", "/hub"} {
			tab.goTo(path)
			tab.axe("away " + path)
		}
	})
	tab.goTo("/services/podinfo")
	tab.settled()
	for _, key := range []string{"?", "ctrl+k", "@", "S"} {
		tab.keys(key)
		tab.until("something is in front", `document.querySelector("dialog h2")`)
		tab.axe("in front " + key)
		tab.keys("esc")
		tab.until("nothing is in front", `!document.querySelector("dialog")`)
	}
}

// accessibleWithout has axe look at each page of somebody who may see nothing, and at lists with nothing in them.
func accessibleWithout(w *world) {
	tab := w.tab(eve)
	tab.load("/fleet")
	for _, path := range w.pages() {
		tab.goTo(path)
		tab.settled()
		tab.theme("light")
		tab.axe("403 " + path)
		tab.theme("dark")
		tab.axe("403 in the dark "+path, dark...)
	}
	tab = w.tab(ada)
	tab.load("/fleet")
	for _, path := range []string{"/fleet", "/clusters", "/services", "/sources", "/packages", "/events", "/history"} {
		tab.goTo(path + "?filter=nothing-is-called-so")
		tab.settled()
		tab.axe("empty " + path)
	}
}
