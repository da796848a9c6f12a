package apiproxy_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/apiproxy"
)

// TestAHubThatCleansNothingSpeaksForNobodyElse: the handler is given what no hub of ours would pass on. All that the API server sees
// is compared, so that nothing gets through that the test does not know.
func TestAHubThatCleansNothingSpeaksForNobodyElse(t *testing.T) {
	seen := make(chan *http.Request, 1)
	o, _ := options(server(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r }), apiproxy.Policy{})
	h := handler(t, o)
	want := http.Header{
		"Authorization": {"Bearer the agent's"}, "Audit-Id": {"req-42"}, "Accept": {"application/json"},
		"Impersonate-User": {"plural:ana"}, "Impersonate-Uid": {"u-1"}, "Impersonate-Group": {"plural:devs", "plural:oncall"},
		"Impersonate-Extra-Plural.sh%2fcredential": {"c1"}, "Impersonate-Extra-Plural.sh%2frequest-Id": {"req-42"},
	}
	attacks := map[string]http.Header{
		"nothing":                      {},
		"who is impersonated":          {"Impersonate-User": {"root"}, "Impersonate-Group": {"system:masters"}, "Impersonate-Uid": {"0"}},
		"who else is":                  {"impersonate-user": {"root"}, "IMPERSONATE-GROUP": {"system:masters"}, "Impersonate_User": {"root"}},
		"what is known of them":        {"Impersonate-Extra-Scopes": {"all"}, "Impersonate-Extra-Plural.sh%2frequest-Id": {"forged"}},
		"a kind not known yet":         {"Impersonate-Anything": {"x"}},
		"a credential":                 {"Authorization": {"Bearer mine"}},
		"a credential in odd case":     {"authorization": {"Bearer mine"}},
		"a session":                    {"Cookie": {"session=1"}},
		"an old session":               {"Cookie2": {"session=1"}},
		"a credential of a proxy":      {"Proxy-Authorization": {"Basic x"}},
		"a connection of a proxy":      {"Proxy-Connection": {"keep-alive"}},
		"a front proxy's user":         {"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Uid": {"0"}, "X-Remote-Extra-A": {"b"}},
		"where it came from":           {"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"x"}, "X-Forwarded-Proto": {"http"}},
		"where it came from, properly": {"Forwarded": {"for=127.0.0.1"}},
		"where it came from, by nginx": {"X-Real-Ip": {"127.0.0.1"}},
		"what it came through":         {"Via": {"1.1 x"}},
		"what to wait for":             {"Expect": {"100-continue"}},
		"words of our own":             {"Plural-Cluster": {"edge2"}},
		"another protocol":             {"Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABkAARAAAAAAAIAAAAA"}, "Connection": {"Upgrade, HTTP2-Settings"}},
		"another one, not asked for":   {"Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABkAARAAAAAAAIAAAAA"}},
		"what is for this hop":         {"Keep-Alive": {"timeout=5"}, "Te": {"trailers"}},
		"what is named for this hop":   {"Connection": {"X-Hop"}, "X-Hop": {"x"}},
		"names that are set":           {"Connection": {"Impersonate-User, Authorization", "impersonate-group, Audit-Id"}},
	}
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/x/pods/y/log"} { // by HTTP/1.1, and by HTTP/2
			r := ask(t.Context(), t, ana(), http.MethodGet, path, "")
			r.Body, r.RequestURI, r.URL.Opaque, r.URL.Path = http.NoBody, path, "", path
			r.Header.Set("Accept", "application/json")
			maps.Copy(r.Header, attacks[name])
			w := newRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Fatalf("%s: %s is answered with %d %s", name, path, w.Code, w.Body)
			}
			got := <-seen
			if diff := cmp.Diff(want, got.Header); diff != "" {
				t.Errorf("%s, by %s: %s", name, got.Proto, diff)
			}
		}
	}
}
