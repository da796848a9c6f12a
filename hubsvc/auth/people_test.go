package auth_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/signing"
	"github.com/pluralsh/plural/workspace/fleet"
)

func request(t testing.TB, authorization string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

// ring is the signing keys of a hub with a NATS server of its own.
func ring(t testing.TB, purpose string, now func() time.Time) (*signing.Ring, *natsd.Server) {
	t.Helper()
	server, err := natsd.Start(t.Context(), natsd.Options{Dir: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return signing.New(signing.Options{
		JetStream: server.JetStream(), Replicas: 1, Purpose: purpose, Lifetime: auth.KubeValidity, Now: now,
		Log: slog.New(slog.DiscardHandler),
	}), server
}

// nobody is who a fleet without users knows.
func nobody() *auth.Directory { return auth.NewDirectory(&fleet.Fleet{}) }

func isOperator(people *auth.People, r *http.Request) bool {
	who, err := people.Person(r)
	return err == nil && who.Operator
}

// alone are the options of a hub without users.
func alone(t testing.TB, file string) auth.Options {
	t.Helper()
	keys, _ := ring(t, "kube", time.Now)
	session := keys.Options
	session.Purpose, session.Lifetime = "session", auth.SessionValidity
	return auth.Options{File: file, Directory: nobody, Keys: keys, SessionKeys: signing.New(session), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

func TestPeopleNeedTheTokenThatTheHubWrote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hub", "token")
	people, err := auth.NewPeople(alone(t, file))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode = %v, %v", info.Mode(), err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(raw))
	tests := map[string]bool{
		"Bearer " + secret: true, "bearer " + secret: true,
		"": false, secret: false, "Basic " + secret: false, "Bearer ": false, "Bearer " + secret + "x": false,
	}
	for header, want := range tests {
		if got := isOperator(people, request(t, header)); got != want {
			t.Errorf("%.10q…: passed = %v, want %v", header, got, want)
		}
	}
	again, err := auth.NewPeople(alone(t, file))
	if err != nil || !isOperator(again, request(t, "Bearer "+secret)) {
		t.Error("the token did not survive a restart")
	}
}

func TestTokenFileThatCannotBeATokenIsRefused(t *testing.T) {
	for name, text := range map[string]string{"short": "secret", "long": strings.Repeat("x", 3000), "empty": ""} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := auth.NewPeople(alone(t, file)); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("NewPeople: %v", err)
			}
		})
	}
}

func TestReplicasThatStartTogetherAgreeOnOneToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	o := alone(t, file)
	var starting sync.WaitGroup
	all := make([]*auth.People, 20)
	for i := range all {
		starting.Go(func() {
			var err error
			if all[i], err = auth.NewPeople(o); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, people := range all {
		if people == nil || !isOperator(people, request(t, "Bearer "+strings.TrimSpace(string(raw)))) {
			t.Errorf("replica %d has another token", i)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
