package service

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/pluralsh/plural/cli/client"
)

func TestNoMoreThanSomeClustersAreAskedForNames(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"service": "web", "phase": "healthy"}`))
	}))
	defer server.Close()
	hub, err := client.New(server.URL, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	m := matter{token: "9a9a9a9a9a9a"}
	for i := range 3 * maxAsked {
		m.clusters = append(m.clusters, fmt.Sprintf("edge-%d", i))
	}
	if err := m.askNames(t.Context(), hub, "web"); err != nil || asked.Load() != maxAsked || !m.nameless() {
		t.Errorf("%d clusters were asked: %v, %v", asked.Load(), m.names, err)
	}
}
