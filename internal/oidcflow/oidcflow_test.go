package oidcflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"

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

// asked is a provider that takes codes of the client page alone, by its secret, and what it was sent last.
func asked(t *testing.T, methods []string, answer func(w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": server.URL, "jwks_uri": server.URL, "authorization_endpoint": server.URL + "/auth", "token_endpoint": server.URL + "/token",
			"token_endpoint_auth_methods_supported": methods,
		})
	})
	mux.HandleFunc("POST /token", answer)
	return server
}

func TestAConfidentialClientSaysItsSecretAsTheProviderWantsIt(t *testing.T) {
	const secret = "a+b/c d"
	for name, test := range map[string]struct {
		methods []string
		secret  oidcflow.Secret
		header  bool
		form    string
	}{
		"the provider does not say":   {nil, secret, true, ""},
		"it takes a header":           {[]string{"private_key_jwt", "client_secret_basic"}, secret, true, ""},
		"it takes both":               {[]string{"client_secret_post", "client_secret_basic"}, secret, true, ""},
		"it takes a form alone":       {[]string{"client_secret_post"}, secret, false, secret},
		"the client is a public one":  {[]string{"client_secret_basic", "none"}, "", false, ""},
		"public, and it does not say": {nil, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := asked(t, test.methods, func(w http.ResponseWriter, r *http.Request) {
				user, password, header := r.BasicAuth()
				if header != test.header || header && (user != "page" || password != url.QueryEscape(secret)) {
					t.Errorf("%q, %q, %v", user, password, header)
				}
				if got := r.PostFormValue("client_secret"); got != test.form || r.PostFormValue("code_verifier") == "" {
					t.Errorf("%v", r.PostForm)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"access_token":"x","token_type":"Bearer","id_token":"y"}`))
			})
			c, err := oidcflow.Discover(t.Context(), oidcflow.Options{Name: "corp", Issuer: server.URL, ClientID: "page", Secret: test.secret})
			if err != nil {
				t.Fatal(err)
			}
			a := oidcflow.Begin("http://127.0.0.1/auth/callback")
			if at := c.URL(a); strings.Contains(at, "secret") || strings.Contains(at, url.QueryEscape(secret)) {
				t.Errorf("the browser is sent to %s", at)
			}
			if _, err := c.Exchange(t.Context(), a, "code"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestErrorsDoNotRepeatAClientsSecret(t *testing.T) {
	const secret oidcflow.Secret = "canary+4711/x y"
	if text := fmt.Sprintf("%v %+v %#v %s", secret, oidcflow.Options{Secret: secret}, oidcflow.Options{Secret: secret}, secret); strings.Contains(text, "4711") {
		t.Error(text)
	}
	for name, answer := range map[string]string{
		"as it was sent":  `client page with canary+4711/x y`,
		"as a form":       `client_id=page&client_secret=` + url.QueryEscape(string(secret)),
		"as OAuth errors": `{"error":"canary+4711/x y","error_description":"bad canary+4711/x y","error_uri":"https://x/?canary%2B4711%2Fx+y"}`,
	} {
		server := asked(t, []string{"client_secret_post"}, func(w http.ResponseWriter, _ *http.Request) {
			if strings.HasPrefix(answer, "{") {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(answer))
		})
		c, err := oidcflow.Discover(t.Context(), oidcflow.Options{Name: "corp", Issuer: server.URL, ClientID: "page", Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		_, exchange := c.Exchange(t.Context(), oidcflow.Begin("http://127.0.0.1/auth/callback"), "code")
		_, refresh := c.Refresh(t.Context(), "token")
		for _, err := range []error{exchange, refresh} {
			refusal := new(oauth2.RetrieveError)
			if !errors.As(err, &refusal) || strings.Contains(err.Error(), "4711") || strings.Contains(string(refusal.Body), "4711") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
