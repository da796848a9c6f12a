package auth

import (
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pluralsh/plural/api/token"
)

// hub is an Agents whose clock, keys and URL a test moves.
type hub struct {
	*Agents
	t    *testing.T
	now  time.Time
	url  string
	keys map[string]ed25519.PublicKey
}

func newHub(t *testing.T) *hub {
	h := &hub{t: t, now: time.Now(), url: "https://hub", keys: map[string]ed25519.PublicKey{}}
	h.Agents = NewAgents(func() string { return h.url }, func(c string) ed25519.PublicKey { return h.keys[c] }, func() time.Time { return h.now })
	return h
}

// register gives a cluster a new key, and a token made with it.
func (h *hub) register(cluster string) (raw string) {
	h.t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.keys[cluster] = public
	raw, err = token.NewSigner(private, cluster, h.url, func() time.Time { return h.now }).Token(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return raw
}

// who is the cluster that the hub takes a token's bearer for, "" for nobody.
func (h *hub) who(raw string) string {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+raw)
	cluster, err := h.Cluster(r)
	if (err != nil) != (cluster == "") {
		h.t.Fatalf("Cluster = %q, %v", cluster, err)
	}
	return cluster
}

func TestRememberedTokenIsGoodForNoLongerThanAFreshOne(t *testing.T) {
	tests := map[string]struct {
		change func(*hub)
		want   string
	}{
		"nothing changed":           {func(*hub) {}, "edge-1"},
		"another cluster came":      {func(h *hub) { h.register("edge-2") }, "edge-1"},
		"the cluster was revoked":   {func(h *hub) { delete(h.keys, "edge-1") }, ""},
		"the cluster got a new key": {func(h *hub) { h.register("edge-1") }, ""},
		"the hub got a new URL":     {func(h *hub) { h.url = "https://other" }, ""},
		"just before it expires":    {func(h *hub) { h.now = h.now.Add(token.Lifetime + token.Leeway - 2*time.Second) }, "edge-1"},
		"it expired":                {func(h *hub) { h.now = h.now.Add(token.Lifetime + token.Leeway) }, ""},
		"the clock was set back":    {func(h *hub) { h.now = h.now.Add(-time.Hour) }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			raw := h.register("edge-1")
			if got := h.who(raw); got != "edge-1" {
				t.Fatalf("a fresh token is of %q", got)
			}
			test.change(h)
			if got := h.who(raw); got != test.want {
				t.Errorf("the token is of %q, want %q", got, test.want)
			}
		})
	}
}

func TestTwoClustersWithOneKeyAreNotMistakenForEachOther(t *testing.T) {
	h := newHub(t)
	raw := h.register("edge-1")
	h.keys["edge-2"] = h.keys["edge-1"]
	for range 2 {
		if got := h.who(raw); got != "edge-1" {
			t.Errorf("the token is of %q", got)
		}
	}
}

func TestRefusedTokensAreNotRemembered(t *testing.T) {
	h := newHub(t)
	raw := h.register("edge-1")
	h.keys["edge-1"] = nil
	for _, bad := range []string{raw, raw + "x", "a.b.c", ""} {
		if got := h.who(bad); got != "" {
			t.Errorf("%.20q is of %q", bad, got)
		}
	}
	if len(h.verified.young)+len(h.verified.older) != 0 {
		t.Error("the memory holds what was refused")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	name := func(i int) digest { return digest{byte(i), byte(i >> 8), byte(i >> 16)} }
	for i := range 3 * maxRemembered {
		m.keep(name(i), statement{Statement: token.Statement{Cluster: "edge-1"}})
	}
	if n := len(m.young) + len(m.older); n > 2*maxRemembered {
		t.Errorf("%d statements", n)
	}
	if _, ok := m.find(name(2*maxRemembered - 1)); !ok {
		t.Error("what came last but one half is forgotten")
	}
	if _, ok := m.find(name(0)); ok {
		t.Error("what came first is still there")
	}
}
