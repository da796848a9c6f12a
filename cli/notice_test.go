package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/update"
)

// TestNewsAreForPeopleAlone tries who is told of a newer release, and that nobody else is even asked about.
func TestNewsAreForPeopleAlone(t *testing.T) {
	tests := []struct {
		name    string
		env     map[string]string
		change  func(f *cmdutil.Factory, c *update.Checker)
		want    bool
		asksNot bool
	}{
		{name: "on a terminal", want: true},
		{name: "in a pipe", change: func(f *cmdutil.Factory, _ *update.Checker) { f.IO.OutTTY = false }, asksNot: true},
		{name: "with --quiet", change: func(f *cmdutil.Factory, _ *update.Checker) { f.Quiet = true }, asksNot: true},
		{name: "in CI", env: map[string]string{"CI": "true"}, asksNot: true},
		{name: "not wanted", env: map[string]string{"PLURAL_NO_UPDATE_NOTIFIER": "1"}, asksNot: true},
		{name: "built without", change: func(_ *cmdutil.Factory, c *update.Checker) { c.Feed = "" }, asksNot: true},
		{name: "the newest already", change: func(_ *cmdutil.Factory, c *update.Checker) { c.Version = "1.5.0" }},
		{name: "no release", change: func(_ *cmdutil.Factory, c *update.Checker) { c.Version = "dev-0123456789ab" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"tag_name": "v1.5.0", "html_url": "https://example.com/v1.5.0\u001b[2J"}`))
				asked <- struct{}{}
			}))
			defer server.Close()
			var errOut bytes.Buffer
			tt.env = clone(tt.env)
			tt.env["PLURAL_CONFIG_DIR"] = t.TempDir()
			f := &cmdutil.Factory{
				IO:      &ui.Streams{Out: &bytes.Buffer{}, ErrOut: &errOut, OutTTY: true, ErrTTY: true},
				Version: "1.4.0", Now: now, Getenv: func(name string) string { return tt.env[name] },
			}
			c := &update.Checker{Feed: server.URL, Version: "1.4.0", Dir: t.TempDir(), Now: now}
			if tt.change != nil {
				tt.change(f, c)
			}
			if !tt.asksNot { // heard of by a command before this one
				if _, err := c.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-asked
			}
			notice(t.Context(), f, c)()
			server.Close()
			if told := strings.Contains(errOut.String(), "plural 1.5.0 is there; this is 1.4.0"); told != tt.want || strings.Contains(errOut.String(), "\x1b") {
				t.Errorf("told: %q", errOut.String())
			}
			if len(asked) > 0 {
				t.Error("it asked")
			}
		})
	}
}

func TestNeitherHubNorAgentLooksForNews(t *testing.T) {
	root := newRoot(&cmdutil.Factory{IO: &ui.Streams{}, Getenv: func(string) string { return "" }, Now: now})
	for line, want := range map[string]bool{"hub serve": true, "agent run": true, "hub status": false, "status": false, "service list": false} {
		cmd, _, err := root.Find(strings.Fields(line))
		if err != nil || cmd.CommandPath() != "plural "+line || isOfMachines(cmd) != want {
			t.Errorf("%s: %s, %v", line, cmd.CommandPath(), err)
		}
	}
}

func clone(env map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range env {
		all[name] = value
	}
	return all
}

func TestHomebrewIsGivenADay(t *testing.T) {
	r := &update.Release{Version: "1.5.0", Published: now().Add(-time.Hour)}
	if !brewIsBehind(r, "/opt/homebrew/Caskroom/plural/1.4.0/plural", now()) || brewIsBehind(r, "/usr/bin/plural", now()) {
		t.Error("of a release of an hour ago only people without Homebrew are told")
	}
	if brewIsBehind(r, "/opt/homebrew/Caskroom/plural/1.4.0/plural", now().Add(24*time.Hour)) {
		t.Error("a day later everybody is told")
	}
}
