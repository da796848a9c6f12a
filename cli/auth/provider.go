package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/hosts"
	"github.com/pluralsh/plural/cli/oidc"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/oidcflow"
)

const (
	// maxIDToken bounds an ID token, in bytes.
	maxIDToken = 32 << 10
	// loginTimeout is how long a person may take at the provider's page.
	loginTimeout = 10 * time.Minute
)

// byProvider logs in with an identity provider of the fleet.
func (o *loginOptions) byProvider(ctx context.Context, hub *client.Client, providers []v1.LoginProvider) error {
	chosen, err := o.choose(ctx, providers)
	if err != nil {
		return err
	}
	provider, err := oidcflow.Discover(ctx, cmdutil.Flow(chosen))
	if err != nil {
		return &ui.Err{
			Msg: "the identity provider does not answer as one", Cause: err.Error(), Fix: "see that this machine reaches " + chosen.Issuer,
			Doc: ui.DocLogin, Err: err,
		}
	}
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	var tokens *oidcflow.Tokens
	if o.device {
		tokens, err = o.byDevice(ctx, provider, chosen)
	} else {
		tokens, err = oidc.Login(ctx, provider, o.ways(chosen))
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &ui.Err{
			Msg: fmt.Sprintf("nobody logged in with provider %s for %s", chosen.Name, loginTimeout), Fix: "plural auth login",
			Doc: ui.DocLogin, Code: ui.ExitLogin, Err: err,
		}
	case err != nil:
		return &ui.Err{
			Msg: "not logged in with provider " + chosen.Name, Cause: err.Error(), Fix: "plural auth login, once more",
			Doc: ui.DocLogin, Code: ui.ExitLogin, Err: err,
		}
	}
	login := hosts.Login{Provider: chosen.Name, Issuer: chosen.Issuer, ClientID: chosen.ClientID}
	return o.exchange(ctx, hub, tokens.ID, login, tokens.Refresh)
}

// choose finds the provider that is meant.
func (o *loginOptions) choose(ctx context.Context, providers []v1.LoginProvider) (*v1.LoginProvider, error) {
	var names []string
	for i := range providers {
		names = append(names, providers[i].Name)
	}
	name := o.provider
	switch {
	case len(providers) == 0:
		return nil, &ui.Err{
			Msg: "the fleet has no identity provider",
			Fix: "write one into access/: plural explain provider; or plural auth login --with-token", Doc: ui.DocLogin,
		}
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "" && !o.factory.Prompter().Able():
		return nil, &ui.Err{Msg: "the fleet has several identity providers", Fix: "give one: --provider " + strings.Join(names, ", --provider "), Doc: ui.DocNoInput}
	case name == "":
		question := ui.Question{Flag: "provider", Title: "Identity provider", Help: strings.Join(names, ", "), Value: &name, Check: func(s string) error {
			if !slices.Contains(names, s) {
				return errors.New("one of " + strings.Join(names, ", "))
			}
			return nil
		}}
		if err := o.factory.Prompter().Ask(ctx, []ui.Question{question}); err != nil {
			return nil, err
		}
	}
	i := slices.Index(names, name)
	if i < 0 {
		return nil, &ui.Err{Msg: fmt.Sprintf("the fleet has no identity provider %q", ui.Clean(name)), Fix: "one of " + strings.Join(names, ", "), Doc: ui.DocNotFound}
	}
	chosen := &providers[i]
	if o.device && !chosen.Device {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("provider %s allows no login by code", name), Cause: "spec.device of the Provider is not true",
			Fix: "plural auth login --no-browser, which works over SSH", Doc: ui.DocLogin,
		}
	}
	return chosen, nil
}

// ways are how the person gets to the provider's page and back. Over SSH a browser is elsewhere.
func (o *loginOptions) ways(chosen *v1.LoginProvider) oidc.Ways {
	f := o.factory
	elsewhere := o.withoutBrowser || f.Getenv("BROWSER") == "" && f.Getenv("SSH_CONNECTION") != ""
	show := func(address string) {
		f.Say("log in with %s in a browser at:", ui.Clean(chosen.Name))
		f.Say("  %s", ui.Clean(address))
	}
	ways := oidc.Ways{Open: func(ctx context.Context, address string) error {
		if elsewhere {
			show(address)
			return nil
		}
		f.Say("the page of %s opens in your browser; %s waits for you to log in there", ui.Clean(chosen.Name), "plural")
		if f.Browse(ctx, address) != nil {
			show(address)
		}
		return nil
	}}
	if elsewhere && f.Prompter().Able() {
		ways.Pasted = func(ctx context.Context) (string, error) {
			var text string
			question := ui.Question{
				Flag: "no-browser", Title: "The address that the browser ended at", Help: "if its page does not load, copy it from the address bar", Value: &text,
			}
			err := f.Prompter().Ask(ctx, []ui.Question{question})
			return text, err
		}
	}
	return ways
}

