package apiproxy_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// about are the headers of a request that say who asks.
func about(h http.Header) http.Header {
	found := http.Header{}
	for name, values := range h {
		lower := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if strings.HasPrefix(lower, "impersonate") || strings.HasPrefix(lower, "x-") || lower == "authorization" || lower == "cookie" {
			found[name] = values
		}
	}
	return found
}

// TestThePersonIsImpersonatedAndNobodyElse has every header in it by which somebody else has been: U1, CVE-2021-31999, CVE-2021-36776,
// capsule-proxy #188 and #189, GHSA-r5c2-7hp9-v678, CVE-2026-17107, CVE-2026-61682.
func TestThePersonIsImpersonatedAndNobodyElse(t *testing.T) {
	var mu sync.Mutex
	var got http.Header
	rt := through(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = r.Header.Clone()
	})
	want := http.Header{
		"Authorization": {"Bearer the agent's"}, "Impersonate-User": {"plural:ana"}, "Impersonate-Uid": {"u-1"},
		"Impersonate-Group":                        {"plural:devs", "plural:oncall"},
		"Impersonate-Extra-Plural.sh%2fcredential": {"c1"},
		"Impersonate-Extra-Plural.sh%2frequest-Id": {"req-42"},
	}
	attacks := map[string]http.Header{
		"none":                       {},
		"another user":               {"Impersonate-User": {"root"}},
		"another group":              {"Impersonate-Group": {"system:masters"}},
		"another uid":                {"Impersonate-Uid": {"0"}},
		"another extra":              {"Impersonate-Extra-Scopes": {"all"}, "Impersonate-Extra-Plural.sh%2frequest-Id": {"forged"}},
		"duplicates":                 {"Impersonate-User": {"root", "", "plural:ana"}},
		"odd case":                   {"iMPERSONATE-uSER": {"root"}, "impersonate-group": {"system:masters"}},
		"underscores":                {"Impersonate_User": {"root"}},
		"empty":                      {"Impersonate-User": {""}, "Impersonate-Group": {""}},
		"front proxy":                {"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Extra-A": {"b"}, "X-Remote-Uid": {"0"}},
		"own credentials":            {"Authorization": {"Bearer mine"}, "Cookie": {"session=1"}, "Proxy-Authorization": {"Basic x"}},
		"forwarded":                  {"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-User": {"root"}, "X-Real-Ip": {"127.0.0.1"}, "Forwarded": {"for=1"}},
		"Connection names the user":  {"Connection": {"Impersonate-User"}},
		"Connection names a group":   {"Connection": {"close, impersonate-group, Impersonate-Extra-Plural.sh%2Frequest-Id"}},
		"Connection names the token": {"Connection": {"Authorization", "keep-alive"}, "Keep-Alive": {"1"}},
	}
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		for _, upgrade := range []bool{false, true} {
			r := ask(t.Context(), t, ana(), http.MethodGet, "/api/v1/namespaces/x/pods/y/exec", "")
			maps.Copy(r.Header, attacks[name])
			if upgrade {
				r = upgrading(r, "websocket")
				r.Header["Connection"] = append([]string{"Upgrade"}, attacks[name]["Connection"]...)
			}
			do(t, rt, r)
			mu.Lock()
			if diff := cmp.Diff(want, about(got)); diff != "" {
				t.Errorf("%s, upgrade %v: %s", name, upgrade, diff)
			}
			if got.Get("Audit-Id") != "req-42" {
				t.Errorf("%s: the audit id is %q", name, got["Audit-Id"])
			}
			mu.Unlock()
		}
	}
}

