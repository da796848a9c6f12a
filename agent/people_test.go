package agent

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apiproxy"
)

// An account whose token is late, or was deleted, is people's trouble: the agent itself goes on.
func TestPeopleWaitForTheAccountThatTheirRequestsAreMadeWith(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	p := &people{session: &session{log: slog.New(slog.DiscardHandler)}, asking: apiproxy.Options{
		Kube: &rest.Config{Host: "https://127.0.0.1:1"}, Cluster: "edge", TokenFile: token, Policy: func() apiproxy.Policy { return apiproxy.Policy{} },
	}}
	answered := func() int {
		w := httptest.NewRecorder()
		p.answer(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil))
		return w.Code
	}
	p.allow(apiproxy.Policy{Mode: apiproxy.Off}) // there is nobody yet to tell
	if code := answered(); code != http.StatusServiceUnavailable {
		t.Errorf("without an account: %d", code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.admit(ctx) }()
	if err := os.WriteFile(token, []byte("a token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if code := answered(); code != http.StatusForbidden { // of a request without an identity
		t.Errorf("with an account: %d", code)
	}
}
