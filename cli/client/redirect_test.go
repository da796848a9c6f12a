package client_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/client"
)

func TestATokenFollowsNoRedirectAwayFromItsHub(t *testing.T) {
	var leaked []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked = append(leaked, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	// Go's own client takes a token along to the same name on another port, without TLS too.
	hub := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer hub.Close()
	c, err := client.New(hub.URL, "secret", "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Trust(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hub.Certificate().Raw})); err != nil {
		t.Fatal(err)
	}
	_, status := c.Status(t.Context())
	log, text := c.Text(t.Context(), "/v1/logs", nil)
	if text == nil {
		log.Close()
	}
	for _, err := range []error{status, text} {
		if err == nil || !strings.Contains(err.Error(), "it says that it is at "+elsewhere.URL) {
			t.Errorf("got %v", err)
		}
	}
	if len(leaked) > 0 {
		t.Errorf("another server was sent %q", leaked)
	}
}
