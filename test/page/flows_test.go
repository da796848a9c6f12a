package page

import (
	"fmt"
	"strings"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var workloads = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// rows waits until a list shows these names, each beginning a row, in this order.
func (t *tab) rows(names ...string) {
	t.Helper()
	t.until("the rows are "+strings.Join(names, ", "), fmt.Sprintf(
		`[...document.querySelectorAll(".rows .row")].map((row) => [...row.children].slice(0, 2).map((cell) => cell.textContent.trim()).join(" ")).join(", ") === %q`,
		strings.Join(names, ", ")))
}

// drift has somebody change a service by hand that its agent leaves alone.
func (w *world) drift(replicas int) {
	w.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	if _, err := w.kube("edge-1").Resource(workloads).Namespace("still").Patch(w.Context(), "still", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

// everything is all rows of the fleet, the worst first.
var everything = []string{
	"broken edge-2", "podinfo edge-1", "still edge-1", "podinfo edge-2", "podinfo mgmt",
}

func byMouse(w *world) {
	tab := w.tab(operator)
	tab.load("/")
	tab.sees("3 clusters", "5 deployments", "live")
	tab.rows(everything...)
	tab.seen("fleet")
	tab.click(".views a", "1 what is wrong")
	tab.at("/fleet?filter=-health:healthy")
	tab.rows("broken edge-2")
	tab.click("a", "5 deployments")
	tab.at("/fleet")
	tab.click("button", "Faults")
	tab.at("/fleet?filter=!health:healthy")
	tab.rows("broken edge-2")
	tab.click("button", "Faults")
	tab.click(".head button", "Cluster")
	tab.click(".head button", "Cluster ↑")
	tab.at("/fleet?sort=-cluster")
	tab.until("the first is on the last cluster", `document.querySelector(".rows .row").textContent.includes("mgmt")`)
	tab.click("#filter", "")
	tab.types("service:podinfo cluster:edge*")
	tab.rows("podinfo edge-2", "podinfo edge-1")
	if deep := w.tab(operator); true {
		deep.load(eval[string](tab, "location.href"))
		deep.rows("podinfo edge-2", "podinfo edge-1")
		deep.cancel()
	}
	tab.click(".rows a", "podinfo")
	tab.at("/deployments/edge-2/podinfo")
	tab.sees("Objects ready", "the same")
	call(tab, chromedp.Do(tab.ctx, chromedp.NavigateBack()))
	tab.rows("podinfo edge-2", "podinfo edge-1")
	call(tab, chromedp.Do(tab.ctx, chromedp.NavigateForward()))
	tab.at("/deployments/edge-2/podinfo")

	tab.click("h1 a", "edge-2")
	tab.sees("Connections of its agents", "Kubernetes", "v1.")
	tab.click("td a", "podinfo")
	tab.at("/deployments/edge-2/podinfo")
	tab.click("h1 a", "podinfo")
	tab.sees("3 of 3 clusters", "apps/podinfo")
	tab.click(".tabs a", "History")
	tab.sees("Register the local clusters")
	tab.click("header nav a", "Services")
	tab.sees("3/3", "apps/still")
	tab.click("header nav a", "Clusters")
	tab.sees("edge-1", "edge-2", "mgmt", "env=local")
	tab.click("header nav a", "Sources")
	tab.click(".rows a", "installation repo")
	tab.sees("Fetched", "origin.git")
	tab.click("header nav a", "Packages")
	tab.sees("No package is installed")
	tab.click("header nav a", "Events")
	tab.sees("Served", "Register the local clusters")
	tab.click("header nav a", "Audit")
	tab.sees("operator", "login")
	tab.click("header nav a", "Hub")
	tab.sees("Bundles kept", "Version")
	tab.click(".corner a", "operator")
	tab.sees("My account", "Log out everywhere")
	tab.click("header nav a", "History")
	tab.click("#content td a", "")
	tab.sees("Take it back", "views.yaml")

	tab.click(".corner button", "Commands")
	tab.click("[role=option]", "Go to sources")
	tab.at("/sources")
	for _, theme := range []string{"light", "dark", "auto"} {
		tab.click(".corner button[aria-label^=Colours]", "")
		tab.until("the theme is "+theme, fmt.Sprintf(`document.documentElement.dataset.theme === %q`, theme))
	}
}

func objectsOfAService(w *world) {
	w.plural("service", "suspend", "still", "-C", w.repo)
	defer func() {
		w.drift(2)
		w.plural("service", "resume", "still", "-C", w.repo)
	}()
	tab := w.tab(operator)
	tab.load("/deployments/edge-1/still")
	tab.sees("its agent leaves it as it is")
	tab.click(".tabs a", "Diff")
	tab.sees("nothing would change")
	tab.click(".tabs a", "Objects")
	tab.until("it shows two pods", `[...document.querySelectorAll(".twig")].filter((row) => row.textContent.startsWith("▸Pod") || row.textContent.startsWith("Pod")).length === 2`)
	w.drift(4)
	tab.until("it shows four pods", `[...document.querySelectorAll(".twig")].filter((row) => row.textContent.startsWith("Pod")).length === 4`)
	tab.seen("tree")
	tab.click("[aria-label='Filter the tree']", "")
	tab.types("replicaset")
	tab.until("it shows a line to the ReplicaSet alone", `document.querySelectorAll(".twig").length === 2`)
	tab.click(".tabs a", "Diff")
	tab.sees("1 object would change", "spec.replicas")
	tab.until("the field has both values", `(() => {
		const cells = [...document.querySelectorAll(".fields td")].map((cell) => cell.textContent);
		return cells[0] === "spec.replicas" && cells[1] === "4" && cells[2] === "2";
	})()`)
	tab.seen("diff")
	tab.click(".tabs a", "Logs")
	tab.until("it shows lines of all four pods", `new Set([...document.querySelectorAll(".line .pod")].map((pod) => pod.textContent)).size >= 2`)
	lines := func() int {
		return eval[int](tab, `parseInt(document.querySelector(".tools .dim").textContent.replace(",", ""))`)
	}
	before := lines()
	tab.world.until("lines come", func() bool { return lines() > before })
	tab.seen("logs")
	tab.click("button", "Follow")
	tab.until("it holds still", `document.querySelector("button[aria-pressed=false]")`)
	tab.click("#search", "")
	tab.types("nothing says so")
	tab.until("no line fits", `document.querySelector(".tools .dim").textContent.startsWith("0 lines")`)
	tab.click(".tabs a", "Events")
	tab.sees("ScalingReplicaSet")
	tab.click(".tabs a", "History")
	tab.sees("Suspend")
}

func byKeys(w *world) {
	tab := w.tab(operator)
	tab.load("/fleet")
	tab.rows(everything...)
	cursor := func(name string) {
		tab.Helper()
		tab.until("the cursor is at "+name, fmt.Sprintf(`[...document.querySelector(".row.at").children].slice(0, 2).map((cell) => cell.textContent).join(" ") === %q`, name))
	}
	cursor("broken edge-2")
	tab.keys("j")
	cursor("podinfo edge-1")
	tab.keys("down", "k")
	cursor("podinfo edge-1")
	tab.keys("G")
	cursor("podinfo mgmt")
	tab.keys("home", "space", "space")
	tab.until("two are marked", `document.querySelectorAll(".row.marked").length === 2 && document.querySelector("#figures").textContent.includes("2 marked rows")`)
	tab.keys("*")
	tab.until("none is marked", `document.querySelectorAll(".row.marked").length === 0`)
	tab.keys("o", "O")
	tab.until("it is sorted otherwise", `new URLSearchParams(location.search).has("sort")`)
	tab.keys("f")
	tab.rows("broken edge-2")
	tab.keys("f", "1")
	tab.at("/fleet?filter=-health:healthy")
	tab.keys("2")
	tab.rows("broken edge-2", "podinfo edge-1", "still edge-1", "podinfo edge-2")
	tab.keys("/", "ctrl+a")
	tab.types("podinfo cluster:mgmt")
	tab.keys("enter")
	tab.rows("podinfo mgmt")
	tab.until("the list has the focus", `document.activeElement.matches(".table")`)
	tab.keys("enter")
	tab.at("/deployments/mgmt/podinfo")
	for _, one := range []struct{ key, tab, word string }{
		{"t", "?tab=objects", "Pod"},
		{"D", "?tab=diff", "nothing would change"},
		{"l", "?tab=logs", "lines"},
		{"E", "?tab=events", "Created pod"},
		{"h", "?tab=history", "served"},
		{"d", "", "Objects ready"},
	} {
		tab.keys(one.key)
		tab.at("/deployments/mgmt/podinfo" + one.tab)
		tab.sees(one.word)
	}
	tab.keys("t")
	tab.sees("ReplicaSet")
	tab.until("the first twig is open", `document.querySelector(".twig.at[aria-expanded=true]")`)
	tab.keys("left")
	tab.until("it is folded", `document.querySelector(".twig.at[aria-expanded=false]")`)
	tab.keys("right", "G")
	tab.until("the last is under the cursor", `[...document.querySelectorAll(".twig")].at(-1).matches(".at")`)

	tab.keys("[")
	tab.at("/deployments/mgmt/podinfo")
	tab.keys("]")
	tab.at("/deployments/mgmt/podinfo?tab=objects")
	tab.keys("esc")
	tab.keys("?")
	tab.sees("Keys", "Half a page down")
	tab.types("theme nobody")
	tab.keys("esc")
	tab.until("nothing is in front", `!document.querySelector("dialog")`)
	tab.keys("ctrl+k")
	tab.types("edge-2")
	tab.sees("cluster edge-2")
	tab.keys("enter")
	tab.at("/clusters/edge-2")
	tab.keys(":")
	tab.types("go to events")
	tab.keys("enter")
	tab.at("/events")
	tab.keys("-")
	tab.at("/clusters/edge-2")
	tab.sees("Sync now", "Connections of its agents") // what a key does is there when the cluster is
	tab.keys("S")
	tab.sees("plural cluster sync edge-2")
	tab.until("the button has the focus", `document.activeElement.matches("dialog button.main")`)
	tab.keys("enter")
	tab.sees("1 asked")
	tab.keys("esc", "@")
	tab.sees("Done here", "plural cluster sync edge-2")
	tab.keys("esc", "T")
	tab.until("the theme is light", `document.documentElement.dataset.theme === "light"`)
	tab.keys("T", "T")
}

// narrow has each page fit into a window as small as a telephone's: what is wide scrolls by itself.
func narrow(w *world) {
	tab := w.tab(ada)
	call(tab, chromedp.Do(tab.ctx, chromedp.EmulateViewport(320, 640)))
	tab.load("/fleet")
	for _, path := range w.pages() {
		tab.goTo(path)
		tab.settled()
		if wide := eval[int](tab, "document.documentElement.scrollWidth"); wide > 320 {
			tab.Errorf("%s is %d wide", path, wide)
		}
		tab.seen("narrow" + strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(path))
	}
}
