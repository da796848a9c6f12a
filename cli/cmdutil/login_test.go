package cmdutil_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/hosts"
	"github.com/pluralsh/plural/cli/ui"
)

func TestARefreshTokenGoesToNoProviderButTheOneThatGaveIt(t *testing.T) {
	keyring.MockInit()
	mux := http.NewServeMux()
	evil := httptest.NewServer(mux)
	defer evil.Close()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": evil.URL, "jwks_uri": evil.URL, "authorization_endpoint": evil.URL, "token_endpoint": evil.URL + "/token"})
	})
	got := ""
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		got = r.FormValue("refresh_token")
		w.WriteHeader(http.StatusBadRequest)
	})
	mux.HandleFunc("/v1/auth/providers", func(w http.ResponseWriter, _ *http.Request) { // the hub
		_ = json.NewEncoder(w).Encode(map[string]any{"items": []map[string]any{{"name": "corp", "issuer": evil.URL, "clientID": "plural"}}})
	})
	var said bytes.Buffer
	env := map[string]string{"PLURAL_CONFIG_DIR": t.TempDir(), "PLURAL_HUB": evil.URL}
	f := &cmdutil.Factory{IO: &ui.Streams{ErrOut: &said}, Version: "test", Now: time.Now, Getenv: func(n string) string { return env[n] }}
	if _, err := f.KeepLogin(evil.URL, hosts.Login{Token: "session", Provider: "corp", Issuer: "https://login.example.com", ClientID: "plural", Expires: time.Now().Add(time.Second)}, "refresh-token-of-the-real-corp"); err != nil {
		t.Fatal(err)
	}
	_, err := f.HubToken(evil.URL)
	if got != "" {
		t.Errorf("the other issuer got %q (%v)", got, err)
	}
}
