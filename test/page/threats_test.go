package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// odd is what people write who mean harm: markup, marks that turn text round, and what colours a terminal.
const odd = "<img src=x onerror=window.owned=1> \u202egnp.exe \x1b[31mred"

// harmless fails the test where what others wrote is more than text.
func (t *tab) harmless(where string) {
	t.Helper()
	if eval[bool](t, `window.owned !== undefined || document.querySelector("img, iframe, object, embed, [onerror], [style*=url]") !== null`) {
		t.Errorf("%s: text has become markup", where)
	}
	if eval[bool](t, `/[\u0000-\u0008\u001b\u200b-\u200f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent)`) {
		t.Errorf("%s: what is not seen is shown", where)
	}
}

// T1: names, messages, annotations and subjects are text nodes, of a bounded length.
func textOfOthers(w *world) {
	w.plural("service", "suspend", "still", "-C", w.repo)
	defer w.plural("service", "resume", "still", "-C", w.repo)
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"text": odd + strings.Repeat(" and more of it", 60_000)}})
	if err != nil {
		w.Fatal(err)
	}
	notes := w.kube("edge-1").Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("still")
	if _, err := notes.Patch(w.Context(), "notes", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
	id := w.commit(odd, map[string]string{"apps/still/README.md": "Notes.\n"})
	w.served(id)
	tab := w.tab(operator)
	tab.load("/history/" + id)
	tab.sees("<img src=x onerror=window.owned=1>")
	tab.harmless("a commit")
	tab.load("/history")
	tab.sees("<img src=x onerror=window.owned=1>")
	tab.harmless("the history")
	tab.load("/deployments/edge-1/still?tab=diff")
	tab.sees("data.text", "img src=x onerror=window.owned=1", "as git has it")
	tab.harmless("a diff")
	if long := eval[int](tab, "document.body.textContent.length"); long > 50_000 {
		tab.Errorf("%d characters of one value are in the document", long)
	}
	tab.load("/deployments/edge-2/broken")
	tab.sees("ImagePullBackOff")
	tab.harmless("a deployment")
	tab.load("/fleet?filter=" + `%3Cimg%20src=x%20onerror=window.owned=1%3E`)
	tab.settled()
	tab.harmless("a filter in the address")
	tab.load("/clusters/%3Cimg%20src=x%20onerror=window.owned=1%3E")
	tab.sees("It is not there")
	tab.harmless("a name in the address")
}

// answers has the page get another answer than the hub's from one path on.
func (t *tab) answers(path, change string) {
	t.Helper()
	eval[bool](t, `(() => {
		const real = window.fetch;
		window.fetch = async (to, init) => {
			const answer = await real(to, init);
			if (new URL(to, location.href).pathname !== `+strconv.Quote(path)+` || !answer.ok) return answer;
			return new Response((`+change+`)(await answer.text()), {status: 200, headers: answer.headers});
		};
		return true;
	})()`)
}

// T2: what others write as an address is a link for http and https alone, and says where it leads.
func linksOfOthers(w *world) {
	tab := w.tab(ada)
	for address, leads := range map[string]bool{
		"javascript:window.owned=1": false, "JaVaScRiPt:window.owned=1": false, "data:text/html,<script>1</script>": false, "vbscript:x": false,
		"file:///etc/passwd": false, "https://user:secret@example.com/": false, "https://git.example.com/fleet": true,
	} {
		tab.load("/fleet")
		tab.settled()
		tab.answers("/v1/sources/_", `(text) => JSON.stringify({...JSON.parse(text), url: `+strconv.Quote(address)+`})`)
		tab.goTo("/sources/_")
		tab.sees("Fetched", "Address")
		link := eval[string](tab, `(() => {
			const link = [...document.querySelectorAll("#content a")].find((one) => new URL(one.href).origin !== location.origin);
			return link ? link.rel + " " + link.textContent : "";
		})()`)
		if leads != (link != "") || leads && (!strings.Contains(link, "noopener") || !strings.Contains(link, "git.example.com")) {
			tab.Errorf("%s: %q", address, link)
		}
	}
}

// stranger is a page of a sibling: the same site by its cookies, and another origin. Its policy may make its origin none at all.
func (w *world) stranger(policy, html string) string {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		rw.Header().Set("Content-Security-Policy", policy)
		_, _ = rw.Write([]byte("<!doctype html><title>stranger</title>" + html)) // a browser that went away has seen enough
	}))
	w.Cleanup(server.Close)
	return server.URL
}

