package cmdutil

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"
	"golang.org/x/term"

	"github.com/pluralsh/plural/crypto/identities"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/workspace"
)

// ConfigDir is the person's configuration folder: PLURAL_CONFIG_DIR, else plural in the XDG configuration folder.
func (f *Factory) ConfigDir() string {
	return cmp.Or(f.Getenv("PLURAL_CONFIG_DIR"), filepath.Join(xdg.ConfigHome, "plural"))
}

// TakeIdentity takes the identity that the environment holds out of it, and is a Getenv that still has it: programs that this one
// starts are not given a key that is none of their business. OwnEnvironment is for those that are this program again.
func TakeIdentity() (getenv func(string) string, err error) {
	identity := os.Getenv(identities.EnvText)
	if err := os.Unsetenv(identities.EnvText); err != nil {
		return nil, fmt.Errorf("take %s out of the environment: %w", identities.EnvText, err)
	}
	return func(name string) string {
		if name == identities.EnvText {
			return identity
		}
		return os.Getenv(name)
	}, nil
}

// OwnEnvironment is what a program that is this one, or runs it, has to have in its environment besides.
func (f *Factory) OwnEnvironment() []string {
	identity := f.Getenv(identities.EnvText)
	if identity == "" {
		return nil
	}
	return []string{identities.EnvText + "=" + identity}
}

// Identities is where the person's private keys are looked for.
func (f *Factory) Identities() identities.Source {
	s := identities.Source{Dir: identities.Dir(f.ConfigDir()), Getenv: f.Getenv, Home: f.Getenv("HOME"), Keyring: true}
	if !f.NoInput && f.Getenv("CI") == "" {
		s.Ask = askTerminal
	}
	return s
}

// Confirmed is what the person has confirmed of who can read what.
func (f *Factory) Confirmed() trust.Store {
	return trust.Store{Dir: filepath.Join(f.ConfigDir(), "confirmed")}
}

// Keys are what the person seals and opens with.
func (f *Factory) Keys() workspace.Keys {
	return workspace.Keys{Identities: f.Identities().Load, Confirmed: f.Confirmed()}
}

// askTerminal asks for a secret on the terminal that the process belongs to, whatever its streams are: git gives its own
// to filters and hooks.
func askTerminal(prompt string) (answer string, err error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", errors.New("a passphrase is needed, and there is no terminal to ask on")
	}
	defer func() { err = errors.Join(err, tty.Close()) }()
	fmt.Fprint(tty, prompt+": ")
	typed, err := term.ReadPassword(int(tty.Fd()))
	fmt.Fprintln(tty)
	return string(typed), err
}
