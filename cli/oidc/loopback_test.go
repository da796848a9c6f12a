package oidc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/pluralsh/plural/cli/oidc"
	"github.com/pluralsh/plural/internal/oidcflow"
	"github.com/pluralsh/plural/test/support/idp"
)

// providers are two that share no code.
func providers(t *testing.T, test func(*testing.T, *idp.Provider, *oidcflow.Client)) {
	t.Helper()
	for name, start := range map[string]func(testing.TB, idp.Options) *idp.Provider{"zitadel": idp.Start, "node": idp.StartNode} {
		t.Run(name, func(t *testing.T) {
			p := start(t, idp.Options{Users: []idp.User{{Subject: "00u1abc", Name: "ada-l", Password: "correct horse"}}})
			c, err := oidcflow.Discover(t.Context(), oidcflow.Options{Name: "corp", Issuer: p.Issuer, ClientID: idp.ClientID, Offline: true})
			if err != nil {
				t.Fatal(err)
			}
			test(t, p, c)
		})
	}
}

// elsewhere is a redirect URL at which nobody listens.
const elsewhere = "http://127.0.0.1:9/callback"

// answer is what ada's browser ends at, where nobody listens.
func answer(t *testing.T, p *idp.Provider, address string) url.Values {
	t.Helper()
	_, err := p.Browser(t, "ada-l").Open(address)
	failed := new(url.Error)
	if !errors.As(err, &failed) || !strings.HasPrefix(failed.URL, elsewhere) {
		t.Fatal(err)
	}
	ended, err := url.Parse(failed.URL)
	if err != nil {
		t.Fatal(err)
	}
	return ended.Query()
}

