package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
)

func packed(t *testing.T, text string) *fstest.MapFile {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: out.Bytes()}
}

func TestWhatIsServed(t *testing.T) {
	page := open(fstest.MapFS{
		"dist/README": {Data: []byte("notes")}, "dist/index.html.gz": packed(t, "<p>page"), "dist/main-AB.js.gz": packed(t, "run()"), "dist/style-CD.css.gz": packed(t, "p{}"),
	})
	if page == nil {
		t.Fatal("a page that was built is not there")
	}
	mux := http.NewServeMux()
	page.Routes(mux)
	ask := func(method, path string, header ...string) *http.Response {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w.Result()
	}
	const forEver = "public, max-age=31536000, immutable"
	for _, test := range []struct {
		path, kind, cache, body string
		status                  int
		framed                  bool // it has the page's policy
	}{
		{path: "/", kind: "text/html; charset=utf-8", cache: "no-cache", body: "<p>page", status: 200, framed: true},
		{path: "/fleet", kind: "text/html; charset=utf-8", cache: "no-cache", body: "<p>page", status: 200, framed: true},
		{path: "/deployments/a/b", kind: "text/html; charset=utf-8", cache: "no-cache", body: "<p>page", status: 200, framed: true},
		{path: "/assets/main-AB.js", kind: "text/javascript; charset=utf-8", cache: forEver, body: "run()", status: 200},
		{path: "/assets/style-CD.css", kind: "text/css; charset=utf-8", cache: forEver, body: "p{}", status: 200},
		{path: "/assets/main-OLD.js", status: 404},
		{path: "/assets/index.html", status: 404},
		{path: "/assets/README", status: 404},
		{path: "/assets/..%2findex.html", status: 404},
		{path: "/elsewhere", status: 404},
		{path: "/v1/me", status: 404},
	} {
		for _, encoding := range []string{"gzip, deflate, br", "identity"} {
			got := ask(http.MethodGet, test.path, "Accept-Encoding", encoding)
			header := got.Header
			if got.StatusCode != test.status {
				t.Errorf("%s: %s", test.path, got.Status)
			}
			if test.status != http.StatusOK {
				if header.Get("ETag") != "" || header.Get("Cache-Control") != "" {
					t.Errorf("%s: what is not there is kept: %v", test.path, header)
				}
				continue
			}
			var body io.Reader = got.Body
			if header.Get("Content-Encoding") == "gzip" {
				unpacked, err := gzip.NewReader(got.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = unpacked
			}
			text, err := io.ReadAll(body)
			if err != nil || string(text) != test.body || (encoding == "identity") == (header.Get("Content-Encoding") == "gzip") {
				t.Errorf("%s for %s: %q, %v, %v", test.path, encoding, text, err, header)
			}
			for name, want := range map[string]string{
				"Content-Type": test.kind, "Cache-Control": test.cache, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff",
				"Cross-Origin-Resource-Policy": "same-origin",
			} {
				if header.Get(name) != want {
					t.Errorf("%s: %s is %q", test.path, name, header.Get(name))
				}
			}
			framed := header.Get("Content-Security-Policy") == Policy && header.Get("Cross-Origin-Opener-Policy") == "same-origin" &&
				header.Get("Referrer-Policy") == "no-referrer"
			if framed != test.framed {
				t.Errorf("%s: %v", test.path, header)
			}
			again := ask(http.MethodGet, test.path, "Accept-Encoding", encoding, "If-None-Match", header.Get("ETag"))
			left, err := io.ReadAll(again.Body)
			if again.StatusCode != http.StatusNotModified || len(left) > 0 || err != nil {
				t.Errorf("%s once more: %s %q", test.path, again.Status, left)
			}
			if head := ask(http.MethodHead, test.path); head.StatusCode != http.StatusOK || head.Header.Get("ETag") != header.Get("ETag") {
				t.Errorf("HEAD %s: %s", test.path, head.Status)
			}
			if post := ask(http.MethodPost, test.path); post.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("POST %s: %s", test.path, post.Status)
			}
		}
	}
}

func TestAProgramWithoutAPage(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"not built":     {"dist/README": {Data: []byte("notes")}},
		"without index": {"dist/main-AB.js.gz": packed(t, "run()")},
	} {
		if open(files) != nil {
			t.Errorf("%s: it has a page", name)
		}
	}
}
