package httpstream_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pluralsh/plural/api/tunnelapi"
)

var page = bytes.Repeat([]byte("x"), 2<<10)

func servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{"2048"}
	w.Write(page)
}

func get(b *testing.B, t http.RoundTripper, r *http.Request) {
	response, err := t.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, response.Body); n != int64(len(page)) || err != nil {
		b.Fatal(n, err)
	}
	response.Body.Close()
}

func BenchmarkGet2KiB(b *testing.B) {
	b.Run("carried", func(b *testing.B) {
		t := transport(connect(b, http.HandlerFunc(servePage)))
		r := request(b.Context(), b, tunnelapi.Class_UNARY, http.MethodGet, "/api/v1/namespaces/default/pods/x")
		b.ReportAllocs()
		for b.Loop() {
			get(b, t, r)
		}
	})
	b.Run("direct", func(b *testing.B) {
		server := httptest.NewServer(http.HandlerFunc(servePage))
		defer server.Close()
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			get(b, server.Client().Transport, r)
		}
	})
}
