package login

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/needs"
)

const (
	loginCookie   = "__Host-plural-login"
	sessionCookie = "__Host-plural"
)

// ask sends one request as a browser without a mind of its own: it follows nothing, and sends just these cookies.
func (w *world) ask(method, address string, header http.Header, cookies ...*http.Cookie) (*http.Response, string) {
	w.Helper()
	if strings.HasPrefix(address, "/") {
		address = w.hub + address
	}
	request, err := http.NewRequestWithContext(w.Context(), method, address, http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	for _, cookie := range cookies {
		request.AddCookie(cookie)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: patience}
	answer, err := client.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		w.Fatal(err)
	}
	return answer, string(text)
}

func cookieOf(answer *http.Response, name string) *http.Cookie {
	for _, cookie := range answer.Cookies() {
		if cookie.Name == name && cookie.MaxAge >= 0 {
			return cookie
		}
	}
	return nil
}

// begin begins to log in to the page, and has ada log in at the provider. It returns what the hub set, and where her browser is sent.
func (w *world) begin(provider, query string) (cookie *http.Cookie, callback *url.URL) {
	w.Helper()
	answer, text := w.ask(http.MethodGet, "/auth/login?provider="+provider+query, nil)
	if cookie = cookieOf(answer, loginCookie); answer.StatusCode != http.StatusFound || cookie == nil {
		w.Fatalf("%s\n%s", answer.Status, text)
	}
	at := w.corp
	if provider == "partner" {
		at = w.partner
	}
	landed, refused := at.Browser(w, "ada-l").Open(answer.Header.Get("Location"))
	if refused == nil { // it has not the cookie
		w.Fatalf("the hub lets a browser in that did not begin the login, at %s", landed)
	}
	var err error
	if callback, err = url.Parse(landed); err != nil || callback.Path != "/auth/callback" || callback.Query().Get("code") == "" {
		w.Fatalf("%s, %v", landed, err)
	}
	return cookie, callback
}

func (w *world) callback(at *url.URL, cookies ...*http.Cookie) (session *http.Cookie, text string) {
	w.Helper()
	answer, text := w.ask(http.MethodGet, at.String(), nil, cookies...)
	if session = cookieOf(answer, sessionCookie); (session != nil) != (answer.StatusCode == http.StatusOK) {
		w.Fatalf("%s, %v\n%s", answer.Status, session, text)
	}
	return session, text
}

