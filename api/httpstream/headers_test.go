package httpstream_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http/httpguts"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// crossed is what a list of headers says.
func crossed(list []*tunnelapi.Header) http.Header {
	h := http.Header{}
	for _, f := range list {
		h[f.GetName()] = append(h[f.GetName()], f.GetValue())
	}
	return h
}

// TestNothingThatSaysWhoAsksCrosses is about CVE-2021-36776, CVE-2026-17107, CVE-2026-61682, CVE-2021-31999, the anti-CSRF tokens
// of GitLab's KAS (CVE-2023-7045), and U1.
func TestNothingThatSaysWhoAsksCrosses(t *testing.T) {
	for _, name := range []string{
		"Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes", "impersonate-user", "IMPERSONATE-USER",
		"iMpErSoNaTe-gRoUp", "Impersonate_User", "impersonate_extra_x", "Impersonate-" + strings.Repeat("x", 300), "Impersonate-",
		"X-Remote-User", "X-Remote-Group", "x-remote-extra-a", "X_Remote_User", "Authorization", "authorization", "AUTHORIZATION",
		"Proxy-Authorization", "Cookie", "cookie", "Cookie2", "X-Forwarded-For", "X-Forwarded-Client-Cert", "Forwarded", "Via",
		"X-Real-Ip", "X_Real_Ip", "Plural-User", "plural-anything", "Expect", "Host", "Content-Length",
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Connection", "Http2-Settings",
	} {
		for _, values := range [][]string{{"x"}, {""}, {"x", "y"}, {" "}} {
			got, err := httpstream.Request(http.Header{name: values, "Accept": {"a"}})
			if err != nil || len(got) != 1 || got[0].GetName() != "Accept" {
				t.Errorf("%s: %v crosses as %v, %v", name, values, got, err)
			}
			h := http.Header{name: values, "Accept": {"a"}}
			if err := httpstream.CleanRequest(h); err != nil || len(h) != 1 {
				t.Errorf("%s: %v is left as %v, %v", name, values, h, err)
			}
		}
	}
}

// TestConnectionNamesMoreThatStaysBehind is the trick of capsule-proxy #188: the header takes others with it, whatever they are, so that
// what is set has to be set after it is gone.
func TestConnectionNamesMoreThatStaysBehind(t *testing.T) {
	h := http.Header{
		"Connection": {"close, X-Secret", " x-OTHER ,,"}, "connection": {"third"}, "X-Secret": {"1"}, "X-Other": {"2"}, "Third": {"3"},
		"X-Secrets": {"4"}, "Accept": {"a"},
	}
	got, err := httpstream.Request(h)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"X-Secrets": {"4"}, "Accept": {"a"}}, crossed(got)); diff != "" {
		t.Error(diff)
	}
	if len(h) != 7 {
		t.Error("the caller's headers were changed")
	}
}

// TestATokenInAWebSocketProtocolStaysBehind: browsers have no other place for it.
func TestATokenInAWebSocketProtocolStaysBehind(t *testing.T) {
	for in, want := range map[string]string{
		"v5.channel.k8s.io": "v5.channel.k8s.io",
		"base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io":          "v5.channel.k8s.io",
		"v5.channel.k8s.io,Base64url.Bearer.authorization.k8s.io.c2VjcmV0,v4.k8s.io": "v5.channel.k8s.io, v4.k8s.io",
		"base64url.bearer.authorization.k8s.io.c2VjcmV0":                             "",
	} {
		h := http.Header{"Sec-Websocket-Protocol": {in}}
		if err := httpstream.CleanRequest(h); err != nil || h.Get("Sec-Websocket-Protocol") != want {
			t.Errorf("%q is left as %v, %v", in, h, err)
		}
	}
}

// TestAnAnswerCannotSpeakForTheHub is A11, and the cookies of GitLab's KAS.
func TestAnAnswerCannotSpeakForTheHub(t *testing.T) {
	for _, name := range []string{
		"Set-Cookie", "set-cookie", "Set-Cookie2", "Set_Cookie", "Refresh", "Alt-Svc", "Clear-Site-Data", "Strict-Transport-Security",
		"Service-Worker-Allowed", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Public-Key-Pins",
		"Connection", "Upgrade", "Keep-Alive", "Transfer-Encoding", "Proxy-Authenticate", "Trailer", "Plural-Anything", "Content-Length",
	} {
		if got, err := httpstream.Response(http.Header{name: {"x", "y"}}); err != nil || len(got) > 0 {
			t.Errorf("%s crosses as %v, %v", name, got, err)
		}
	}
	for location, stays := range map[string]bool{
		"/api/v1/x": true, "/": true, "//evil.example/x": false, "https://evil.example": false, "/\\evil.example": false,
		"javascript:alert(1)": false, "x": false, "": false, "\\\\evil": false, "/\t/evil": false,
	} {
		for _, name := range []string{"Location", "Content-Location", "location"} {
			if got, err := httpstream.Response(http.Header{name: {location}}); err != nil || len(got) == 1 != stays {
				t.Errorf("%s %q crosses as %v, %v", name, location, got, err)
			}
		}
	}
}

