package httpclient

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Credentials are what one upstream's server may be shown. Whatever prints them prints nothing of them.
type Credentials struct {
	// Username with Password is for HTTP's basic scheme. Password alone opens SSHKey.
	Username, Password string
	// Bearer is a token for HTTP's bearer scheme.
	Bearer string
	// SSHKey is a private key in PEM, KnownHosts the host keys that are accepted, in OpenSSH's format.
	SSHKey, KnownHosts []byte
	// CA holds certificates in PEM that are trusted besides the system's.
	CA []byte
	// DockerConfig is the JSON of a registry log-in, as Kubernetes keeps it.
	DockerConfig []byte
}

// The names of credentials, in a sealed file or a mounted Secret.
const (
	keyUsername     = "username"
	keyPassword     = "password"
	keyBearer       = "bearerToken"
	keySSH          = "identity"
	keyKnownHosts   = "known_hosts"
	keyCA           = "ca.crt"
	keyDockerConfig = ".dockerconfigjson"
)

// maxValue bounds one value, in bytes.
const maxValue = 1 << 20

// ParseCredentials takes the keys username, password, bearerToken, identity (a private SSH key), known_hosts, ca.crt and
// .dockerconfigjson. An unknown key is an error: a misspelt password would be a silent log-in as nobody.
func ParseCredentials(values map[string]string) (Credentials, error) {
	var c Credentials
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		if len(value) > maxValue {
			return Credentials{}, fmt.Errorf("credentials: %s: longer than %d bytes", key, maxValue)
		}
		if err := c.set(key, value); err != nil {
			return Credentials{}, err
		}
	}
	return c, c.check()
}

func (c *Credentials) set(key, value string) error {
	line := strings.TrimRight(value, "\r\n")
	switch key {
	case keyUsername:
		c.Username = line
	case keyPassword:
		c.Password = line
	case keyBearer:
		c.Bearer = line
	case keySSH:
		c.SSHKey = []byte(value)
	case keyKnownHosts:
		c.KnownHosts = []byte(value)
	case keyCA:
		c.CA = []byte(value)
	case keyDockerConfig:
		c.DockerConfig = []byte(value)
	default:
		return fmt.Errorf("credentials: unknown key %.100q: %s", key, nearestKey(key))
	}
	return nil
}

// nearestKey is the fix for a misspelt key.
func nearestKey(key string) string {
	known := []string{keyUsername, keyPassword, keyBearer, keySSH, keyKnownHosts, keyCA, keyDockerConfig}
	const slips = 3
	best, least := "", slips+1
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(key[:min(len(key), 64)]), strings.ToLower(k), nil); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	return "known keys are " + strings.Join(known, ", ")
}

// check refuses what no server could be shown as it was meant.
func (c Credentials) check() error {
	control := func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
	}
	switch {
	case control(c.Username), control(c.Password), strings.ContainsAny(c.Bearer, " \t") || control(c.Bearer):
		return errors.New("credentials: username, password and bearerToken are one line each, and a token has no spaces")
	case strings.Contains(c.Username, ":"):
		return errors.New("credentials: a username with a colon cannot be sent")
	case c.Bearer != "" && c.Username != "":
		return errors.New("credentials: both bearerToken and username: keep the one that the server wants")
	case c.Password != "" && c.Username == "" && len(c.SSHKey) == 0:
		return errors.New("credentials: password without username: add the username; beside a token most hosts take any")
	case c.Username != "" && c.Password == "" && len(c.SSHKey) == 0:
		return errors.New("credentials: username without password")
	}
	return nil
}

// ReadCredentials takes the same names as files of a folder, such as a mounted Secret.
func ReadCredentials(dir string) (Credentials, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Credentials{}, fmt.Errorf("read credentials: %w", err)
	}
	values := map[string]string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") { // how Kubernetes swaps a Secret's files at once
			continue
		}
		if values[e.Name()], err = readValue(filepath.Join(dir, e.Name())); err != nil {
			return Credentials{}, fmt.Errorf("read credentials: %w", err)
		}
	}
	c, err := ParseCredentials(values)
	if err != nil {
		return Credentials{}, fmt.Errorf("folder %s: %w", dir, err)
	}
	return c, nil
}

func readValue(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, maxValue+1))
	return string(value), err
}

// Zero says that there are none.
func (c Credentials) Zero() bool { return len(c.Keys()) == 0 }

// Keys are the names of those that are set.
func (c Credentials) Keys() []string {
	var keys []string
	for _, have := range []struct {
		key string
		len int
	}{
		{keyUsername, len(c.Username)},
		{keyPassword, len(c.Password)},
		{keyBearer, len(c.Bearer)},
		{keySSH, len(c.SSHKey)},
		{keyKnownHosts, len(c.KnownHosts)},
		{keyCA, len(c.CA)},
		{keyDockerConfig, len(c.DockerConfig)},
	} {
		if have.len > 0 {
			keys = append(keys, have.key)
		}
	}
	return keys
}

const redacted = "[redacted]"

// Format implements fmt.Formatter, for every verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String implements fmt.Stringer.
func (c Credentials) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (c Credentials) GoString() string { return redacted }

// LogValue implements slog.LogValuer.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler.
func (c Credentials) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
