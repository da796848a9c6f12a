package hubsvc

import (
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/fleet"
)

// agentToken is what an agent of a cluster shows.
func agentToken(t *testing.T, key ed25519.PrivateKey, cluster, hub string, at time.Time) string {
	t.Helper()
	raw, err := token.NewSigner(key, cluster, hub, func() time.Time { return at }).Token(nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (r *running) events() []v1.Event {
	r.t.Helper()
	_, body := r.do(http.MethodGet, "/v1/events", r.token, nil)
	var list v1.List[v1.Event]
	if err := json.Unmarshal(body, &list); err != nil {
		r.t.Fatal(err)
	}
	return list.Items
}

func TestAgentsThatAreRefusedAreToldOfOnceEach(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const url = "https://hub.example.com"
	for reason, c := range map[token.Reason]struct {
		bearer, cluster, says string
	}{
		token.NoKey:     {agentToken(t, private, "gone\x00\n", url, time.Now()), "", `"gone\x00\n"`},
		token.OtherKey:  {agentToken(t, other, "a", url, time.Now()), "a", "its key is another"},
		token.OtherHub:  {agentToken(t, private, "a", "https://elsewhere", time.Now()), "a", "another URL"},
		token.Clock:     {agentToken(t, private, "a", url, time.Now().Add(time.Hour)), "a", "more than 5m0s apart"},
		token.Malformed: {"nonsense", "", "no token of an agent"},
	} {
		t.Run(string(reason), func(t *testing.T) {
			o, said := fleetrepo.New(t), new(logs)
			o.Push(fleetrepo.TwoServices(public))
			hub := startWith(t, options(t, o), slog.NewTextHandler(said, nil))
			hub.ready()
			for range 20 {
				if code, body := hub.do(http.MethodGet, api.PollPath, c.bearer, nil); code != http.StatusUnauthorized ||
					string(body) != "unknown agent\n" {
					t.Fatalf("the agent is told %d, %s", code, body)
				}
			}
			if n, _ := hub.figure(`plural_hub_agents_refused_total{reason="` + string(reason) + `"}`); n != 20 {
				t.Errorf("%f are counted", n)
			}
			if n := strings.Count(said.String(), "agent refused"); n != 1 {
				t.Errorf("the log has %d lines of it", n)
			}
			notices := hub.status().Notices
			if len(notices) != 1 || notices[0].Reason != "AgentRefused" || !strings.Contains(notices[0].Message, c.says) || notices[0].Fix == "" {
				t.Errorf("notices are %+v", notices)
			}
			var told []v1.Event
			for _, e := range hub.events() {
				if e.Reason == "AgentRefused" {
					told = append(told, e)
				}
			}
			if len(told) != 1 || told[0].Cluster != c.cluster || !told[0].Warning || !strings.Contains(told[0].Message, c.says) {
				t.Errorf("events are %+v", told)
			}
			if text := said.String() + notices[0].Message; strings.Contains(text, c.bearer) || strings.Contains(text, "\x00") {
				t.Error("the token, or a NUL, is told too")
			}
		})
	}
}

func TestAReplacedTokenOfTheHubIsNoticed(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	opts := options(t, o)
	hub := start(t, opts)
	hub.ready()
	next := fleet.NewOperatorToken(time.Now().Add(fleet.OperatorLifetime))
	if err := os.WriteFile(opts.TokenFile, []byte(next+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hub.token = next
	fleetrepo.Until(t, "it is taken up", func() bool { code, _ := hub.do(http.MethodGet, "/v1/status", next, nil); return code == http.StatusOK })
	if notices := hub.status().Notices; len(notices) != 1 || notices[0].Reason != "TokenReplaced" ||
		strings.Contains(notices[0].Message, next) {
		t.Errorf("notices are %+v", notices)
	}
	if err := os.WriteFile(opts.TokenFile, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fleetrepo.Until(t, "a bad one is told", func() bool {
		_, body := hub.do(http.MethodGet, "/v1/hub", next, nil)
		return strings.Contains(string(body), "the former token stays")
	})
}

func TestADamagedMirrorIsNoticed(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	opts := options(t, o)
	hub := start(t, opts)
	hub.ready()
	packs, err := filepath.Glob(filepath.Join(opts.Data, "mirrors", "*", "objects-*", "objects", "pack", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("no packs: %v", err)
	}
	for _, pack := range packs {
		if err := os.Remove(pack); err != nil {
			t.Fatal(err)
		}
	}
	fleetrepo.Until(t, "it is noticed", func() bool {
		notices := hub.status().Notices
		return len(notices) == 1 && notices[0].Reason == "MirrorDamaged" && strings.Contains(notices[0].Message, "has been fetched anew")
	})
}

func TestAnOriginThatWasRewoundIsToldInStatus(t *testing.T) {
	o := fleetrepo.New(t)
	first := o.Push(fleetrepo.TwoServices(nil))
	hub := start(t, options(t, o))
	hub.ready()
	second := o.Push(map[string]string{"README.md": "x"})
	fleetrepo.Until(t, "the second commit is served", func() bool { return hub.status().Commit.ID == second })
	o.Git(o.Work, "reset", "-q", "--hard", first)
	o.Push(map[string]string{"README.md": "y"})
	fleetrepo.Until(t, "the status tells of it", func() bool {
		for _, source := range hub.status().Sources {
			for _, ref := range source.Refs {
				if source.Name == "." && strings.Contains(ref.Rewound, second[:12]) {
					return true
				}
			}
		}
		return false
	})
}