func (o *loginOptions) byDevice(ctx context.Context, provider *oidcflow.Client, chosen *v1.LoginProvider) (*oidcflow.Tokens, error) {
	f := o.factory
	tokens, err := provider.Device(ctx, func(address, code string, until time.Time) {
		f.Say("log in with %s on any device at %s with this code, until %s:", ui.Clean(chosen.Name), ui.Clean(address), until.Local().Format("15:04"))
		f.Say("  %s", ui.Clean(code))
		f.Say("type in no code that somebody has sent you: it would log them in as you")
	})
	if err == nil {
		err = provider.Check(ctx, tokens, "")
	}
	return tokens, err
}

// exchange has the hub take an ID token, and keeps the session.
func (o *loginOptions) exchange(ctx context.Context, hub *client.Client, idToken string, login hosts.Login, refresh string) error {
	f := o.factory
	session, expires, err := hub.Exchange(ctx, idToken)
	if err != nil {
		return err
	}
	me, err := whoIs(ctx, f, o.address, session)
	if err != nil {
		return err
	}
	login.Token, login.Expires = session, expires
	renews, err := f.KeepLogin(o.address, login, refresh)
	if err != nil {
		return err
	}
	o.greet(me)
	if !renews {
		f.Say("this login ends at %s", expires.Local().Format("2006-01-02 15:04"))
	}
	return nil
}

// byMachine logs a program in.
func (o *loginOptions) byMachine(ctx context.Context, idToken, from string) error {
	if err := o.factory.CheckNamed(o.address, from); err != nil {
		return err
	}
	hub, err := o.factory.HubAt(o.address, "")
	if err != nil {
		return err
	}
	return o.exchange(ctx, hub, idToken, hosts.Login{}, "")
}

// machineToken is the token that a program has from where it runs, and what has it; empty for none.
func (o *loginOptions) machineToken(ctx context.Context) (token, from string, err error) {
	f := o.factory
	person := o.provider != "" || o.device || o.withoutBrowser
	switch file := f.Getenv("PLURAL_ID_TOKEN_FILE"); {
	case o.idToken:
		from = "the token of --with-id-token"
		text, err := io.ReadAll(io.LimitReader(f.IO.In, maxIDToken+1))
		if err != nil {
			return "", "", fmt.Errorf("read ID token: %w", err)
		}
		token = string(text)
	case person:
		return "", "", nil
	case f.Getenv("PLURAL_ID_TOKEN") != "":
		from = "PLURAL_ID_TOKEN"
		token = f.Getenv(from)
	case file != "":
		from = "PLURAL_ID_TOKEN_FILE"
		text, err := os.ReadFile(file)
		if err != nil {
			return "", "", fmt.Errorf("read PLURAL_ID_TOKEN_FILE: %w", err)
		}
		token = string(text)
	case f.Getenv("ACTIONS_ID_TOKEN_REQUEST_URL") != "" && !f.Prompter().Able():
		from = "the job's token of GitHub"
		if token, err = githubToken(ctx, f.Getenv("ACTIONS_ID_TOKEN_REQUEST_URL"), f.Getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN"), o.address); err != nil {
			return "", "", &ui.Err{
				Msg: "GitHub gave the job no ID token", Cause: err.Error(), Fix: "give the job permissions: {id-token: write}", Doc: ui.DocLogin, Err: err,
			}
		}
	default:
		return "", "", nil
	}
	if token = strings.TrimSpace(token); token == "" || len(token) > maxIDToken || strings.ContainsAny(token, " \t\r\n") {
		return "", "", &ui.Err{Msg: from + " is no ID token: one is a single word", Fix: "see that the job asks for one whose audience is " + o.address, Doc: ui.DocLogin}
	}
	return token, from, nil
}

// githubToken asks GitHub for the token of the job that runs, as its documentation of OpenID Connect says.
func githubToken(ctx context.Context, address, bearer, audience string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && !httpclient.Loopback(u.Hostname()) {
		return "", errors.New("ACTIONS_ID_TOKEN_REQUEST_URL is no address of GitHub")
	}
	query := u.Query()
	query.Set("audience", audience)
	u.RawQuery = query.Encode()
	client, err := httpclient.Client(httpclient.Options{For: u, MaxBytes: maxIDToken})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+bearer)
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if err := httpclient.CheckStatus(answer, httpclient.Credentials{}); err != nil {
		return "", err
	}
	var said struct{ Value string }
	text, err := io.ReadAll(answer.Body)
	if err != nil || json.NewDecoder(bytes.NewReader(text)).Decode(&said) != nil { // the text may hold a token
		return "", errors.New("its answer is not what GitHub sends")
	}
	return said.Value, nil
}
