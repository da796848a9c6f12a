package cmdutil

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/pluralsh/plural/cli/hosts"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/httpclient"
)

// maxToken bounds the file that PLURAL_TOKEN_FILE names, in bytes.
const maxToken = 64 << 10

// HubToken is the token of HubClient for the hub at address, as it is kept now. A token that this machine keeps is for one hub
// and goes to no other. The environment's says of no hub that it is for it, so it goes to the hub that a person has named, and not
// to one that whoever wrote the checked-out repository did. No token goes over a network in clear.
func (f *Factory) HubToken(address string) (string, error) {
	token, from, err := f.environmentToken()
	if err != nil {
		return "", err
	}
	if from != "" {
		if err = f.CheckNamed(address, from); err == nil && token != "" {
			err = f.CheckPlain(address)
		}
		if err != nil {
			return "", err
		}
		return token, nil
	}
	login, err := f.Hosts().Login(address)
	if err == nil && login.Token != "" {
		err = f.CheckPlain(address)
	}
	if err != nil {
		return "", err
	}
	return f.renewed(address, login)
}

// environmentToken is the token that the environment holds, and the variable that has it; empty for none.
func (f *Factory) environmentToken() (token, from string, err error) {
	if token := f.Getenv("PLURAL_TOKEN"); token != "" {
		return token, "PLURAL_TOKEN", nil
	}
	name := f.Getenv("PLURAL_TOKEN_FILE")
	if name == "" {
		return "", "", nil
	}
	text, err := readBounded(name, maxToken)
	if err != nil {
		return "", "", fmt.Errorf("read PLURAL_TOKEN_FILE: %w", err)
	}
	return strings.TrimSpace(string(text)), "PLURAL_TOKEN_FILE", nil
}

// CheckNamed refuses to send a token, which has a name like PLURAL_TOKEN, to a hub that nobody but the checked-out repository names.
func (f *Factory) CheckNamed(address, token string) error {
	for _, named := range []string{f.Hub, f.Getenv("PLURAL_HUB"), f.Setting(settings.Hub)} {
		if named != "" && hosts.Same(named, address) {
			return nil
		}
	}
	if known, err := f.Hosts().Token(address); err != nil || known != "" {
		return err
	}
	return &ui.Err{
		Msg:   fmt.Sprintf("%s is not sent to the hub at %s", token, address),
		Cause: "nobody but the checked-out repository names that hub, and whoever wrote it may name any",
		Fix:   fmt.Sprintf("if the token is for that hub, say so: --hub %s, or PLURAL_HUB=%[1]s beside it", address),
		Doc:   ui.DocUnboundToken, Code: ui.ExitLogin,
	}
}

// CheckPlain refuses to send a token over a network without TLS, unless PLURAL_ALLOW_PLAIN_HTTP says that the network is trusted.
func (f *Factory) CheckPlain(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || httpclient.Loopback(u.Hostname()) || f.Getenv("PLURAL_ALLOW_PLAIN_HTTP") != "" {
		return nil // an address that is none is told by who asks the hub
	}
	return &ui.Err{
		Msg:   fmt.Sprintf("no token is sent to the hub at %s", address),
		Cause: "it is not on this machine and has no TLS, so whoever is on the way could read the token",
		Fix:   "name the hub by an https:// address, or set PLURAL_ALLOW_PLAIN_HTTP=1 where all of the way is yours",
		Doc:   ui.DocPlainHTTP,
	}
}
