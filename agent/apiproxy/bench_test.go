package apiproxy_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apiproxy"
)

// BenchmarkGet2KiB compares a request by the hub with the same one without it: both by HTTP/2 and TLS at the API server.
func BenchmarkGet2KiB(b *testing.B) {
	page := bytes.Repeat([]byte("x"), 2<<10)
	kube := server(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Write(page)
	})
	get := func(b *testing.B, rt http.RoundTripper, r *http.Request) {
		b.ReportAllocs()
		for b.Loop() {
			response, err := rt.RoundTrip(r)
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, response.Body); n != int64(len(page)) || err != nil {
				b.Fatal(n, err)
			}
			response.Body.Close()
		}
	}
	b.Run("through", func(b *testing.B) {
		o, _ := options(kube, apiproxy.Policy{})
		get(b, transport(hub(b, handler(b, o))), ask(b.Context(), b, ana(), http.MethodGet, "/api/v1/namespaces/default/pods/x", ""))
	})
	b.Run("direct", func(b *testing.B) {
		rt, err := rest.TransportFor(kube)
		if err != nil {
			b.Fatal(err)
		}
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, kube.Host+"/api/v1/namespaces/default/pods/x", http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		get(b, rt, r)
	})
}