// TestAnIdentityThatIsNotForHereIsRefused is about CVE-2026-44945, and a hub that was taken over: without identity, with that of
// another cluster, late, or with names that the cluster knows by itself.
func TestAnIdentityThatIsNotForHereIsRefused(t *testing.T) {
	reached := 0
	rt := through(t, func(http.ResponseWriter, *http.Request) { reached++ })
	for name, change := range map[string]func(*tunnelapi.Identity){
		"no user":              func(i *tunnelapi.Identity) { i.User = "" },
		"bare prefix":          func(i *tunnelapi.Identity) { i.User = "plural:" },
		"no prefix":            func(i *tunnelapi.Identity) { i.User = "ana" },
		"prefix in odd case":   func(i *tunnelapi.Identity) { i.User = "Plural:ana" },
		"system user":          func(i *tunnelapi.Identity) { i.User = "system:admin" },
		"hidden system user":   func(i *tunnelapi.Identity) { i.User = "plural:system:admin" },
		"odd-case system user": func(i *tunnelapi.Identity) { i.User = "plural:SYSTEM:admin" },
		"masters":              func(i *tunnelapi.Identity) { i.Groups = append(i.Groups, "system:masters") },
		"group without prefix": func(i *tunnelapi.Identity) { i.Groups = append(i.Groups, "devs") },
		"empty group":          func(i *tunnelapi.Identity) { i.Groups = append(i.Groups, "") },
		"line in the user":     func(i *tunnelapi.Identity) { i.User = "plural:a\r\nImpersonate-Group: system:masters" },
		"NUL in a group":       func(i *tunnelapi.Identity) { i.Groups[0] = "plural:\x00" },
		"space behind":         func(i *tunnelapi.Identity) { i.User = "plural:ana " },
		"long user":            func(i *tunnelapi.Identity) { i.User += strings.Repeat("a", 2000) },
		"many groups":          func(i *tunnelapi.Identity) { i.Groups = slices.Repeat(i.Groups, 500) },
		"another cluster":      func(i *tunnelapi.Identity) { i.Cluster = "edge2" },
		"no cluster":           func(i *tunnelapi.Identity) { i.Cluster = "" },
		"cluster in odd case":  func(i *tunnelapi.Identity) { i.Cluster = "EDGE" },
		"expired":              func(i *tunnelapi.Identity) { i.ExpiresUnixMs = time.Now().UnixMilli() - 1 },
		"no expiry":            func(i *tunnelapi.Identity) { i.ExpiresUnixMs = 0 },
		"extra of others":      func(i *tunnelapi.Identity) { i.Extra[0].Key = "scopes.authorization.openshift.io" },
		"extra of Kubernetes":  func(i *tunnelapi.Identity) { i.Extra[0].Key = "authentication.kubernetes.io/pod-name" },
		"extra of ours":        func(i *tunnelapi.Identity) { i.Extra[0].Key = "plural.sh/request-id" },
		"extra in odd case":    func(i *tunnelapi.Identity) { i.Extra[0].Key = "plural.sh/Request-Id" },
		"line in an extra":     func(i *tunnelapi.Identity) { i.Extra[0].Values = []string{"a\nb"} },
		"line in the uid":      func(i *tunnelapi.Identity) { i.Uid = "a\nb" },
	} {
		t.Run(name, func(t *testing.T) {
			who := ana()
			change(who)
			got := do(t, rt, ask(t.Context(), t, who, http.MethodGet, "/api/v1/pods", ""))
			if s := got.status(t); got.Status != http.StatusForbidden || s.Reason != "Forbidden" {
				t.Errorf("answered %d %s", got.Status, got.Body)
			}
		})
	}
	if got := do(t, rt, ask(t.Context(), t, nil, http.MethodGet, "/api/v1/pods", "")); got.Status != http.StatusForbidden {
		t.Errorf("without an identity: %d", got.Status)
	}
	if reached > 0 {
		t.Errorf("%d requests reached the API server", reached)
	}
}

func TestWithoutAnExchangeThereIsNoIdentity(t *testing.T) {
	o, _ := options(server(t, func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }), apiproxy.Policy{})
	w := newRecorder()
	r := ask(t.Context(), t, ana(), http.MethodGet, "/api", "")
	r = r.WithContext(t.Context())
	handler(t, o).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Error(w.Code)
	}
}

// TestTheTokenOfTheImpersonatingAccountIsUsedAlone: neither a certificate nor a token of the agent's own account is shown.
func TestTheTokenOfTheImpersonatingAccountIsUsedAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	seen := []string{}
	o, _ := options(server(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
	}), apiproxy.Policy{})
	o.Kube.Impersonate.UserName = "somebody"
	now := time.Now()
	o.Now, o.TokenFile = func() time.Time { return now }, path
	if _, err := apiproxy.New(o); err == nil {
		t.Error("an agent without the file starts")
	}
	write("one\n")
	rt := transport(hub(t, handler(t, o)))
	get := func() { do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, "/api", "")) }
	get()
	write("two")
	now = now.Add(time.Minute)
	get()
	write("") // while it is being replaced
	now = now.Add(time.Minute)
	get()
	if diff := cmp.Diff([]string{"Bearer one", "Bearer two", "Bearer two"}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestAnAgentNeedsToKnowWhoItIs(t *testing.T) {
	whole, _ := options(server(t, nil), apiproxy.Policy{})
	for name, change := range map[string]func(*apiproxy.Options){
		"no API server": func(o *apiproxy.Options) { o.Kube = nil },
		"no cluster":    func(o *apiproxy.Options) { o.Cluster = "" },
		"no policy":     func(o *apiproxy.Options) { o.Policy = nil },
	} {
		o := whole
		change(&o)
		if _, err := apiproxy.New(o); err == nil {
			t.Errorf("%s: it starts", name)
		}
	}
	if _, ok := httpstream.CallOf(t.Context()); ok {
		t.Error("a context from nowhere has a call")
	}
}
