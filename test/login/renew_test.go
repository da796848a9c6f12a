package login

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/hosts"
	"github.com/pluralsh/plural/cli/oidc"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/oidcflow"
	"github.com/pluralsh/plural/test/support/idp"
)

// renews has what the CLI does in this process, where a keyring can stand in for the operating system's.
func renews(t *testing.T, w *world) {
	keyring.MockInit()
	var said bytes.Buffer
	ahead := time.Duration(0)
	env := map[string]string{"PLURAL_CONFIG_DIR": t.TempDir(), "PLURAL_HUB": w.hub}
	f := &cmdutil.Factory{
		IO: &ui.Streams{ErrOut: &said}, Version: "test", Now: func() time.Time { return time.Now().Add(ahead) }, Getenv: func(name string) string { return env[name] },
	}
	flow, err := oidcflow.Discover(t.Context(), oidcflow.Options{Name: "corp", Issuer: w.corp.Issuer, ClientID: idp.ClientID, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := oidc.Login(t.Context(), flow, oidc.Ways{Open: func(_ context.Context, address string) error {
		_, err := w.corp.Browser(t, "ada-l").Open(address)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	hub, err := client.New(w.hub, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	first, expires, err := hub.Exchange(t.Context(), tokens.ID)
	if err != nil {
		t.Fatal(err)
	}
	if renews, err := f.KeepLogin(w.hub, hosts.Login{
		Token: first, Provider: "corp", Issuer: w.corp.Issuer, ClientID: idp.ClientID, Expires: expires,
	}, tokens.Refresh); err != nil || !renews || !f.Renews(w.hub) {
		t.Fatal(renews, err)
	}
	token := func() string {
		token, err := f.HubToken(w.hub)
		if err != nil {
			t.Fatal(err)
		}
		hub.As(token)
		if me, err := hub.Me(t.Context()); err != nil || me.Name != "ada" {
			t.Errorf("%+v, %v", me, err)
		}
		return token
	}
	if token() != first {
		t.Error("a login is renewed that has just begun")
	}
	ahead = 12*time.Hour - 30*time.Second
	second := token()
	if second == first {
		t.Error("a login that is about to end is not renewed")
	}
	ahead *= 2
	if third := token(); third == second { // a refresh token is good once
		t.Error("a login is renewed once alone")
	}
	ahead *= 2
	w.corp.Down(true)
	last := token()
	w.corp.Down(false)
	if said := said.String(); !strings.Contains(said, "could not be renewed") || strings.Contains(said, tokens.Refresh) {
		t.Errorf("with the provider away: %q", said)
	}
	if err := f.ForgetLogin(w.hub); err != nil || f.Renews(w.hub) {
		t.Error("a refresh token is left after logging out")
	}
	for _, secret := range []string{first, second, last, tokens.Refresh} {
		if strings.Contains(said.String(), secret) {
			t.Error("a token is shown")
		}
	}
}
