package identities

import (
	"errors"
	"fmt"

	"github.com/zalando/go-keyring"
)

// service is what the keyring's entries are filed under.
const service = "plural"

var errNoKeyring = errors.New("the operating system's keyring may not be used here")

func (s Source) fromKeyring(name string) ([]byte, error) {
	if !s.Keyring {
		return nil, fmt.Errorf("read identity %q: %w", name, errNoKeyring)
	}
	text, err := keyring.Get(service, name)
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, fmt.Errorf("identity %q is gone from the keyring: restore it with plural crypto import", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read identity %q from the keyring: %w", name, err)
	}
	return []byte(text), nil
}

// toKeyring writes an entry that must not be there yet.
func (s Source) toKeyring(name string, text []byte) error {
	if !s.Keyring {
		return fmt.Errorf("save identity %q: %w", name, errNoKeyring)
	}
	switch _, err := keyring.Get(service, name); {
	case err == nil:
		return fmt.Errorf("the keyring holds an identity %q already: choose another name", name)
	case !errors.Is(err, keyring.ErrNotFound):
		return fmt.Errorf("open the keyring: %w", err)
	}
	if err := keyring.Set(service, name, string(text)); err != nil {
		return fmt.Errorf("write identity %q to the keyring: %w", name, err)
	}
	return nil
}
