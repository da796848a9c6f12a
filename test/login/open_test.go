package login

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/creack/pty"
)

// opened is the address that plural hub open has a browser open, and what it prints on a terminal.
func (p *person) opened() (address, printed string) {
	p.Helper()
	fifo, script := filepath.Join(p.home, "page"), filepath.Join(p.home, "browser-of-pages")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil && !os.IsExist(err) {
		p.Fatal(err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\nprintf %s \"$1\" > "+fifo+"\n"), 0o700); err != nil {
		p.Fatal(err)
	}
	cmd := p.command(program(p, "plural"), "hub", "open")
	cmd.Env = append(cmd.Env, "BROWSER="+script, "TERM=dumb")
	terminal, err := pty.Start(cmd)
	if err != nil {
		p.Fatal(err)
	}
	defer terminal.Close()
	read := make(chan string, 1)
	go func() {
		file, err := os.Open(fifo) // waits for the browser's script
		if err != nil {
			read <- err.Error()
			return
		}
		defer file.Close()
		text, _ := io.ReadAll(file)
		read <- string(text)
	}()
	said, _ := io.ReadAll(terminal) // a terminal that is closed is an error on Linux
	if err := cmd.Wait(); err != nil {
		p.Fatalf("%v\n%s", err, said)
	}
	select {
	case address = <-read:
	case <-time.After(patience):
		p.Fatal("no page is opened")
	}
	return address, string(said)
}

// byTicket opens the page from the terminal, as somebody whom a provider knows and as the operator.
func byTicket(t *testing.T, w *world) {
	ada, operator := w.person("ada-page"), w.person("operator")
	operator.env = append(operator.env, "PLURAL_TOKEN_FILE="+w.path("hub/token"))
	if said, _, err := ada.login(w.corp.Browser(t, "ada-l"), "--provider", "corp"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	browser := w.chromium()
	show := func(address, question string) {
		t.Helper()
		browser.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address), chromedp.WaitVisible(`#login`))
		asked, err := chromedp.Run(browser.tab, chromedp.Evaluate[string]("document.body.innerText + document.location"))
		if err != nil || !strings.Contains(asked, question) || strings.Contains(asked, "#") {
			t.Fatalf("%q, %v", asked, err)
		}
	}
	press := func(then string) { // a window that has just got the focus takes no click yet
		browser.do(chromedp.Click(`#head`), chromedp.WaitEnabled(`#login`), chromedp.Click(`#login`), chromedp.WaitVisible(then))
	}
	account := func() { // what the hub says of whoever is logged in, beside the page
		browser.do(chromedp.WaitVisible(`header a[href="/me"]`), chromedp.Navigate(w.hub+"/auth/?return=/me"), chromedp.WaitVisible(`form[action="/auth/logout"]`))
	}
	facts := func(want ...string) {
		t.Helper()
		shown, err := chromedp.Run(browser.tab, chromedp.Evaluate[string]("document.querySelector('dl').innerText + document.cookie"))
		for _, text := range want {
			if err != nil || !strings.Contains(shown, text) {
				t.Errorf("%q, %v", shown, err)
			}
		}
	}
	address, printed := ada.opened()
	at, err := url.Parse(address)
	if err != nil || at.Path != "/auth/open" || at.RawQuery != "" || at.Fragment == "" || strings.Contains(printed, at.Fragment) || strings.TrimSpace(printed) != w.hub {
		t.Fatalf("%q opens %q, %v", printed, address, err)
	}
	show(address, "Log in as ada (ada-l)?")
	browser.seen("ticket")
	press(`header a[href="/me"]`)
	account()
	facts("ada", "provider/corp", "platform")
	browser.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address), chromedp.WaitVisible(`#login`))
	press(`#on`)
	if said, err := chromedp.Run(browser.tab, chromedp.Evaluate[string]("document.body.innerText")); err != nil || !strings.Contains(said, "used before") {
		t.Errorf("a ticket counts twice: %q, %v", said, err)
	}
	address, _ = operator.opened()
	show(address, "This browser is logged in as ada now, which ends.")
	browser.seen("ticket-of-another")
	press(`header a[href="/me"]`)
	account()
	facts("operator", "token")
	// It holds the session by which the page was opened, and nothing that a script could read.
	browser.do(chromedp.Navigate(w.hub+"/auth/open"), chromedp.WaitVisible(`#on`))
	if said, err := chromedp.Run(browser.tab, chromedp.Evaluate[string]("document.body.innerText")); err != nil || !strings.Contains(said, "nothing to log in with") {
		t.Errorf("without a ticket: %q, %v", said, err)
	}
	records := operator.plural("audit", "list", "--verb", "login", "--person", "operator", "-o", "json")
	if !strings.Contains(records, "/auth/open") || !strings.Contains(records, "token hub:") || strings.Contains(records, at.Fragment) {
		t.Errorf("%s", records)
	}
}
