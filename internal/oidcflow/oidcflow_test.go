package oidcflow_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pluralsh/plural/internal/oidcflow"
)

func TestEndpointsThatAreNoPagesAreRefused(t *testing.T) {
	for _, at := range []string{"file:///Applications/Calculator.app", "search-ms:query=x", "--new-window", `\\evil.example\share\a.exe`, "http://evil.example/auth", "javascript:alert(1)"} {
		mux := http.NewServeMux()
		server := httptest.NewServer(mux)
		mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": server.URL, "jwks_uri": server.URL, "authorization_endpoint": at, "token_endpoint": "http://evil.example/token"})
		})
		c, err := oidcflow.Discover(t.Context(), oidcflow.Options{Name: "corp", Issuer: server.URL, ClientID: "plural"})
		if err == nil {
			t.Errorf("taken, and given to the browser's program: %s", c.URL(oidcflow.Begin("http://127.0.0.1:1/callback")))
		}
		server.Close()
	}
}
