package cmdutil

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/ui"
)

func TestTheEnvironmentsTokenGoesToNoHubThatOnlyTheRepoNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, variable := range [][2]string{{"PLURAL_TOKEN", "secret"}, {"PLURAL_TOKEN_FILE", file}} {
		f := inRepo(t, map[string]string{variable[0]: variable[1]})
		_, err := f.HubClient()
		var told *ui.Err
		if !errors.As(err, &told) || told.Code != ui.ExitLogin || !strings.Contains(told.Msg, variable[0]+" is not sent") ||
			!strings.Contains(told.Fix, "PLURAL_HUB=https://from.repo") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", variable[0], err)
		}
	}
}

func TestTheEnvironmentsTokenGoesToAHubThatThePersonNames(t *testing.T) {
	for name, say := range map[string]func(*Factory, map[string]string){
		"flag":     func(f *Factory, _ map[string]string) { f.Hub = "https://From.repo:443/" },
		"variable": func(_ *Factory, env map[string]string) { env["PLURAL_HUB"] = "https://from.repo" },
		"settings": func(_ *Factory, env map[string]string) {
			write(t, filepath.Join(env["PLURAL_CONFIG_DIR"], "config.yaml"), "hub: https://from.repo\n")
		},
		"login": func(f *Factory, _ map[string]string) {
			if err := f.Hosts().Save("https://from.repo", "another"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"PLURAL_TOKEN": "secret"}
			f := inRepo(t, env)
			say(f, env)
			if got, err := f.HubToken("https://from.repo"); got != "secret" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			if got, err := f.HubToken("https://elsewhere"); got != "" || err == nil {
				t.Errorf("elsewhere: got %q, %v", got, err)
			}
		})
	}
}

func TestAKeptTokenGoesToItsOwnHubAlone(t *testing.T) {
	f := inRepo(t, map[string]string{})
	if err := f.Hosts().Save("https://mine", "secret"); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"https://mine": "secret", "https://from.repo": "", "http://mine": "", "https://mine:8443": ""} {
		if got, err := f.HubToken(address); got != want || err != nil {
			t.Errorf("%s: got %q, %v", address, got, err)
		}
	}
}

func TestNoTokenGoesOverANetworkInClear(t *testing.T) {
	for address, plain := range map[string]bool{
		"http://127.0.0.1:8080": false, "http://localhost:8080": false, "http://[::1]:80": false, "https://hub": false,
		"http://hub.plural-system.svc": true, "HTTP://192.0.2.1": true, "http://localhost.example.com": true,
	} {
		env := map[string]string{"PLURAL_TOKEN": "secret", "PLURAL_HUB": address}
		f := inRepo(t, env)
		_, err := f.HubClient()
		var told *ui.Err
		if plain != (errors.As(err, &told) && told.Doc == ui.DocPlainHTTP) || (err != nil) != plain {
			t.Errorf("%s: got %v", address, err)
		}
		env["PLURAL_ALLOW_PLAIN_HTTP"] = "1"
		if _, err := f.HubClient(); err != nil {
			t.Errorf("%s, where it is allowed: %v", address, err)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
