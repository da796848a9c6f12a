package httpfile

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheDigestIsOfTheWholeFile(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hello":
			_, _ = io.WriteString(w, "hello\n")
		case "/moved":
			http.Redirect(w, r, "/hello", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		case "/endless":
			for block := make([]byte, 1<<20); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	const hello = "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
	for _, path := range []string{"/hello", "/moved"} {
		if got, err := Digest(t.Context(), server.URL+path); err != nil || got != hello {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	for address, want := range map[string]string{
		server.URL + "/none":            "404",
		server.URL + "/inside":          "link-local",
		server.URL + "/endless":         "longer than the limit",
		"http://example.com/x":          "use https",
		"file:///etc/passwd":            "unsupported scheme",
		"https://169.254.169.254/x":     "link-local",
		"https://ada:hunter2@127.0.0.1": "127.0.0.1",
	} {
		got, err := Digest(t.Context(), address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
}
