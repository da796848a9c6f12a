package replicas

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/needs"
)

// onlooker is somebody who looks at the page, in a browser of their own.
type onlooker struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // the browser is the context
}

// onlookers are that many people who look at the fleet by way of the balancer, as the holder of the hub's token.
func (w *world) onlookers(t *testing.T, n int) (all []*onlooker) {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(needs.Program(t, "chromium", "Debian's package chromium")),
		chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.IgnoreCertErrors,
		chromedp.Flag("host-resolver-rules", "MAP hub.test:443 "+w.balancer.listener.Addr().String()))
	browser, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	browser, cancel = chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	for range n {
		tab, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
		t.Cleanup(cancel)
		o := &onlooker{t, tab}
		if _, err := chromedp.Call(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
			t.Fatal(err)
		}
		ticket := w.ticket(t)
		if err := chromedp.Do(tab, chromedp.Navigate(hubURL+ticket.Path+"#"+ticket.Ticket), chromedp.WaitEnabled(`#login`)); err != nil {
			t.Fatal(err)
		}
		until(t, time.Minute, "somebody is logged in", func() bool {
			o.is(`document.querySelector("#login")?.click()`)
			return o.is(`document.querySelector(".rows .row")`)
		})
		all = append(all, o)
	}
	return all
}

// ticket is one with which a browser logs in.
func (w *world) ticket(t *testing.T) (ticket v1.PageTicket) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(w.dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.balancer.url()+v1.TicketPath, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&ticket); err != nil || ticket.Ticket == "" {
		t.Fatal(answer.Status, err)
	}
	return ticket
}

func (o *onlooker) is(expression string) bool {
	yes, err := chromedp.Run(o.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
	return err == nil && yes
}

func (o *onlooker) shows(text string) bool {
	return o.is(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// TestNobodyReloadsThePageWhenAReplicaIsKilled has three people look at the fleet while replicas are killed, one after another: each sees
// what is served since, and whoever sees something old sees how old it is.
func TestNobodyReloadsThePageWhenAReplicaIsKilled(t *testing.T) {
	t.Parallel()
	needs.Page(t)
	w := newWorld(t, here())
	first := w.change("first")
	until(t, time.Minute, "three replicas serve the first commit", func() bool { return w.settled(first) })
	all := w.onlookers(t, 3)
	for _, o := range all {
		until(t, time.Minute, "the commit is shown", func() bool { return o.shows(first[:8]) && o.shows("live") })
		o.is(`(window.never = 1, window.wrong = [], setInterval(() => {
			const live = document.querySelector(".live")?.textContent, banner = document.querySelector(".banner")?.textContent ?? "";
			if (document.querySelector(".rows .row") === null) window.wrong.push("no rows");
			if (live !== "live" && !/\d+[smh]/.test(banner)) window.wrong.push(live + ": " + banner);
		}, 20))`)
	}
	for i, r := range w.replicas {
		r.kill()
		commit := w.change(fmt.Sprint("without ", r.name))
		killed := time.Now()
		for _, o := range all {
			until(t, time.Minute, "the next commit is shown", func() bool { return o.shows(commit[:8]) && o.shows("live") })
		}
		t.Logf("%d: all three saw the next commit %v after %s was killed", i, time.Since(killed).Round(time.Millisecond), r.name)
		r.start()
		until(t, time.Minute, r.name+" is back", func() bool { return w.settled(commit) })
	}
	for i, o := range all {
		wrong, err := chromedp.Run(o.ctx, chromedp.Evaluate[[]string]("window.never === 1 ? window.wrong : ['it was loaded anew']"))
		if err != nil || len(wrong) > 0 {
			t.Errorf("somebody (%d) saw %d times what is wrong: %.3v, %v", i, len(wrong), wrong, err)
		}
	}
}
