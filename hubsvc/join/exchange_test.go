package join_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/hubsvc/join"
	"github.com/pluralsh/plural/workspace/fleet"
)

const hubURL = "https://hub"

// fleetOf is a fleet whose clusters edge and late wait for tokens, late for one that has expired. What comes of an exchange is noted.
type fleetOf struct {
	testing.TB
	now      time.Time
	clusters map[string]*fleet.Cluster
	options  join.Options
	door     http.Handler
	// commits are "CLUSTER HASH", written is what was written down, the beginning of an exchange and its end.
	commits []string
	written []join.Exchange
}

func newFleet(tb testing.TB) *fleetOf {
	tb.Helper()
	f := &fleetOf{TB: tb, now: time.Now().Truncate(time.Second), clusters: map[string]*fleet.Cluster{}}
	for name, left := range map[string]time.Duration{"edge": time.Hour, "late": 0} {
		c := &fleet.Cluster{Metadata: fleet.Metadata{Name: name}}
		c.Spec.Join = &fleet.Join{Hash: fleet.HashToken("for " + name), Expires: f.now.Add(left).UTC().Format(time.RFC3339)}
		f.clusters[name] = c
	}
	f.clusters["joined"] = &fleet.Cluster{Metadata: fleet.Metadata{Name: "joined"}}
	f.options = join.Options{
		Cluster: func(name string) (*fleet.Cluster, bool) { c, ok := f.clusters[name]; return c, ok },
		Place:   func() (join.HubAddress, error) { return join.HubAddress{HubURL: hubURL, Repository: "3f0c"}, nil },
		Refused: func(string) error { return nil },
		Commit: func(_ context.Context, cluster string, _ fleet.AgentKeys, hash string) error {
			f.commits = append(f.commits, cluster+" "+hash)
			return nil
		},
		Write: func(_ context.Context, e join.Exchange, _ bool) error {
			f.written = append(f.written, e)
			return nil
		},
		Image: func(*fleet.Cluster) string { return "agent:1" }, Now: func() time.Time { return f.now }, Log: slog.New(slog.DiscardHandler),
	}
	f.open()
	return f
}

// open makes the door of the options.
func (f *fleetOf) open() {
	mux := http.NewServeMux()
	join.New(f.options).Routes(mux)
	f.door = mux
}

// agent is a fresh one, with all that it says.
type agent struct {
	key            ed25519.PrivateKey
	asked          api.JoinRequest
	of, hub, proof string // what it proves: its cluster, to which hub; or a proof as it is
	body           string // instead of asked
}

func (f *fleetOf) agent(cluster string) agent {
	f.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	return agent{key: private, of: cluster, hub: hubURL, asked: api.JoinRequest{
		Cluster: cluster, Token: "for " + cluster, Auth: "ed25519:" + base64.StdEncoding.EncodeToString(public), Age: id.Recipient().String(),
	}}
}