// T3, T4, T6: a page of another origin can neither act nor look as whoever is logged in, nor put a cookie in place of the session's.
func pagesOfOthers(w *world) {
	tab := w.tab(ada)
	w.browser.expects(true)
	defer w.browser.expects(false)
	post := fmt.Sprintf(`<form id="form" method="post" enctype="text/plain" action="%s/v1/sources/_/sync"><input name="{}"></form><script>form.submit()</script>`, w.hub)
	for name, policy := range map[string]string{"a sibling": "", "an origin that is none": "sandbox allow-scripts allow-forms"} {
		tab.load(w.stranger(policy, post))
		tab.until("the hub has answered", "location.origin === "+strconv.Quote(w.hub))
		tab.until("the answer is there", `document.readyState === "complete"`)
		if status := eval[int](tab, `performance.getEntriesByType("navigation")[0].responseStatus`); status != http.StatusForbidden && status != http.StatusUnauthorized {
			tab.Errorf("%s acts: %d", name, status)
		}
	}
	tab.load(w.stranger("", fmt.Sprintf(`<script>
		document.cookie = "__Host-plural=stolen; path=/";
		document.cookie = "__Host-plural=stolen; path=/; secure; domain=127.0.0.1";
	</script><iframe src="%s/fleet"></iframe>`, w.hub)))
	tab.world.until("the browser refuses to frame the page", func() bool {
		return slices.ContainsFunc(w.browser.expected(), func(one string) bool { return strings.Contains(one, "frame-ancestors") })
	})
	tab.load("/me")
	tab.sees("My account", ada)
}

// T5: what a cluster serves is not reached by the session of the page.
func clustersWithoutCookie(w *world) {
	tab := w.tab(ada)
	tab.load("/fleet")
	got := eval[string](tab, "location.origin")
	status, err := chromedp.Run(tab.ctx, chromedp.Evaluate[int](`fetch("/k8s/edge-1/version").then((answer) => answer.status)`, await))
	if err != nil || status != http.StatusUnauthorized {
		tab.Errorf("%s: a cluster's API takes the cookie: %d, %v", got, status, err)
	}
	answer, text := w.request(http.MethodGet, "/k8s/edge-1/version", ada, nil)
	if answer.StatusCode != http.StatusOK || !strings.Contains(answer.Header.Get("Content-Security-Policy"), "sandbox") ||
		answer.Header.Get("X-Content-Type-Options") != "nosniff" {
		tab.Errorf("%s %v %s", answer.Status, answer.Header, text)
	}
}

// T7: no credential is in what the hub writes down. That no address has one, and no Referer is sent, is checked of every request.
func nothingLeaks(w *world) {
	tab := w.tab(ada)
	tab.load("/fleet")
	cookies, err := chromedp.Call(tab.ctx, network.GetCookies, network.GetCookiesParams{})
	call(tab, err)
	if len(cookies.Cookies) == 0 || eval[string](tab, "document.cookie") != "" {
		tab.Fatal("a script can read the session, or there is none")
	}
	logs, err := filepath.Glob(filepath.Join(w.home, "state", "plural", "local", "*", "logs", "hub.log"))
	if err != nil || len(logs) == 0 {
		tab.Fatal(logs, err)
	}
	text, err := os.ReadFile(logs[0])
	call(tab, err)
	for _, secret := range []string{cookies.Cookies[0].Value, w.token(ada), w.token(operator)} {
		if strings.Contains(string(text), secret) {
			tab.Error("the hub writes a credential down")
		}
	}
}

// T8: logging in leads to paths of the hub's own.
func noWayOut(w *world) {
	tab := w.tab(ada)
	for _, to := range []string{"https://evil.example.com/", "//evil.example.com", `/\evil.example.com`, "javascript:alert(1)"} {
		tab.load("/auth/?return=" + to)
		if led := eval[bool](tab, `[...document.querySelectorAll("a, form, meta[http-equiv]")].some((one) => /evil|javascript/.test(one.outerHTML))`); led {
			tab.Errorf("%s leads out", to)
		}
	}
}

