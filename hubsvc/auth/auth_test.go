package auth_test

import (
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/hubsvc/auth"
)

func request(t *testing.T, authorization string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

func TestAnAgentIsRevokedByTakingItsKeyAway(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]ed25519.PublicKey{"edge-1": public}
	agents := &auth.Agents{
		HubURL: func() string { return "https://hub" }, Now: time.Now,
		Key: func(cluster string) ed25519.PublicKey { return keys[cluster] },
	}
	raw, err := token.NewSigner(private, "edge-1", "https://hub", time.Now).Token()
	if err != nil {
		t.Fatal(err)
	}
	if cluster, err := agents.Cluster(request(t, "Bearer "+raw)); err != nil || cluster != "edge-1" {
		t.Fatalf("Cluster = %q, %v", cluster, err)
	}
	delete(keys, "edge-1")
	if cluster, err := agents.Cluster(request(t, "Bearer "+raw)); err == nil {
		t.Errorf("a revoked agent passed as %q", cluster)
	}
}

func TestPeopleNeedTheTokenThatTheHubWrote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hub", "token")
	people, err := auth.NewPeople(file)
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
		if got := people.Check(request(t, header)) == nil; got != want {
			t.Errorf("%.10q…: passed = %v, want %v", header, got, want)
		}
	}
	again, err := auth.NewPeople(file)
	if err != nil || again.Check(request(t, "Bearer "+secret)) != nil {
		t.Error("the token did not survive a restart")
	}
}