func get(t *testing.T, address, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// I10.
func TestWhatIsNotTheAnswerToALoginChangesNothing(t *testing.T) {
	providers(t, func(t *testing.T, p *idp.Provider, c *oidcflow.Client) {
		var redirect string
		tokens, err := oidc.Login(t.Context(), c, oidc.Ways{Open: func(_ context.Context, address string) error {
			u, err := url.Parse(address)
			if err != nil {
				return err
			}
			redirect = u.Query().Get("redirect_uri")
			state := u.Query().Get("state")
			at, err := url.Parse(redirect)
			if err != nil {
				return err
			}
			if at.Hostname() != "127.0.0.1" || u.Query().Get("code_challenge_method") != "S256" || u.Query().Get("nonce") == "" || state == "" {
				t.Errorf("the login begins at %s", address)
			}
			for name, test := range map[string]struct {
				address, host string
				want          int
			}{
				"another program's guess":        {redirect + "?code=x&state=guess", "", http.StatusBadRequest},
				"no state":                       {redirect + "?code=x", "", http.StatusBadRequest},
				"a no with another state":        {redirect + "?error=access_denied&state=guess", "", http.StatusBadRequest},
				"a name that was made lead here": {redirect + "?code=x&state=" + state, "evil.example.com", http.StatusMisdirectedRequest},
				"localhost":                      {redirect + "?code=x&state=" + state, "localhost:" + at.Port(), http.StatusMisdirectedRequest},
				"another path":                   {strings.TrimSuffix(redirect, "/callback") + "/?code=x&state=" + state, "", http.StatusNotFound},
			} {
				if got, text := get(t, test.address, test.host); got != test.want || strings.Contains(text, "guess") {
					t.Errorf("%s: %d %s", name, got, text)
				}
			}
			_, err = p.Browser(t, "ada-l").Open(address)
			return err
		}})
		if err != nil || tokens.ID == "" || tokens.Refresh == "" {
			t.Fatalf("%+v, %v", tokens, err)
		}
		if _, err := http.Get(redirect); err == nil {
			t.Error("it waits on when the login is over")
		}
		again, err := c.Refresh(t.Context(), tokens.Refresh)
		if err == nil {
			err = c.Check(t.Context(), again, "")
		}
		if err != nil {
			t.Fatalf("refreshed: %v", err)
		}
		p.SetUsers(t)
		if _, err := c.Refresh(t.Context(), again.Refresh); !errors.As(err, new(*oauth2.RetrieveError)) {
			t.Errorf("of somebody who is gone: %v", err)
		}
	})
}

func TestACodeIsForTheLoginThatBeganAlone(t *testing.T) {
	providers(t, func(t *testing.T, p *idp.Provider, c *oidcflow.Client) {
		for name, test := range map[string]struct {
			change func(*oidcflow.Attempt)
			want   string
		}{
			"as it began":          {func(*oidcflow.Attempt) {}, ""},
			"another state":        {func(a *oidcflow.Attempt) { a.State = "x" }, "not the answer"},
			"no state":             {func(a *oidcflow.Attempt) { a.State = "" }, "not the answer"},
			"another verifier":     {func(a *oidcflow.Attempt) { a.Verifier = oidcflow.Begin(elsewhere).Verifier }, "exchange the code"},
			"another redirect URL": {func(a *oidcflow.Attempt) { a.Redirect = "http://127.0.0.1:10/callback" }, "exchange the code"},
			"another nonce":        {func(a *oidcflow.Attempt) { a.Nonce = "x" }, "of another login"},
		} {
			a := oidcflow.Begin(elsewhere)
			said := answer(t, p, c.URL(a))
			test.change(a)
			if a.State == "" {
				said.Del("state")
			}
			code, err := c.Code(a, said)
			var tokens *oidcflow.Tokens
			if err == nil {
				tokens, err = c.Exchange(t.Context(), a, code)
			}
			if err == nil {
				err = c.Check(t.Context(), tokens, a.Nonce)
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestTheURLOfABrowserElsewhereIsPasted(t *testing.T) {
	providers(t, func(t *testing.T, p *idp.Provider, c *oidcflow.Client) {
		for _, test := range []struct{ pasted, want string }{
			{"STARTS?code=x&state=STATE&iss=" + url.QueryEscape(p.Issuer), "exchange the code"}, // it gets as far as the provider
			{" STARTS?code=x&state=STATE&iss=" + url.QueryEscape(p.Issuer) + "\n", "exchange the code"},
			{"STARTS?code=x&state=other", "not the answer"},
			{"STARTS?code=x&state=STATE&iss=https://evil.example.com", "another provider"},
			{"STARTS?state=STATE&iss=" + url.QueryEscape(p.Issuer), "no code"},
			{"STARTS?state=STATE&error=access_denied&iss=" + url.QueryEscape(p.Issuer), "says no"},
			{"https://login.example.com/?code=x&state=STATE", "not the URL"},
			{"", "not the URL"},
		} {
			at := make(chan string, 1)
			_, err := oidc.Login(t.Context(), c, oidc.Ways{
				Open: func(_ context.Context, address string) error { at <- address; return nil },
				Pasted: func(context.Context) (string, error) {
					begun, err := url.Parse(<-at)
					if err != nil {
						return "", err
					}
					q := begun.Query()
					return strings.NewReplacer("STARTS", q.Get("redirect_uri"), "STATE", q.Get("state")).Replace(test.pasted), nil
				},
			})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q: %v", test.pasted, err)
			}
		}
	})
}

func TestALoginEndsWithItsContext(t *testing.T) {
	providers(t, func(t *testing.T, _ *idp.Provider, c *oidcflow.Client) {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := oidc.Login(ctx, c, oidc.Ways{Open: func(context.Context, string) error {
			cancel(errors.New("Ctrl-C"))
			return nil
		}})
		if err == nil || !strings.Contains(err.Error(), "Ctrl-C") {
			t.Error(err)
		}
	})
}

func TestADeviceLogsInWithACode(t *testing.T) {
	providers(t, func(t *testing.T, p *idp.Provider, c *oidcflow.Client) {
		tokens, err := c.Device(t.Context(), func(address, code string, until time.Time) {
			if code == "" || !until.After(time.Now()) {
				t.Errorf("code %q until %s", code, until)
			}
			if _, err := p.Browser(t, "ada-l").Open(address + "?user_code=" + url.QueryEscape(code)); err != nil {
				t.Error(err)
			}
		})
		if err == nil {
			err = c.Check(t.Context(), tokens, "")
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAProviderWithoutTLSIsRefusedUnlessItIsOfThisMachine(t *testing.T) {
	_, err := oidcflow.Discover(t.Context(), oidcflow.Options{Name: "corp", Issuer: "http://login.example.com", ClientID: "plural"})
	if err == nil || !strings.Contains(err.Error(), "use https") {
		t.Error(err)
	}
	p := idp.Start(t, idp.Options{})
	if _, err := oidcflow.Discover(t.Context(), oidcflow.Options{Name: "corp", Issuer: p.Issuer, ClientID: "plural", NoLoopback: true}); err == nil {
		t.Error("a provider on this machine is asked where it must not be")
	}
}
