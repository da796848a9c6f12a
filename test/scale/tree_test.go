package scale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/chromedp"

	v1 "github.com/pluralsh/plural/api/v1"
)

// treeTurns is how often the tree is opened.
const treeTurns = 10

// objects are those of a service with 40 workloads: 1,500 with their replica sets and pods, and with configuration beside them.
func objects() (all []v1.Object) {
	now := time.Now()
	add := func(kind, resource, group, name, owner string) string {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(all))
		all = append(all, v1.Object{
			UID: uid, Group: group, Version: "v1", Kind: kind, Resource: resource, Namespace: "s-00", Name: name, Owner: owner,
			Health: v1.ObjectHealthy, Created: &now, Applied: owner == "",
		})
		return uid
	}
	for i := range 40 {
		name := fmt.Sprintf("web-%02d", i)
		deployment := add("Deployment", "deployments", "apps", name, "")
		set := add("ReplicaSet", "replicasets", "apps", name+"-5d8f7c9b4", deployment)
		for pod := range 35 + max(0, 1-i/10) {
			add("Pod", "pods", "", fmt.Sprintf("%s-5d8f7c9b4-%05d", name, pod), set)
		}
	}
	for i := range 10 { // more would be folded into one line
		add("ConfigMap", "configmaps", "", fmt.Sprintf("settings-%02d", i), "")
	}
	return all
}

// stream is what the hub sends of objects to who begins to watch them.
func stream(all []v1.Object) []byte {
	var out bytes.Buffer
	const step = 100
	for at := 0; at < len(all); at += step {
		text, _ := json.Marshal(v1.ObjectChanges{Changed: all[at:min(at+step, len(all))]}) // of texts and times
		fmt.Fprintf(&out, "event: objects\ndata: %s\n\n", text)
	}
	out.WriteString("event: ready\ndata: {}\n\n")
	return out.Bytes()
}

// tree measures what passes from the key that opens a row's tree of 1,500 objects until the tree is painted. The simulated fleet has no
// clusters: the objects are given to the browser in the hub's stead, as the hub sends them.
func (t *tab) tree(b *testing.B) float64 {
	b.Helper()
	body := stream(objects())
	asked := chromedp.Events(t.ctx, fetch.RequestPaused)
	must(t, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*/v1/clusters/*/objects*"}}})
	go func() { // ends with the tab
		for paused, err := range asked {
			if err != nil {
				return
			}
			_, _ = chromedp.Call(t.ctx, fetch.FulfillRequest, fetch.FulfillRequestParams{
				RequestID: paused.RequestID, ResponseCode: http.StatusOK, Body: body,
				ResponseHeaders: []*fetch.HeaderEntry{{Name: "Content-Type", Value: "text/event-stream"}},
			}) // the page says what it lacks
		}
	}()
	t.open("/fleet")
	var took []float64
	for range treeTurns {
		t.number(`watched.when(() => document.querySelector(".row.at:not(.absent) a"))`)
		took = append(took, t.number(`(() => {
			const began = performance.now();
			window.dispatchEvent(new KeyboardEvent("keydown", { key: "t" }));
			const whole = () => document.querySelector("[role=treegrid]")?.getAttribute("aria-rowcount") === "1500" &&
				document.querySelector(".twig");
			return watched.when(whole).then((now) => now - began);
		})()`))
		t.number(`(history.back(), watched.when(() => document.querySelector(".row:not(.absent) a")))`)
	}
	t.quantile("trees of 1,500 objects", took)
	return took[len(took)/2]
}
