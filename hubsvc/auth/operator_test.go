package auth_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// lines are the messages of a log.
type lines struct {
	mu   sync.Mutex // guards said
	said []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, r.Level.String()+" "+r.Message)
	return nil
}

// have counts the messages with a text.
func (l *lines) have(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(strings.Join(l.said, "\n"), text)
}

// write makes it the hub's own token.
func (d *door) write(token string) {
	d.Helper()
	if err := os.WriteFile(d.file, []byte(token+"\n"), 0o600); err != nil {
		d.Fatal(err)
	}
	d.now = d.now.Add(2 * time.Second)
}

func TestTheHubsOwnTokenExpires(t *testing.T) {
	d := newDoor(t)
	expires, ok := fleet.OperatorExpiry(d.hubs)
	if !ok || expires.Before(d.now.Add(fleet.OperatorLifetime-time.Minute)) || expires.After(d.now.Add(fleet.OperatorLifetime)) {
		t.Fatalf("a hub's token expires %v, %v", expires, ok)
	}
	operator, err := d.Person(d.asks(d.hubs))
	if err != nil || !operator.Expires.Equal(expires) {
		t.Errorf("%+v, %v: what is open does not end with the token", operator, err)
	}
	d.now = expires.Add(-5 * time.Minute)
	kube, until, err := d.Issue(t.Context(), operator, "edge-1", time.Hour)
	if err != nil || until.After(expires) {
		t.Errorf("a token for a cluster outlives it: %v, %v", until, err)
	}
	if !strings.Contains(d.TokenWarning(), "expires on "+expires.UTC().Format(time.DateOnly)) {
		t.Errorf("before it expires: %q", d.TokenWarning())
	}
	d.now = expires
	_, errPerson := d.Person(d.asks(d.hubs))
	_, errKube := d.KubePerson(d.asks(kube), "edge-1")
	_, _, errIssue := d.Issue(t.Context(), operator, "edge-1", time.Hour)
	for _, err := range []error{errPerson, errKube, errIssue} {
		status, message, fix := principal.Answer(err)
		if status != http.StatusUnauthorized || !strings.Contains(message, "has expired, on "+expires.UTC().Format(time.DateOnly)) || !strings.Contains(fix, "plural hub token") {
			t.Errorf("once it has: %d %s: %s", status, message, fix)
		}
	}
	if !strings.Contains(d.TokenWarning(), "has expired") {
		t.Errorf("once it has expired: %q", d.TokenWarning())
	}
	later := strings.Replace(d.hubs, "plural_operator_1", "plural_operator_2", 1)
	if _, err := d.Person(d.asks(later)); err == nil || later == d.hubs {
		t.Error("whoever has the token may put its end off")
	}
}

func TestAnotherTokenInTheFileCountsWithoutARestart(t *testing.T) {
	d, token := newDoor(t), fleet.NewToken()
	d.fleet(ada(token, ""))
	before, err := d.Person(d.asks(d.hubs))
	if err != nil {
		t.Fatal(err)
	}
	kube, _, err := d.Issue(t.Context(), before, "edge-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	next := fleet.NewOperatorToken(d.now.Add(time.Hour))
	d.write(next)
	if who, err := d.Person(d.asks(next)); err != nil || !who.Operator || who.Credential == before.Credential {
		t.Errorf("the new one: %+v, %v", who, err)
	}
	if _, err := d.Person(d.asks(d.hubs)); err == nil {
		t.Error("the former one is still good")
	}
	if _, err := d.KubePerson(d.asks(kube), "edge-1"); err == nil {
		t.Error("a token for a cluster outlives the one that it was given for")
	}
	if _, err := d.Current(before); err == nil {
		t.Error("what is open goes on")
	}
	if who, err := d.Person(d.asks(token)); err != nil || who.Name != "ada" {
		t.Errorf("a user: %+v, %v", who, err)
	}
	for _, half := range []string{"", "half"} {
		d.write(half)
		if who, err := d.Person(d.asks(next)); err != nil || !who.Operator {
			t.Errorf("while the file holds %q: %+v, %v", half, who, err)
		}
	}
	if err := os.Remove(d.file); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(time.Hour)
	if _, err := d.Person(d.asks(next)); err == nil {
		t.Error("a token whose file is away never expires")
	}
	if d.log.have("WARN") != 2 || d.log.have("replaced") != 1 || d.log.have(next) != 0 { // one for each fault: short, away
		t.Errorf("said: %q", d.log.said)
	}
}

func TestATokenWithoutAnEndIsTakenAndWarnedOfEachDay(t *testing.T) {
	d := newDoor(t)
	const old = "of-an-earlier-release-43-characters-long"
	d.write(old)
	who, err := d.Person(d.asks(old))
	if err != nil || !who.Operator || !who.Expires.IsZero() || !d.TokenExpiry().IsZero() {
		t.Fatalf("%+v, %v", who, err)
	}
	if !strings.Contains(d.TokenWarning(), "never expires") {
		t.Errorf("warning %q", d.TokenWarning())
	}
	synctest.Test(t, func(t *testing.T) {
		var log lines
		people, err := auth.NewPeople(auth.Options{
			File: d.file, Directory: nobody, Now: time.Now, Log: slog.New(&log),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*24*time.Hour-time.Hour)
		defer cancel()
		_ = people.Run(ctx) // until then
		if n := log.have("WARN the hub's own token is to be renewed"); n != 3 || log.have(old) != 0 {
			t.Errorf("warned %d times in three days: %q", n, log.said)
		}
	})
}