// TestHeadersThatCannotBeSentAreErrors is about header smuggling.
func TestHeadersThatCannotBeSentAreErrors(t *testing.T) {
	many := http.Header{}
	for i := range 1001 {
		many["A"+strings.Repeat("a", i)] = []string{""}
	}
	for name, h := range map[string]http.Header{
		"space behind name": {"Impersonate-User ": {"x"}}, "line in name": {"A\r\nB": {"x"}}, "no name": {"": {"x"}}, "NUL in name": {"A\x00": {"x"}},
		"colon in name": {"A:": {"x"}}, "letter beyond ASCII": {"Impersonate-\u0055\u017fer": {"x"}}, "line in value": {"A": {"b\r\nC: d"}},
		"folded value": {"A": {"b\n c"}}, "NUL in value": {"A": {"\x00"}}, "no UTF-8": {"A": {"\xff"}}, "too long": {"A": {strings.Repeat("x", tunnelapi.MaxHeaders)}},
		"too many": many, "many values": {"A": make([]string, 1001)}, "long Connection": {"Connection": {strings.Repeat("a,", 1000)}},
		"long and dropped": {"Cookie": {strings.Repeat("x", tunnelapi.MaxHeaders)}},
	} {
		if got, err := httpstream.Request(h); err == nil {
			t.Errorf("%s crosses as %d headers", name, len(got))
		}
		if got, err := httpstream.Response(h); err == nil {
			t.Errorf("%s comes back as %d headers", name, len(got))
		}
	}
}

// parseHeaders reads lines of NAME:VALUE as they are.
func parseHeaders(text string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, ":")
		h[name] = append(h[name], value)
	}
	return h
}

// secret says of a name, in the plainest way there is, that it must not cross.
func secret(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, prefix := range []string{"impersonate-", "x-remote-", "x-forwarded-", "proxy-", "plural-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "authorization", "cookie", "connection", "upgrade", "transfer-encoding", "te", "trailer", "via", "forwarded", "host", "content-length":
		return true
	}
	return false
}

// asked says of a secret name that it means something in requests alone.
func asked(name string) bool {
	return slices.Contains([]string{"authorization", "cookie", "via", "forwarded", "host"}, strings.ToLower(name))
}

func FuzzHeaders(f *testing.F) {
	f.Add("Accept:a\nImpersonate-User:root\nimpersonate_group:x")
	f.Add("Connection:close, Impersonate-User\nX-Remote-User:a\nAccept:b")
	f.Add("Location://evil\nSet-Cookie:a=b\nSec-Websocket-Protocol:base64url.bearer.authorization.k8s.io.x, v4")
	f.Add("A:\r\nB:\x00\nConnection:a\n:x")
	f.Fuzz(func(t *testing.T, text string) {
		h := parseHeaders(text)
		list, err := httpstream.Request(h)
		if err != nil {
			return
		}
		size := 0
		for _, field := range list {
			name, value := field.GetName(), field.GetValue()
			size += len(name) + len(value)
			if secret(name) || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || !utf8.ValidString(value) {
				t.Errorf("%q: %q crosses", name, value)
			}
			for other, values := range h {
				if strings.EqualFold(other, "Connection") && httpguts.HeaderValuesContainsToken(values, name) {
					t.Errorf("%q crosses, which Connection names", name)
				}
			}
		}
		if size > tunnelapi.MaxHeaders {
			t.Errorf("%d bytes cross", size)
		}
		again, err := httpstream.Request(crossed(list))
		if diff := cmp.Diff(crossed(list), crossed(again)); err != nil || diff != "" {
			t.Errorf("what crossed does not cross again: %v %s", err, diff)
		}
		back, err := httpstream.Response(h)
		if err != nil {
			return
		}
		for _, field := range back {
			if name := strings.ToLower(field.GetName()); secret(name) && !asked(name) || name == "set-cookie" {
				t.Errorf("%q comes back", name)
			}
		}
	})
}

// TestNothingThatSteersAProxyBeforeTheHubCrosses is A11: to nginx and others such a header is an order to answer with something
// else, which a cluster, or a pod behind one, must not give.
func TestNothingThatSteersAProxyBeforeTheHubCrosses(t *testing.T) {
	for _, name := range []string{
		"X-Accel-Redirect", "x-accel-redirect", "X_Accel_Redirect", "X-Accel-Expires", "X-Accel-Buffering", "X-Sendfile", "X-Lighttpd-Send-File",
		"X-Litespeed-Location", "X-Reproxy-Url", "Surrogate-Control", "Cdn-Cache-Control", "Edge-Control", "X-Litespeed-Cache-Control",
	} {
		got, err := httpstream.Response(http.Header{name: {"/v1/status"}, "Warning": {"a"}})
		if err != nil || len(got) != 1 || got[0].GetName() != "Warning" {
			t.Errorf("%s crosses as %v, %v", name, got, err)
		}
	}
}