func onPage(t *testing.T, w *world) {
	for _, provider := range []string{"corp", "partner"} {
		cookie, callback := w.begin(provider, "&return=/services%3Fq=1")
		if !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode {
			t.Errorf("the cookie of a login: %v", cookie)
		}
		session, text := w.callback(callback, cookie)
		if session == nil || !session.Secure || !session.HttpOnly || session.Path != "/" || session.Domain != "" || session.SameSite != http.SameSiteStrictMode ||
			len(session.String()) > 1024 || !strings.Contains(text, `content="0;url=/services?q=1"`) {
			t.Fatalf("%s: the cookie of a session: %v\n%s", provider, session, text)
		}
		t.Logf("%s: the cookie has %d bytes", provider, len(session.String()))
		answer, text := w.ask(http.MethodGet, "/v1/me", nil, session)
		if answer.StatusCode != http.StatusOK || !strings.Contains(text, "provider/"+provider) {
			t.Errorf("%s: %s", answer.Status, text)
		}
		csp := w.policy("/", session)
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("policy %q", csp)
		}
		// A browser sends its cookie along by itself, also when another page has it ask.
		from := func(more ...string) http.Header {
			header := http.Header{}
			for i := 0; i < len(more); i += 2 {
				header.Set(more[i], more[i+1])
			}
			return header
		}
		for name, test := range map[string]struct {
			method, path string
			header       http.Header
			want         int
		}{
			"a change from another site":             {http.MethodPost, "/v1/sources/" + v1.OwnSource + "/sync", from("Sec-Fetch-Site", "cross-site", "Content-Type", "application/json"), http.StatusForbidden},
			"a change from a sibling":                {http.MethodPost, "/v1/sources/" + v1.OwnSource + "/sync", from("Sec-Fetch-Site", "same-site", "Content-Type", "application/json"), http.StatusForbidden},
			"a change from another origin":           {http.MethodPost, "/v1/sources/" + v1.OwnSource + "/sync", from("Origin", "https://evil.example.com", "Content-Type", "application/json"), http.StatusForbidden},
			"a form":                                 {http.MethodPost, "/v1/sources/" + v1.OwnSource + "/sync", from("Sec-Fetch-Site", "same-origin", "Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
			"the hub's own page":                     {http.MethodPost, "/v1/sources/" + v1.OwnSource + "/sync", from("Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"), http.StatusAccepted},
			"a connection that another page opens":   {http.MethodGet, "/v1/clusters/edge/exec", from("Upgrade", "websocket", "Connection", "Upgrade", "Origin", "https://evil.example.com"), http.StatusForbidden},
			"a cluster's API, which wants a bearer":  {http.MethodGet, "/k8s/edge/version", from(), http.StatusUnauthorized},
			"logging out, by another site":           {http.MethodPost, "/auth/logout", from("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
			"logging out":                            {http.MethodPost, "/auth/logout", from("Sec-Fetch-Site", "same-origin"), http.StatusOK},
			"a token of one's own beside the cookie": {http.MethodGet, "/v1/me", from("Authorization", "Bearer nobodys"), http.StatusUnauthorized},
		} {
			if answer, text := w.ask(test.method, test.path, test.header, session); answer.StatusCode != test.want {
				t.Errorf("%s: %s, %s", name, answer.Status, text)
			}
		}
	}
}

func (w *world) policy(path string, cookies ...*http.Cookie) string {
	answer, _ := w.ask(http.MethodGet, path, nil, cookies...)
	return answer.Header.Get("Content-Security-Policy")
}

// I2, I3, I15.
func pageAttacks(t *testing.T, w *world) {
	cookie, callback := w.begin("corp", "")
	other, _ := w.begin("corp", "")
	partner, mixed := w.begin("partner", "")
	with := func(at *url.URL, name, value string) *url.URL {
		changed := *at
		query := changed.Query()
		query.Set(name, value)
		if value == "" {
			query.Del(name)
		}
		changed.RawQuery = query.Encode()
		return &changed
	}
	torn := *cookie
	torn.Value = torn.Value[:len(torn.Value)-4] + "AAAA"
	for name, try := range map[string]struct {
		at      *url.URL
		cookies []*http.Cookie
	}{
		"without the login's cookie":                 {callback, nil},
		"of another browser":                         {callback, []*http.Cookie{other}},
		"with a cookie that was changed":             {callback, []*http.Cookie{&torn}},
		"without state":                              {with(callback, "state", ""), []*http.Cookie{cookie}},
		"with another state":                         {with(callback, "state", "x"), []*http.Cookie{cookie}},
		"a code of another provider":                 {with(callback, "code", mixed.Query().Get("code")), []*http.Cookie{cookie}},
		"another provider's answer, named so":        {with(mixed, "iss", w.corp.Issuer), []*http.Cookie{partner}},
		"an answer that does not say of which it is": {with(mixed, "iss", ""), []*http.Cookie{partner}},
		"somebody who says no":                       {with(with(callback, "code", ""), "error", "access_denied"), []*http.Cookie{cookie}},
	} {
		if session, text := w.callback(try.at, try.cookies...); session != nil || strings.Contains(text, "access_denied") {
			t.Errorf("%s is let in: %s", name, text)
		}
	}
	cookie, callback = w.begin("corp", "")
	if session, text := w.callback(callback, cookie); session == nil {
		t.Fatal(text)
	}
	if session, _ := w.callback(callback, cookie); session != nil {
		t.Error("a code counts twice")
	}
	cookie, callback = w.begin("corp", "&return="+url.QueryEscape(`/x"><script>alert(1)</script>`))
	if _, text := w.callback(callback, cookie); strings.Contains(text, "<script>") {
		t.Errorf("a path becomes markup: %s", text)
	}
	for _, path := range []string{
		"https://evil.example.com", "//evil.example.com", `/\evil.example.com`, "/\t/evil.example.com", "javascript:alert(1)", "/k8s/edge/", "/auth/logout", "",
		strings.Repeat("/a", 1000),
	} {
		cookie, callback := w.begin("corp", "&return="+url.QueryEscape(path))
		if _, text := w.callback(callback, cookie); !strings.Contains(text, `content="0;url=/"`) {
			t.Errorf("%.40q leads elsewhere: %s", path, text)
		}
	}
}

// chromium is a real browser, with nothing in its profile.
type chromium struct {
	*world
	tab context.Context //nolint:containedctx // the browser is the context
}

func (w *world) chromium() *chromium {
	w.Helper()
	program := needs.Program(w, "chromium", "Debian's package chromium")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(w.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true))
	ctx, cancel := chromedp.NewExecAllocator(w.Context(), options...)
	w.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	w.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, patience)
	w.Cleanup(cancel)
	return &chromium{w, ctx}
}

// seen keeps a picture of what is shown, where PLURAL_TEST_PICTURES names a folder for it.
func (c *chromium) seen(name string) {
	c.Helper()
	picture, err := chromedp.Run(c.tab, chromedp.CaptureScreenshot())
	if dir := os.Getenv("PLURAL_TEST_PICTURES"); err == nil && dir != "" {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		c.Error(err)
	}
}

func (c *chromium) do(steps ...chromedp.Action[chromedp.Void]) {
	c.Helper()
	if err := chromedp.Do(c.tab, steps...); err != nil {
		text, _ := chromedp.Run(c.tab, chromedp.Evaluate[string]("document.location + ': ' + document.body.innerText"))
		c.Fatalf("%v at %s", err, text)
	}
}

// byChromium logs in with a real browser: whether one keeps and sends the cookies is its own judgement.
func byChromium(t *testing.T, w *world) {
	browser := w.chromium()
	browser.do(chromedp.Navigate(w.hub), chromedp.WaitVisible(`a[href="/auth/login?provider=corp"]`))
	browser.seen("log-in")
	browser.do(chromedp.Click(`a[href="/auth/login?provider=corp"]`), chromedp.WaitVisible(`input[type="password"]`),
		chromedp.SendKeys(`input:not([type="hidden"]):not([type="password"])`, "ada-l"), chromedp.SendKeys(`input[type="password"]`, "correct horse\n"),
		chromedp.WaitVisible(`header a[href="/me"]`))
	browser.seen("logged-in")
	browser.do(chromedp.Navigate(w.hub+"/auth/?return=/me"), chromedp.WaitVisible(`form[action="/auth/logout"]`))
	who, err := chromedp.Run(browser.tab, chromedp.Evaluate[string]("document.querySelector('dl').innerText"))
	if err != nil || !strings.Contains(who, "ada") || !strings.Contains(who, "platform") || strings.Contains(who, "chess") {
		t.Errorf("%q, %v", who, err)
	}
	if cookies, err := chromedp.Run(browser.tab, chromedp.Evaluate[string]("document.cookie")); err != nil || cookies != "" {
		t.Errorf("a script of the page reads %q, %v", cookies, err)
	}
	browser.do(chromedp.Click(`form[action="/auth/logout"] button`), chromedp.WaitVisible(`a[href="/auth/login?provider=corp"]`))
	browser.seen("logged-out")
}
