package terraform_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pluralsh/plural/installer/terraform"
)

// keeper keeps a state, as a server for terraform's http backend does, with the lock that terraform takes on it.
type keeper struct {
	mu     sync.Mutex
	state  []byte
	lock   []byte
	writes int
	full   bool
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if user, password, _ := r.BasicAuth(); user != "plural" || password != "backend-password" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body)
	switch r.Method {
	case "LOCK":
		if k.lock != nil {
			w.WriteHeader(http.StatusLocked)
			_, _ = w.Write(k.lock)
			return
		}
		k.lock = body
	case "UNLOCK":
		k.lock = nil
	case http.MethodGet:
		if k.state == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write(k.state)
	case http.MethodPost:
		if k.full {
			w.WriteHeader(http.StatusInsufficientStorage)
			return
		}
		k.state, k.writes = body, k.writes+1
	}
}

func (k *keeper) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// remote is a module whose state the keeper has.
func remote(t *testing.T, k *keeper, text string) terraform.Module {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	m := module(t, `terraform {
  backend "http" {}
}
`+text)
	m.Backend = map[string]any{
		"address": server.URL, "lock_address": server.URL, "unlock_address": server.URL,
		"username": "plural", "password": "backend-password", "retry_max": 0,
	}
	m.SecretBackend = map[string]bool{"password": true}
	return m
}

func TestABackendKeepsTheStateAndNothingOfItStaysHere(t *testing.T) {
	k := &keeper{}
	m := remote(t, k, echo)
	m.Inputs = map[string]any{"text": "kept-elsewhere"}
	work, err := find(t).Prepare(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := work.Apply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !work.HasBackend() || result.State != nil || result.Outputs["text"].Value != "kept-elsewhere" {
		t.Errorf("got %+v", result)
	}
	if err := work.Close(); err != nil {
		t.Fatal(err)
	}
	holding(t, m.Dir, "kept-elsewhere")
	holding(t, m.Dir, "backend-password")
	writes := k.writes
	applied(t, m)
	if k.writes != writes {
		t.Error("a second run wrote the state again")
	}
}

func TestABackendsLockGoesByItsID(t *testing.T) {
	raw, err := json.Marshal(map[string]string{
		"ID": "5f3a8b52-7a9e-4f08-b9ae-5a60a1d6a001", "Operation": "OperationTypeApply", "Who": "ada@analytical-engine",
		"Version": "1.11.4", "Created": "2026-11-22T10:11:12Z", "Path": "fleet",
	})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{lock: raw}
	m := remote(t, k, echo)
	m.Inputs = map[string]any{"text": "x"}
	work := prepared(t, m, &lines{})
	_, err = work.Plan(t.Context())
	// Of this backend terraform tells no more than the id.
	const want = "lock terraform state: somebody holds it (lock 5f3a8b52-7a9e-4f08-b9ae-5a60a1d6a001): " +
		"wait for it; if that process is gone: plural deploy --terraform-unlock 5f3a8b52-7a9e-4f08-b9ae-5a60a1d6a001"
	if err == nil || told(err) != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
	if err := work.Unlock(t.Context(), "5f3a8b52-7a9e-4f08-b9ae-5a60a1d6a001"); err != nil {
		t.Fatal(err)
	}
	if _, err := work.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAStateThatWasKeptHereGoesToTheBackendThatTheModuleGets(t *testing.T) {
	local := module(t, echo)
	local.Inputs = map[string]any{"text": "x"}
	k := &keeper{}
	m := remote(t, k, echo)
	m.Inputs = local.Inputs
	m.State = applied(t, local).State
	summary, err := prepared(t, m, &lines{}).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !summary.Empty || k.writes != 1 {
		t.Errorf("it would make all anew: %v, after %d writes", summary, k.writes)
	}
}

func TestAStateThatTheBackendDidNotTakeIsGivenToItLater(t *testing.T) {
	k := &keeper{full: true}
	m := remote(t, k, echo)
	m.Inputs = map[string]any{"text": "x"}
	work, err := find(t).Prepare(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = work.Apply(t.Context())
	if !errors.As(err, new(*terraform.FailedError)) || !strings.Contains(err.Error(), "state") {
		t.Fatalf("got %v", err)
	}
	if err := work.Close(); err != nil {
		t.Fatal(err)
	}
	k.set(func() { k.full, k.lock = false, nil })
	summary, err := prepared(t, m, &lines{}).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !summary.Empty {
		t.Errorf("what was made would be made again: %v", summary)
	}
}
