package httpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// whole has a value for every key, each with the word hunter2 in it.
func whole() Credentials {
	return Credentials{
		Username: "hunter2-user", Password: "hunter2", Bearer: "hunter2-token", SSHKey: []byte("hunter2"), KnownHosts: []byte("hunter2"),
		CA: []byte("hunter2"), DockerConfig: []byte("hunter2"),
	}
}

func TestNothingPrintsCredentials(t *testing.T) {
	c := whole()
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T %v"} {
		fmt.Fprintf(&out, verb+"\n", c, &c)
		fmt.Fprintf(&out, verb+"\n", Options{Credentials: c}, []Credentials{c})
	}
	fmt.Fprintln(&out, c, &c, c.String(), c.GoString(), errors.New(fmt.Sprint(c)))
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "c", c, "p", &c, "o", Options{Credentials: c})
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "c", c, "p", &c, "o", Options{Credentials: c})
	if err := json.NewEncoder(&out).Encode(map[string]any{"c": c, "o": Options{Credentials: c}}); err != nil {
		t.Fatal(err)
	}
	client, err := Client(Options{For: &url.URL{Scheme: "https", Host: "example.org"}, Credentials: Credentials{Username: "hunter2", Password: "hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "%v %+v %#v", client, client, client)
	for _, form := range []string{"hunter2", "68756e74657232", "[104 117"} {
		if strings.Contains(strings.ToLower(out.String()), form) {
			t.Errorf("%q shows in %s", form, out.String())
		}
	}
}

func TestCredentialsAreReadAsAMountedSecretHasThem(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "..2026_11_01")
	for _, err := range []error{
		os.Mkdir(data, 0o700), os.WriteFile(filepath.Join(data, "username"), []byte("ada\n"), 0o600),
		os.WriteFile(filepath.Join(data, "password"), []byte("hunter2\r\n"), 0o600), os.Symlink("..2026_11_01", filepath.Join(dir, "..data")),
		os.Symlink("..data/username", filepath.Join(dir, "username")), os.Symlink("..data/password", filepath.Join(dir, "password")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := ReadCredentials(dir)
	if err != nil || c.Username != "ada" || c.Password != "hunter2" || strings.Join(c.Keys(), " ") != "username password" || c.Zero() {
		t.Errorf("ReadCredentials: keys %q, %v", c.Keys(), err)
	}
	if _, err := ReadCredentials(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing folder is no error")
	}
}

func TestMistakenCredentialsSayWhatToDo(t *testing.T) {
	for want, values := range map[string]map[string]string{
		"did you mean password?":     {"pasword": "hunter2"},
		"did you mean known_hosts?":  {"known-hosts": "hunter2"},
		"did you mean bearerToken?":  {"bearertoken": "hunter2"},
		"known keys are username":    {"something": "hunter2"},
		"password without username":  {"password": "hunter2"},
		"username without password":  {"username": "hunter2"},
		"both bearerToken and":       {"username": "a", "password": "hunter2", "bearerToken": "hunter2"},
		"one line each":              {"bearerToken": "hunter2\nX-Evil: 1"},
		"username with a colon":      {"username": "a:b", "password": "hunter2"},
		"longer than 1048576 bytes":  {"identity": strings.Repeat("hunter2", 1<<18)},
		"known keys are username, p": {strings.Repeat("hunter3", 100_000): ""},
	} {
		if _, err := ParseCredentials(values); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("ParseCredentials: %v, want %q", err, want)
		}
	}
	c, err := ParseCredentials(map[string]string{"identity": "key", "password": "opens it", "known_hosts": "h"})
	if err != nil || c.Password != "opens it" {
		t.Errorf("a key with its passphrase: %v", err)
	}
	if c, err := ParseCredentials(nil); err != nil || !c.Zero() {
		t.Errorf("no credentials: %v", err)
	}
}

func TestCredentialsAreTakenOutOfURLsAndErrors(t *testing.T) {
	for raw, want := range map[string]string{
		"https://user:hunter2@example.org/x": "https://redacted@example.org/x", "https://token@example.org/x": "https://redacted@example.org/x",
		"ssh://git@example.org/x": "ssh://git@example.org/x", "https://example.org/x": "https://example.org/x",
		"https://u:hun%ter2@example.org": "redacted@example.org",
	} {
		if got := Redact(raw); got != want {
			t.Errorf("Redact(%q) = %q, want %q", raw, got, want)
		}
	}
	u, _ := url.Parse("https://ada:hun%2Fter@example.org")
	c := Credentials{Username: "ada", Password: "p w/d", Bearer: "b-t-k"}
	cause := fmt.Errorf("get %s: said p w/d, p+w%%2Fd, p%%20w%%2Fd, hun/ter, Bearer b-t-k, Basic YWRhOnAgdy9k: %w", u, os.ErrNotExist)
	err := RedactError(cause, u, c)
	for _, secret := range []string{"p w/d", "p+w%2Fd", "p%20w%2Fd", "hun/ter", "hun%2Fter", "b-t-k", "YWRhOnAgdy9k"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q shows in %v", secret, err)
		}
	}
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "example.org") || RedactError(nil, u, c) != nil {
		t.Errorf("RedactError = %v", err)
	}
}

func TestOnlySafeURLsAreTaken(t *testing.T) {
	for raw, ok := range map[string]bool{
		"https://example.org/x.git": true, "ssh://git@example.org/x": true, "http://127.0.0.1:1/x": true, "http://localhost/x": true,
		"http://[::1]:80/x": true, "http://example.org/x": false, "http://127.0.0.1.example.org/x": false, "git://example.org/x": false,
		"ext::sh -c id": false, "-oProxyCommand=id": false, "ssh://-oProxyCommand=id/x": false, "file:///etc": false, "/etc": false,
		"git@example.org:x": false, "https:///x": false, "https://exa mple.org/x": false, "": false, "https://169.254.169.254/x": false,
		"https://[fe80::1]/x": false, "https://[::ffff:169.254.169.254]/x": false, "ssh://-x@example.org/x": false, "https://a\nb/": false,
	} {
		if _, err := ParseURL(raw, "https", "ssh", "http"); (err == nil) != ok {
			t.Errorf("ParseURL(%q) = %v, want ok %v", raw, err, ok)
		}
	}
	if _, err := ParseURL("oci://example.org/x", "oci"); err != nil {
		t.Error(err)
	}
}

func TestSameHostIgnoresSpelling(t *testing.T) {
	at := func(raw string) *url.URL {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for pair, want := range map[[2]string]bool{
		{"https://example.org", "https://EXAMPLE.org:443/x"}: true, {"https://example.org", "http://example.org"}: false,
		{"https://example.org", "https://example.org:8443"}: false, {"https://example.org", "https://example.org.evil"}: false,
		{"ssh://git@example.org:22/x", "ssh://example.org/y"}: true,
	} {
		if got := SameHost(at(pair[0]), at(pair[1])); got != want {
			t.Errorf("SameHost(%q) = %v", pair, got)
		}
	}
	if SameHost(nil, at("https://example.org")) {
		t.Error("nothing is the same as something")
	}
}
