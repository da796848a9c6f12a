package login

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pluralsh/plural/test/support/idp"
)

// ofApplications has an application log people in by way of the hub: one that others wrote, with a certified library.
func ofApplications(t *testing.T, w *world) {
	landed := make(chan string, 1)
	application := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			landed <- "http://" + r.Host + r.URL.String()
		}
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(`<p id="application">` + r.URL.Path)) // a browser that went away has seen enough
	}))
	t.Cleanup(application.Close)
	operator, fleet := w.person("operator"), w.path("fleet")
	secret := strings.TrimSpace(operator.plural("application", "create", "wiki", "--redirect-uri", application.URL+"/callback",
		"--logout-uri", application.URL+"/", "--user", "ada", "-C", fleet))
	shown := func(keys int) bool {
		answer, text := w.ask(http.MethodGet, "/oidc/keys", nil)
		return answer.StatusCode == http.StatusOK && strings.Count(text, `"kid"`) == keys && !strings.Contains(text, `"d"`)
	}
	w.until("the hub shows its key", func() bool { return shown(1) })
	operator.plural("application", "rotate-keys", "-C", fleet)
	w.until("the hub shows both keys", func() bool { return shown(2) })
	as := idp.Client{
		Issuer: w.hub + "/oidc", ID: "wiki", Secret: secret, Redirect: application.URL + "/callback", Home: application.URL + "/",
	}
	learns := func(told idp.Told) {
		t.Helper()
		for name, said := range map[string]map[string]any{"the ID token": told.Claims, "userinfo": told.Info} {
			if said["sub"] != "ada" || said["preferred_username"] != "ada" || said["name"] != "ada-l" {
				t.Errorf("%s: %v", name, said)
			}
		}
		if told.Again != "invalid_grant" {
			t.Errorf("the code once more: %s", told.Again)
		}
	}

	browser := w.chromium()
	wiki := idp.StartApplication(t, as)
	browser.do(chromedp.Navigate(wiki.At), chromedp.WaitVisible(`a[href^="/auth/login?provider=corp"]`))
	browser.seen("application-choose")
	browser.do(chromedp.Click(`a[href^="/auth/login?provider=corp"]`), chromedp.WaitVisible(`input[type="password"]`),
		chromedp.SendKeys(`input:not([type="hidden"]):not([type="password"])`, "ada-l"), chromedp.SendKeys(`input[type="password"]`, "correct horse\n"),
		chromedp.WaitVisible("#application"))
	told := wiki.Back(<-landed)
	learns(told)

	as.Post = true // and nobody is asked who is logged in already
	wiki = idp.StartApplication(t, as)
	browser.do(chromedp.Navigate(wiki.At), chromedp.WaitVisible("#application"))
	learns(wiki.Back(<-landed))

	browser.do(chromedp.Navigate(told.Leave), chromedp.WaitVisible(`form[action="/oidc/logout/confirm"] button`))
	browser.seen("application-log-out")
	browser.do(chromedp.Click(`form[action="/oidc/logout/confirm"] button`), chromedp.WaitVisible("#application"),
		chromedp.Navigate(w.hub), chromedp.WaitVisible(`a[href="/auth/login?provider=corp"]`))

	cookie, callback := w.begin("partner", "")
	session, _ := w.callback(callback, cookie)
	answer, text := w.ask(http.MethodGet, strings.Replace(idp.StartApplication(t, as).At, w.hub, "", 1), nil, session)
	if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "partner:00u1abc") {
		t.Errorf("somebody whom the application does not allow: %s\n%s", answer.Status, text)
	}
}
