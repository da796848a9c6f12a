// Package hosts owns the hubs that this person has logged in to, with their tokens.
//
// It refuses to know what a token says or whether it is still good.
//
// The tokens lie in one YAML file, hosts.yaml, that only its owner can read. Each call reads it anew, and Save replaces
// it as a whole.
package hosts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"sigs.k8s.io/yaml"
)

// maxFile bounds what is read, in bytes.
const maxFile = 1 << 20

// Store is a folder with a hosts.yaml in it, or about to have one.
type Store struct {
	dir string
}

// New is the store in dir; empty means $XDG_CONFIG_HOME/plural.
func New(dir string) *Store {
	if dir == "" {
		dir = filepath.Join(xdg.ConfigHome, "plural")
	}
	return &Store{dir: dir}
}

// Path is where the tokens lie.
func (s *Store) Path() string { return filepath.Join(s.dir, "hosts.yaml") }

// file is hosts.yaml, by hub as key gives it.
type file struct {
	Hosts map[string]host `json:"hosts"`
}

type host struct {
	Token string `json:"token"`
	// Provider and Expires are of a login that another may follow.
	Provider string     `json:"provider,omitempty"`
	Issuer   string     `json:"issuer,omitempty"`
	ClientID string     `json:"clientID,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
}

// Login is a token of a login that lasts for some hours.
type Login struct {
	Token string
	// Provider is the name of the identity provider; empty for a program's login. Issuer and ClientID are what it was then.
	Provider, Issuer, ClientID string
	Expires                    time.Time
}

// Token is the token for the hub at address, empty when there is none.
func (s *Store) Token(address string) (string, error) {
	k, err := key(address)
	if err != nil {
		return "", err
	}
	f, err := s.read()
	return f.Hosts[k].Token, err
}

// Save keeps token for the hub at address. An empty token forgets the hub.
func (s *Store) Save(address, token string) error { return s.SaveLogin(address, Login{Token: token}) }

// Login is what is kept for the hub at address. Expires is zero for a token that is not of a login.
func (s *Store) Login(address string) (Login, error) {
	k, err := key(address)
	if err != nil {
		return Login{}, err
	}
	f, err := s.read()
	h := f.Hosts[k]
	l := Login{Token: h.Token, Provider: h.Provider, Issuer: h.Issuer, ClientID: h.ClientID}
	if at := h.Expires; at != nil {
		l.Expires = *at
	}
	return l, err
}

// SaveLogin is Save, for the token of a login.
func (s *Store) SaveLogin(address string, login Login) error {
	k, err := key(address)
	if err != nil {
		return err
	}
	f, err := s.read()
	if err != nil {
		return err
	}
	if f.Hosts == nil {
		f.Hosts = map[string]host{}
	}
	h := host{Token: login.Token, Provider: login.Provider, Issuer: login.Issuer, ClientID: login.ClientID}
	if !login.Expires.IsZero() {
		expires := login.Expires.UTC().Truncate(time.Second)
		h.Expires = &expires
	}
	f.Hosts[k] = h
	if login.Token == "" {
		delete(f.Hosts, k)
	}
	return s.write(f)
}

func (s *Store) read() (file, error) {
	var f file
	r, err := os.Open(s.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read tokens: %w", err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return f, fmt.Errorf("read tokens: %w", err)
	}
	if yaml.UnmarshalStrict(text, &f) != nil {
		// The parser's own words would quote the file, and so a token.
		return file{}, fmt.Errorf("read tokens: %s is not what plural writes; move it away and log in again", s.Path())
	}
	return f, nil
}

func (s *Store) write(f file) error {
	text, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	// CreateTemp makes files that only their owner can read.
	temp, err := os.CreateTemp(s.dir, "hosts-*")
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), s.Path())
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("write tokens: %w", err)
	}
	return nil
}

// Same says whether two addresses are of one hub.
func Same(a, b string) bool {
	one, err := key(a)
	other, failed := key(b)
	return err == nil && failed == nil && one == other
}

// Key is what one hub is filed under, wherever something is kept of it; empty for an address that is none.
func Key(address string) string {
	k, err := key(address)
	if err != nil {
		return ""
	}
	return k
}

// key is what one hub is filed under, however its address was typed: scheme and host, in lower case.
func key(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("hub address %q: write it as https://HOST", address)
	}
	host := strings.ToLower(u.Host)
	scheme := strings.ToLower(u.Scheme)
	switch scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return scheme + "://" + host + strings.TrimRight(u.Path, "/"), nil
}
