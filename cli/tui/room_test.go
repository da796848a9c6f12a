package tui

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/tui/paint"

	v1 "github.com/pluralsh/plural/api/v1"
)

// lineOf is the first line of a screen that has all of these words.
func lineOf(t *testing.T, screen string, words ...string) string {
	t.Helper()
	for line := range strings.Lines(screen) {
		found := true
		for _, word := range words {
			found = found && strings.Contains(line, word)
		}
		if found {
			return strings.TrimRight(line, "\n")
		}
	}
	t.Fatalf("no line has %q:\n%s", words, screen)
	return ""
}

// crashing are answers about a fleet in which one service does not run, for a long reason.
func crashing() map[string]any {
	row := v1.Deployment{
		Cluster: "production-eu", Service: "ingress-controller", Phase: v1.Failed, Objects: 4, Ready: 1, Version: "1.2.3", Key: "k", AppliedKey: "j",
		Message: "Certificate web: the cluster does not serve cert-manager.io/v1",
	}
	well := v1.Deployment{Cluster: "production-eu", Service: "web", Phase: v1.Healthy, Objects: 4, Ready: 4, Key: "k", AppliedKey: "k"}
	cluster := v1.Cluster{Name: "production-eu", Phase: v1.Failed, LastReport: ago(time.Second), Message: row.Message}
	return map[string]any{
		"/v1/deployments": list(row, well), "/v1/clusters": list(cluster), "/v1/services": list[v1.Service](), "/v1/sources": list[v1.Source](),
		"/v1/upgrades": list[v1.Upgrade](), "/v1/events": list[v1.Event](), "/v1/me": v1.Me{Name: "ada", Operator: true},
		"/v1/summary":                        v1.Summary{Deployments: v1.Counts{v1.Failed: 1, v1.Healthy: 1}, Clusters: v1.Counts{v1.Failed: 1}},
		"/v1/clusters/production-eu/objects": list[v1.Object](),
	}
}

func TestAt80ColumnsReasonsAreReadAndTheFooterHasTheMostUsefulKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, crashing())
		s := open(t, set{hub: h, now: clock()})
		screen := s.screen(80, 24)
		if line := lineOf(t, screen, "ingress-controller"); !strings.Contains(line, "Certificate web: the cluster ") {
			t.Errorf("the reason has no room: %q", line)
		}
		footer := lineOf(t, screen, "? help")
		for _, want := range []string{"/ filter", "enter objects", "d describe", "l logs", "D diff", "f faults"} {
			if !strings.Contains(footer, want) {
				t.Errorf("%q is not in %q", want, footer)
			}
		}
		h.leave()
		s.pass(10 * time.Second)
		lineOf(t, s.screen(80, 24), "AGE", "REASON")
		lineOf(t, s.screen(80, 24), "ingress-controller", "10s")
	})
}

func TestTheRootOfATreeSaysWhyItsServiceFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, crashing()), now: clock()})
		s.press("<enter>")
		if line := lineOf(t, s.screen(80, 24), "▾ production-eu"); !strings.Contains(line, "✗ failed") ||
			!strings.Contains(line, "Certificate web: the") {
			t.Errorf("got %q", line)
		}
	})
}

func TestAHubThatIsAwayAtTheStartIsNotWaitedFor(t *testing.T) {
	for name, away := range map[string]struct {
		leave func(h *hub)
		says  string
	}{
		"it cannot be reached":  {(*hub).leave, "offline, seen 5m"},
		"it does not answer":    {func(h *hub) { h.set("/v1/deployments", silent) }, "connecting, seen 5m"},
		"it knows nobody there": {func(h *hub) { h.take("another") }, "logged out, seen 5m"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := clock()
				seen := fleetcache.New(t.TempDir(), "http://hub.example.com", "acme", "")
				before := open(t, set{hub: newHub(t, crashing()), now: now, look: paint.Options{}})
				if err := before.world.Fleet.Remember(seen)(); err != nil {
					t.Fatal(err)
				}
				h := newHub(t, crashing())
				away.leave(h)
				s := open(t, set{hub: h, seen: seen, now: later(now, 5*time.Minute)}) // which lets 300 ms pass
				s.pass(100 * time.Millisecond)
				screen := s.screen(80, 24)
				lineOf(t, screen, "2 deployments", away.says)
				lineOf(t, screen, "ingress-controller", "5m")
			})
		})
	}
}
