package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

// person is somebody with a terminal, whose hub is at an address.
func person(t *testing.T, address string, env map[string]string) (f *cmdutil.Factory, out, errOut *bytes.Buffer) {
	t.Helper()
	out, errOut = new(bytes.Buffer), new(bytes.Buffer)
	config := t.TempDir()
	return &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: out, ErrOut: errOut, OutTTY: true}, Globals: cmdutil.Globals{Hub: address}, Now: time.Now,
		Getenv: func(name string) string {
			if name == "PLURAL_CONFIG_DIR" {
				return config
			}
			return env[name]
		},
	}, out, errOut
}

func TestTheHubsPageIsOpenedWhereThereIsOne(t *testing.T) {
	needs.Program(t, "sh", "dash")
	kind, code := "text/html; charset=utf-8", http.StatusOK
	var ticket struct {
		status int
		answer any
	}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == v1.TicketPath {
			if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer secret" {
				t.Error("a ticket is asked for by", r.Method, r.Header)
			}
			w.WriteHeader(ticket.status)
			_ = json.NewEncoder(w).Encode(ticket.answer)
			return
		}
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went out for a page")
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
	}))
	defer hub.Close()
	opened := filepath.Join(t.TempDir(), "opened")
	browser := filepath.Join(t.TempDir(), "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\nprintf %s \"$1\" > "+opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		status       int
		answer       any
		opened, said string
	}{
		"logged in": {
			http.StatusOK, v1.PageTicket{Ticket: "one.abc", Path: "/auth/open"}, hub.URL + "/auth/open#one.abc", "",
		},
		"a hub of an earlier release": {http.StatusNotFound, v1.Error{Message: "no such path"}, hub.URL, ""},
		"a login that has ended": {
			http.StatusUnauthorized, v1.Error{Message: "this login ended", Fix: "plural auth login"}, hub.URL, "this login ended; plural auth login",
		},
		"a page's path that is another host": {http.StatusOK, v1.PageTicket{Ticket: "one.abc", Path: "@evil.example/"}, "", ""},
	} {
		_ = os.Remove(opened)
		ticket.status, ticket.answer = test.status, test.answer
		f, out, errOut := person(t, hub.URL, map[string]string{"BROWSER": browser, "PLURAL_TOKEN": "secret"})
		err := open(t.Context(), f)
		got, _ := os.ReadFile(opened)
		if (err == nil) != (test.opened != "") || string(got) != test.opened || out.String() != hub.URL+"\n" ||
			!strings.Contains(errOut.String(), test.said) ||
			test.said == "" && errOut.Len() > 0 {
			t.Errorf("%s: opened %q, %v, printed %q, said %q", name, got, err, out, errOut)
		}
	}
	kind, code = "application/json", http.StatusNotFound
	f, out, errOut := person(t, hub.URL, map[string]string{"BROWSER": "nothing-here"})
	if err := open(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if said := errOut.String(); out.String() != hub.URL+"\n" || !strings.Contains(said, "plural tui") || !strings.Contains(said, "plural auth login --hub "+hub.URL) {
		t.Errorf("printed %q, said %q", out, said)
	}
}

func TestAHubsAddressIsPrintedWithoutAskingItWhereNobodyLooks(t *testing.T) {
	f, out, _ := person(t, "https://127.0.0.1:1", nil)
	f.IO.OutTTY = false
	if err := open(t.Context(), f); err != nil || out.String() != "https://127.0.0.1:1\n" {
		t.Errorf("%v: %q", err, out)
	}
	f.Hub = "file:///etc/passwd"
	if err := open(t.Context(), f); err == nil || !strings.Contains(err.Error(), "https://HOST") {
		t.Errorf("took it: %v", err)
	}
}

// repoWith is a folder whose lock has a hub of this version.
func repoWith(t *testing.T, version string) *workspace.Repo {
	t.Helper()
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plural.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\n",
		"plural.lock": "apiVersion: plural.sh/v1alpha1\nkind: Lock\npackages:\n- name: hub\n  package: hub\n  catalog: builtin\n  version: " + version + "\n  digest: sha256:" + strings.Repeat("0", 64) + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func TestAnUpgradeIsWaitedForUntilTheHubSaysItsVersion(t *testing.T) {
	var asked atomic.Int32
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		version := "0.1.0"
		if asked.Add(1) > 1 {
			version = "v0.2.0"
		}
		_ = json.NewEncoder(w).Encode(v1.Hub{Version: version})
	}))
	defer hub.Close()
	f, _, errOut := person(t, hub.URL, map[string]string{"PLURAL_TOKEN": "t"})
	if err := await(t.Context(), f, repoWith(t, "0.2.0"), "hub"); err != nil || !strings.Contains(errOut.String(), "version v0.2.0") {
		t.Fatalf("%v: %s", err, errOut)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	f.Timeout = time.Minute
	err := await(ctx, f, repoWith(t, "0.3.0"), "hub")
	var told *ui.Err
	if !errors.As(err, &told) || told.Code != ui.ExitPending || !strings.Contains(told.Msg, "0.3.0") {
		t.Errorf("%+v", err)
	}
}
