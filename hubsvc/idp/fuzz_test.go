package idp_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzAuthorize holds that nobody is sent anywhere but to the addresses of an application, and that a code is for one who asked as they should.
func FuzzAuthorize(f *testing.F) {
	w := newWorld(f)
	ada := w.browser("00u1abc", "platform")
	good := "client_id=grafana&response_type=code&scope=openid&code_challenge_method=S256&code_challenge=" + strings.Repeat("x", 43) +
		"&redirect_uri=" + url.QueryEscape(redirect)
	f.Add(good)
	f.Add(good + "&redirect_uri=https://evil.example.com")
	f.Add(good + "&prompt=none&max_age=0&state=%0d%0a")
	f.Add("client_id=cli&redirect_uri=http://127.0.0.1:1/callback&response_type=code&scope=openid")
	f.Add("client_id=cli&redirect_uri=http://127.0.0.1:1@evil.example.com/callback")
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/oidc/authorize", http.NoBody)
		r.URL.RawQuery = query
		at, _ := url.Parse(w.url)
		for _, cookie := range ada.Jar.Cookies(at) {
			r.AddCookie(cookie)
		}
		answer := httptest.NewRecorder()
		w.replicas[0].ServeHTTP(answer, r)
		to := answer.Header().Get("Location")
		if to == "" || strings.HasPrefix(to, "/auth/login?") {
			return
		}
		u, err := url.Parse(to)
		own := strings.HasPrefix(to, redirect+"?") || strings.HasPrefix(to, "https://old.example.com/?")
		if err != nil || !own && (u.Scheme != "http" || u.Hostname() != "127.0.0.1" || u.Path != "/callback") {
			t.Errorf("%q leads to %s", query, to)
		}
		asked, _ := url.ParseQuery(query)
		if u.Query().Has("code") && (asked.Get("response_type") != "code" || asked.Get("code_challenge") == "" && asked.Get("client_id") != "old") {
			t.Errorf("%q gets a code", query)
		}
	})
}
