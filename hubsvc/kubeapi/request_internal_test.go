package kubeapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Whatever a client writes, the cluster in the path is one plain name, and with the rest it is what was written.
func FuzzDestination(f *testing.F) {
	for _, target := range []string{
		"/k8s/edge/api/v1/pods?limit=1", "/k8s/edge", "/k8s/edge?x", "/k8s/", "/k8s//api", "/k8s/%65dge/", "/k8s/../api", "/k8s/a%2fb/",
		"http://hub/k8s/edge/api", "*", "//k8s/edge",
	} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		cluster, rest, ok := destination(&http.Request{RequestURI: target, URL: u})
		if !ok {
			return
		}
		if strings.ContainsAny(cluster, "/%?#\\ ") || cluster == "" || strings.HasPrefix(cluster, ".") || !strings.HasPrefix(rest, "/") {
			t.Errorf("%q is %q of %q", target, rest, cluster)
		}
		if written := Prefix + cluster + rest; !strings.HasSuffix(target, written) &&
			!strings.HasSuffix(target, Prefix+cluster+strings.TrimPrefix(rest, "/")) {
			t.Errorf("%q became %q", target, written)
		}
	})
}

// Whatever a client offers as subprotocols, no token is left among them, and there is one credential or none.
func FuzzCredentials(f *testing.F) {
	f.Add("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.dG9rZW4", "")
	f.Add("base64url.bearer.authorization.k8s.io.", "Bearer x")
	f.Add(",,a, base64url.bearer.authorization.k8s.io.Cg", "")
	f.Fuzz(func(t *testing.T, protocols, authorization string) {
		r := &http.Request{Header: http.Header{}}
		if protocols != "" {
			r.Header[protocolHeader] = []string{protocols}
		}
		if authorization != "" {
			r.Header["Authorization"] = []string{authorization}
		}
		seen, ok := credentials(r)
		if !ok {
			return
		}
		if len(seen.Header["Authorization"]) != 1 || strings.ContainsAny(seen.Header.Get("Authorization"), "\r\n") && authorization == "" {
			t.Errorf("credentials are %q", seen.Header["Authorization"])
		}
		for protocol := range strings.SplitSeq(strings.Join(r.Header[protocolHeader], ","), ",") {
			if strings.HasPrefix(strings.TrimSpace(protocol), tokenProtocol) {
				t.Errorf("a token is left in %q", r.Header[protocolHeader])
			}
		}
	})
}

func TestWhatClientsSayIsClippedByWhatItTakesInARecord(t *testing.T) {
	for text, most := range map[string]int{
		"a": maxPath, "&": maxPath, `"`: maxPath / 2, "\\": maxPath / 2, "\x01": maxPath / 6, "é": maxPath / 6,
		"\U0001f600": maxPath / 12, "\xff": 0,
	} {
		if got, want := Clip(strings.Repeat(text, 3000), maxPath), strings.Repeat(text, most)+"..."; got != want {
			t.Errorf("of %q %d bytes are left, not %d", text, len(got), len(want))
		}
	}
	if short := `a/"b"&é`; Clip(short, 20) != short {
		t.Errorf("%q is clipped to %q", short, Clip(short, 20))
	}
}