// T9: a tab whose hub has another page since says so, and what it has loaded of the old one stays.
func staleTab(w *world) {
	tab := w.tab(ada)
	tab.load("/fleet")
	tab.rows(everything...)
	tab.answers("/", `(text) => text.replace(/main-[A-Z0-9]+/, "main-NEWER")`)
	w.restartHub(func() { tab.sees("The hub has been away") })
	tab.sees("The hub has a newer page")
	tab.rows(everything...)
	if answer, text := w.request(http.MethodGet, "/assets/main-OLDER.js", "", nil); answer.StatusCode != http.StatusNotFound || !strings.Contains(text, "load the page again") {
		tab.Errorf("%s %s", answer.Status, text)
	}
	tab.click(".banner button", "Load it")
	tab.until("the page is loaded anew", `!document.body.innerText.includes("newer page") && document.querySelector(".rows .row")`)
}

// restartHub has the hub away for as long as something is looked at.
func (w *world) restartHub(meanwhile func()) {
	w.Helper()
	w.plural("local", "stop", "hub", "-C", w.repo)
	meanwhile()
	w.plural("local", "start", "hub", "-C", w.repo)
	w.until("the hub is back", func() bool { return w.status(ada, "/v1/summary") == http.StatusOK })
}

// T10: once the fleet ends somebody's logins, the page says so within seconds, and keeps what it shows with its age.
func endedInGit(w *world) {
	tab := w.tab(bob)
	tab.load("/fleet")
	tab.rows(everything...)
	tab.sees("live")
	w.plural("auth", "end", bob, "-C", w.repo)
	tab.sees("Logged out. What is shown is")
	tab.rows(everything...)
	tab.axe("logged out")
	tab.seen("logged-out")
}

// T12: those who look do not all come back at once.
func comesBackByChance(w *world) {
	tab := w.tab(ada)
	tab.load("/fleet")
	tab.sees("live")
	eval[bool](tab, `(() => {
		const real = window.setTimeout;
		window.delays = [];
		window.setTimeout = (run, after, ...more) => {
			if (after > 250 && after !== Math.floor(after)) window.delays.push(after);
			return real(run, after, ...more);
		};
		return true;
	})()`)
	w.restartHub(func() { tab.until("it was asked three times", "window.delays.length >= 3") })
	tab.sees("live")
	tab.until("no banner is left", `!document.querySelector(".banner")`)
	if same := eval[bool](tab, "new Set(window.delays).size < window.delays.length || window.delays.some((one) => one > 23000)"); same {
		tab.Error(eval[string](tab, "window.delays.join()"))
	}
}

// T13: a filter that would keep an engine of regular expressions busy for ever is answered, or refused, at once.
func filterBombs(w *world) {
	tab := w.tab(ada)
	for _, bomb := range []string{"message~(a+)+$", "(a|a)*b", "message~" + strings.Repeat("(x+x+)+", 40) + "y", strings.Repeat("*a", 300)} {
		tab.load("/fleet")
		tab.settled()
		began := time.Now()
		tab.click("#filter", "")
		eval[bool](tab, `(() => {
			const field = document.querySelector("#filter");
			field.value = `+strconv.Quote(bomb)+`;
			field.dispatchEvent(new InputEvent("input", {bubbles: true}));
			return true;
		})()`)
		tab.settled()
		tab.until("it is answered", `document.querySelector(".refused, .empty, .rows .row")`)
		if took := time.Since(began); took > 5*time.Second {
			tab.Errorf("%.30s: %v", bomb, took)
		}
	}
}

// T14: who may not read the record of who did what learns nothing of it.
func auditWithoutRole(w *world) {
	tab := w.tab(ada)
	tab.load("/audit")
	tab.sees("You may not see this")
	if rows := eval[int](tab, `document.querySelectorAll("#content td").length`); rows > 0 {
		tab.Errorf("%d cells", rows)
	}
}

// T15: there is no shell in the page, and nothing that opens one.
func noTerminal(w *world) {
	tab := w.tab(operator)
	tab.load("/deployments/edge-1/podinfo?tab=objects")
	tab.sees("Pod")
	found, err := chromedp.Run(tab.ctx, chromedp.Evaluate[bool](`fetch(document.querySelector("script[src]").src).then((answer) => answer.text()).then((text) =>
		/WebSocket|\/exec\b|xterm/.test(text))`, await))
	if err != nil || found {
		tab.Errorf("the page's script opens shells: %v", err)
	}
}
