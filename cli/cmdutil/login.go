package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/hosts"
	"github.com/pluralsh/plural/internal/oidcflow"
)

const (
	// refreshService is what refresh tokens are filed under in the operating system's keyring, by the hub's address.
	refreshService = "plural login"
	// refreshTimeout bounds the renewal of a login, for which a command waits.
	refreshTimeout = 20 * time.Second
	// refreshBefore is how long before its end a login is renewed.
	refreshBefore = time.Minute
)

// Browse opens an address in the person's browser: $BROWSER, else the system's. An exec.ErrNotFound says that there is none.
func (f *Factory) Browse(ctx context.Context, address string) error {
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return fmt.Errorf("open %.100q: it is no page", address)
	}
	command := []string{"xdg-open"}
	switch browser := strings.Fields(f.Getenv("BROWSER")); {
	case len(browser) > 0:
		command = browser
	case runtime.GOOS == "darwin":
		command = []string{"open"}
	case runtime.GOOS == "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	return exec.CommandContext(ctx, command[0], append(command[1:], address)...).Run()
}

// KeepLogin keeps a session, and a refresh token, if there is one, where nobody but the person's own session finds it. It says whether
// the login will be renewed by itself.
func (f *Factory) KeepLogin(address string, login hosts.Login, refresh string) (renews bool, err error) {
	if err := f.Hosts().SaveLogin(address, login); err != nil {
		return false, err
	}
	if refresh == "" {
		f.forgetRefresh(address)
		return false, nil
	}
	return keyring.Set(refreshService, hosts.Key(address), refresh) == nil, nil // without a keyring one logs in anew
}

// ForgetLogin forgets what this machine has for a hub.
func (f *Factory) ForgetLogin(address string) error {
	f.forgetRefresh(address)
	return f.Hosts().Save(address, "")
}

func (f *Factory) forgetRefresh(address string) {
	_ = keyring.Delete(refreshService, hosts.Key(address)) // most have none
}

// Renews says whether this machine can renew the login to a hub by itself.
func (f *Factory) Renews(address string) bool {
	_, err := keyring.Get(refreshService, hosts.Key(address))
	return err == nil
}

// renewed is a login that goes on: the provider is asked anew when it is about to end and the keyring has a refresh token. What cannot
// be renewed stays as it is, and the hub says that it has ended.
func (f *Factory) renewed(address string, login hosts.Login) (string, error) {
	if login.Provider == "" || login.Expires.IsZero() || f.Now().Before(login.Expires.Add(-refreshBefore)) {
		return login.Token, nil
	}
	refresh, err := keyring.Get(refreshService, hosts.Key(address))
	if err != nil {
		return login.Token, nil //nolint:nilerr // there is no keyring, or nothing in it
	}
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	again, next, err := f.renew(ctx, address, login, refresh)
	if err == nil {
		_, err = f.KeepLogin(address, again, next)
		return again.Token, err
	}
	// A refresh token is good once: another plural may have been faster.
	if now, failed := f.Hosts().Login(address); failed == nil && now.Token != login.Token {
		return now.Token, nil
	}
	if f.Now().Before(login.Expires) {
		return login.Token, nil
	}
	f.Say("the login to %s has ended, and could not be renewed: %v", address, err)
	return login.Token, nil
}

// Flow is how somebody logs in with a provider of the fleet from a terminal.
func Flow(p *v1.LoginProvider) oidcflow.Options {
	return oidcflow.Options{
		Name: p.Name, Issuer: p.Issuer, ClientID: p.ClientID, Secret: oidcflow.Secret(p.ClientSecret), Scopes: p.Scopes, Offline: true,
	}
}

func (f *Factory) renew(ctx context.Context, address string, before hosts.Login, refresh string) (login hosts.Login, next string, err error) {
	hub, err := f.HubAt(address, "")
	if err != nil {
		return login, "", err
	}
	providers, err := hub.LoginProviders(ctx)
	if err != nil {
		return login, "", err
	}
	i := slices.IndexFunc(providers, func(p v1.LoginProvider) bool { return p.Name == before.Provider })
	if i < 0 {
		return login, "", fmt.Errorf("the fleet has no provider %q any longer", before.Provider)
	}
	if providers[i].Issuer != before.Issuer || providers[i].ClientID != before.ClientID { // who gets the refresh token is not for a hub to say
		return login, "", fmt.Errorf("provider %q of the fleet is not the one that you logged in with", before.Provider)
	}
	provider, err := oidcflow.Discover(ctx, Flow(&providers[i]))
	if err != nil {
		return login, "", err
	}
	tokens, err := provider.Refresh(ctx, refresh)
	if err == nil {
		err = provider.Check(ctx, tokens, "")
	}
	if err != nil {
		return login, "", err
	}
	if tokens.Refresh == "" {
		return login, "", errors.New("the provider gave no refresh token")
	}
	session, expires, err := hub.Exchange(ctx, tokens.ID)
	if err != nil {
		return login, "", err
	}
	login = before
	login.Token, login.Expires = session, expires
	return login, tokens.Refresh, nil
}
