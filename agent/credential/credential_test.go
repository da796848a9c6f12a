package credential_test

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pluralsh/plural/agent/credential"
	"github.com/pluralsh/plural/api/token"
)

// hub answers with what answer says, and notes what it was asked: "BODY with bound", where the token is that of the very connection.
type hub struct {
	*httptest.Server
	mu    sync.Mutex // guards asked
	asked []string
}

func newHub(t *testing.T, start func(*httptest.Server), answer func(w http.ResponseWriter, how string)) *hub {
	t.Helper()
	h := &hub{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		how := "another token"
		switch r.Header.Get("Authorization") {
		case bearer(nil):
			how = "unbound"
		case bearer(token.Binding(r.TLS)):
			how = "bound"
		}
		h.mu.Lock()
		h.asked = append(h.asked, string(body)+" with "+how)
		h.mu.Unlock()
		answer(w, how)
	}))
	start(h.Server)
	t.Cleanup(h.Close)
	return h
}

// bearer shows a token that is the text of what it is bound to.
func bearer(binding []byte) string { return "Bearer to " + hex.EncodeToString(binding) + "." }

// through is a client with such tokens.
func (h *hub) through(t *testing.T) *http.Client {
	t.Helper()
	transport := h.Client().Transport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	c := credential.New(func(binding []byte) (string, error) { return strings.TrimPrefix(bearer(binding), "Bearer "), nil })
	return &http.Client{Transport: c.Over(transport)}
}

func (h *hub) saw(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.asked, want) {
		t.Errorf("the hub was asked %q, want %q", h.asked, want)
	}
}

func send(t *testing.T, client *http.Client, url string, body io.Reader) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if sent := r.Header.Get("Authorization"); sent != "" {
		t.Errorf("the caller's request holds the token %q", sent)
	}
	return response.StatusCode
}

// elsewhere refuses what is bound, as a hub does that stands behind something which ends TLS.
func elsewhere(w http.ResponseWriter, how string) {
	if how == "bound" {
		w.Header().Set(token.Elsewhere, "true")
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func TestEachTokenIsBoundToItsConnection(t *testing.T) {
	h := newHub(t, (*httptest.Server).StartTLS, func(http.ResponseWriter, string) {})
	client := h.through(t)
	for range 2 {
		if status := send(t, client, h.URL, strings.NewReader("x")); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		client.CloseIdleConnections()
	}
	h.saw(t, "x with bound", "x with bound")
}

func TestWhereTLSEndsBeforeTheHubTokensAreBoundToNothingFromThenOn(t *testing.T) {
	h := newHub(t, (*httptest.Server).StartTLS, elsewhere)
	client := h.through(t)
	for range 2 {
		if status := send(t, client, h.URL, strings.NewReader("x")); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	h.saw(t, "x with bound", "x with unbound", "x with unbound")
}

func TestABodyThatCannotBeSentTwiceIsLeftToWhoeverTriesAgain(t *testing.T) {
	h := newHub(t, (*httptest.Server).StartTLS, elsewhere)
	client := h.through(t)
	once := func() io.Reader { return io.MultiReader(strings.NewReader("x")) }
	first, second := send(t, client, h.URL, once()), send(t, client, h.URL, once())
	if first != http.StatusUnauthorized || second != http.StatusOK {
		t.Errorf("status %d, then %d", first, second)
	}
	h.saw(t, "x with bound", "x with unbound")
}

func TestOnlyARefusalBecauseOfTheConnectionUnbindsTokens(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"a token that is refused": func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) },
		"another status": func(w http.ResponseWriter) {
			w.Header().Set(token.Elsewhere, "true")
			w.WriteHeader(http.StatusForbidden)
		},
		"no refusal": func(w http.ResponseWriter) { w.Header().Set(token.Elsewhere, "true") },
	} {
		h := newHub(t, (*httptest.Server).StartTLS, func(w http.ResponseWriter, _ string) { answer(w) })
		client := h.through(t)
		t.Log(name)
		send(t, client, h.URL, strings.NewReader("x"))
		send(t, client, h.URL, strings.NewReader("x"))
		h.saw(t, "x with bound", "x with bound")
	}
}

func TestWithoutTLSTokensAreBoundToNothingAndSentOnce(t *testing.T) {
	h := newHub(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ string) {
		w.Header().Set(token.Elsewhere, "true")
		w.WriteHeader(http.StatusUnauthorized)
	})
	if status := send(t, h.through(t), h.URL, strings.NewReader("x")); status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
	h.saw(t, "x with unbound")
}

func TestNothingIsSentWithoutAToken(t *testing.T) {
	h := newHub(t, (*httptest.Server).StartTLS, func(http.ResponseWriter, string) {})
	locked := errors.New("the key cannot be read")
	transport := h.Client().Transport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: credential.New(func([]byte) (string, error) { return "", locked }).Over(transport)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, locked) {
		t.Errorf("got %v", err)
	}
	h.saw(t)
}