func (f *fleetOf) exchange(a agent) (int, string) {
	f.Helper()
	body, err := json.Marshal(a.asked)
	if err != nil {
		f.Fatal(err)
	}
	if a.body != "" {
		body = []byte(a.body)
	}
	if a.proof == "" {
		proof, err := token.NewSigner(a.key, a.of, a.hub, func() time.Time { return f.now }).Token(nil)
		if err != nil {
			f.Fatal(err)
		}
		a.proof = "Bearer " + proof
	}
	r := httptest.NewRequest(http.MethodPost, api.JoinPath, bytes.NewReader(body))
	r.Header.Set("Authorization", a.proof)
	w := httptest.NewRecorder()
	f.door.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (f *fleetOf) fetch(name, shown string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, join.ManifestsPath+name, nil)
	r.Header.Set("Authorization", "Bearer "+shown)
	w := httptest.NewRecorder()
	f.door.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestATokenIsExchangedOnceForARegistration(t *testing.T) {
	f := newFleet(t)
	a := f.agent("edge")
	code, text := f.exchange(a)
	var answer api.JoinAnswer
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	if want := (api.JoinAnswer{Cluster: "edge", HubURL: hubURL, Repository: "3f0c"}); answer != want {
		t.Errorf("answer %+v", answer)
	}
	if want := []string{"edge " + fleet.HashToken("for edge")}; !slices.Equal(f.commits, want) {
		t.Errorf("commits %q", f.commits)
	}
	if len(f.written) != 2 || f.written[0].ID == "" || f.written[0].ID != f.written[1].ID || f.written[0].Cluster != "edge" ||
		!f.written[1].Allowed || f.written[1].Status != http.StatusOK || f.written[1].Cause != "" {
		t.Errorf("written down: %+v", f.written)
	}
	// Until the commit is served, the cluster's file still has the hash.
	if code, _ := f.exchange(f.agent("edge")); code != http.StatusNotFound {
		t.Errorf("a second agent: %d", code)
	}
	if code, _ := f.fetch("edge.yaml", "for edge"); code != http.StatusNotFound {
		t.Errorf("its manifests: %d", code)
	}
	// The agent whose answer was lost asks again.
	f.clusters["edge"].Spec.Join, f.clusters["edge"].Spec.Agent = nil, fleet.AgentKeys{Auth: a.asked.Auth, Age: a.asked.Age}
	if code, again := f.exchange(a); code != http.StatusOK || again != text {
		t.Errorf("the same agent: %d %s", code, again)
	}
	if len(f.commits) != 1 || len(f.written) != 2 {
		t.Errorf("commits %q, written down %+v", f.commits, f.written)
	}
}

func TestNobodyJoinsWithAnythingLess(t *testing.T) {
	for name, spoil := range map[string]func(f *fleetOf, a *agent){
		"another token":             func(_ *fleetOf, a *agent) { a.asked.Token = "for late" },
		"no token":                  func(_ *fleetOf, a *agent) { a.asked.Token = "" },
		"a token that expired":      func(f *fleetOf, a *agent) { *a = f.agent("late") },
		"a token a moment too late": func(f *fleetOf, _ *agent) { f.now = f.now.Add(time.Hour) },
		"a cluster that is not":     func(f *fleetOf, a *agent) { *a = f.agent("nowhere") },
		"one that waits for nobody": func(f *fleetOf, a *agent) { *a = f.agent("joined") },
		"no keys, as one has that waits": func(f *fleetOf, a *agent) {
			*a = f.agent("joined")
			a.asked.Auth, a.asked.Age = "", ""
		},
		"an auth key that is none":   func(_ *fleetOf, a *agent) { a.asked.Auth = "ed25519:AAAA" },
		"an age key that is none":    func(_ *fleetOf, a *agent) { a.asked.Age = "age1" },
		"an age key in capitals":     func(_ *fleetOf, a *agent) { a.asked.Age = strings.ToUpper(a.asked.Age) },
		"somebody else's key":        func(f *fleetOf, a *agent) { a.key = f.agent("edge").key },
		"a proof of another cluster": func(_ *fleetOf, a *agent) { a.of = "late" },
		"a proof for another hub":    func(_ *fleetOf, a *agent) { a.hub = "https://evil" },
		"no proof":                   func(_ *fleetOf, a *agent) { a.proof = "Bearer " },
		"a proof that is none's":     func(_ *fleetOf, a *agent) { a.proof = "Basic x" },
		"no request":                 func(_ *fleetOf, a *agent) { a.body = "{" },
		"a field that nobody knows":  func(_ *fleetOf, a *agent) { a.body = with(a.asked, `,"admin":true}`) },
		"two requests":               func(_ *fleetOf, a *agent) { a.body = with(a.asked, `}{}`) },
		"one without end":            func(_ *fleetOf, a *agent) { a.body = with(a.asked, "}"+strings.Repeat(" ", api.MaxJoinBytes)) },
	} {
		f := newFleet(t)
		a := f.agent("edge")
		spoil(f, &a)
		if code, text := f.exchange(a); code != http.StatusNotFound || !strings.Contains(text, "no cluster waits for this token") {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if len(f.commits) > 0 || len(f.written) > 0 {
			t.Errorf("%s: commits %q, written down %+v", name, f.commits, f.written)
		}
	}
}

// with is the text of a request with another end.
func with(asked api.JoinRequest, end string) string {
	text, _ := json.Marshal(asked)
	return strings.TrimSuffix(string(text), "}") + end
}

func TestAProofTakenFromAConnectionIsGoodOnNoOther(t *testing.T) {
	f := newFleet(t)
	a := f.agent("edge")
	proof, err := token.NewSigner(a.key, a.of, a.hub, func() time.Time { return f.now }).Token([]byte("of another connection"))
	if err != nil {
		t.Fatal(err)
	}
	a.proof = "Bearer " + proof
	if code, _ := f.exchange(a); code != http.StatusNotFound || len(f.commits) > 0 {
		t.Errorf("%d, commits %q", code, f.commits)
	}
}

func TestWhatCannotBeDoneNowLeavesTheTokenGood(t *testing.T) {
	broken := errors.New("no space left")
	for name, tt := range map[string]struct {
		spoil  func(o *join.Options)
		status int
		want   []join.Exchange // at the end
	}{
		"the hub does not know where it is": {
			spoil: func(o *join.Options) {
				o.Place = func() (join.HubAddress, error) { return join.HubAddress{HubURL: hubURL}, broken }
			}, status: http.StatusServiceUnavailable,
		},
		"nothing is committed here": {
			spoil: func(o *join.Options) {
				o.Refused = func(string) error { return &join.Refusal{Message: "closed", Fix: "ask"} }
			}, status: http.StatusForbidden,
		},
		"it cannot be written down": {
			spoil: func(o *join.Options) {
				o.Write = func(context.Context, join.Exchange, bool) error { return broken }
			}, status: http.StatusServiceUnavailable,
		},
		"the commit fails": {
			spoil: func(o *join.Options) {
				o.Commit = func(context.Context, string, fleet.AgentKeys, string) error { return broken }
			},
			status: http.StatusServiceUnavailable, want: []join.Exchange{{
				Allowed: true, Status: http.StatusServiceUnavailable,
				Cause: "not committed",
			}},
		},
		"another was faster": {
			spoil: func(o *join.Options) {
				o.Commit = func(context.Context, string, fleet.AgentKeys, string) error { return join.ErrNotGood }
			},
			status: http.StatusNotFound, want: []join.Exchange{{Status: http.StatusNotFound, Cause: "the token was used"}},
		},
	} {
		f := newFleet(t)
		good := f.options
		tt.spoil(&f.options)
		f.open()
		a := f.agent("edge")
		code, text := f.exchange(a)
		if code != tt.status || strings.Contains(text, "space") || strings.Contains(text, hubURL) || len(f.commits) > 0 {
			t.Errorf("%s: %d %s, commits %q", name, code, text, f.commits)
		}
		var ends []join.Exchange
		for i, e := range f.written {
			if i%2 == 1 {
				ends = append(ends, join.Exchange{Allowed: e.Allowed, Status: e.Status, Cause: e.Cause})
			}
		}
		if diff := cmp.Diff(tt.want, ends); diff != "" {
			t.Errorf("%s: written down: %s", name, diff)
		}
		f.options.Place, f.options.Refused, f.options.Write, f.options.Commit = good.Place, good.Refused, good.Write, good.Commit
		f.open()
		if code, text := f.exchange(a); code != http.StatusOK {
			t.Errorf("%s: when it is mended: %d %s", name, code, text)
		}
	}
}

func TestManifestsAreHandedOutForTheClustersOwnTokenAlone(t *testing.T) {
	f := newFleet(t)
	if code, text := f.fetch("edge.yaml", "for edge"); code != http.StatusOK || !strings.Contains(text, "kind: Deployment") {
		t.Errorf("its own: %d", code)
	}
	for name, shown := range map[string]string{
		"edge.yaml": "for late", "late.yaml": "for late", "joined.yaml": "for joined", "nowhere.yaml": "for nowhere",
		"edge": "for edge", "edge.yml": "for edge",
	} {
		if code, text := f.fetch(name, shown); code != http.StatusNotFound || strings.Contains(text, "Deployment") {
			t.Errorf("%s with a token %s: %d", name, shown, code)
		}
	}
	f.options.Refused = func(string) error { return &join.Refusal{Message: "closed", Fix: "ask"} }
	f.open()
	if code, text := f.fetch("edge.yaml", "for edge"); code != http.StatusForbidden || !strings.Contains(text, "closed") {
		t.Errorf("where nobody joins: %d %s", code, text)
	}
	if code, _ := f.fetch("edge.yaml", "for late"); code != http.StatusNotFound {
		t.Errorf("where nobody joins, with a wrong token: %d", code)
	}
	f.options.Refused = func(string) error { return nil }
	f.options.Place = func() (join.HubAddress, error) { return join.HubAddress{}, errors.New("no space left") }
	f.open()
	if code, text := f.fetch("edge.yaml", "for edge"); code != http.StatusServiceUnavailable || strings.Contains(text, "Deployment") ||
		strings.Contains(text, "space") {
		t.Errorf("of a hub that does not know where it is: %d %s", code, text)
	}
}
