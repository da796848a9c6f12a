package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"k8s.io/client-go/rest"

	v1 "github.com/pluralsh/plural/api/v1"
)

// certified is an HTTPS server whose certificate is for these names, and ends then.
func certified(t *testing.T, handler http.Handler, end time.Time, names ...string) (server *httptest.Server, authority []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: end.Add(-365 * 24 * time.Hour), NotAfter: end, DNSNames: names,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if len(names) == 0 {
		cert.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	must(t, err)
	server = httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12,
	}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// ready answers as a hub's /readyz does, with a clock that is ahead.
func ready(status int, ahead time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.WriteHeader(status)
		_, _ = w.Write([]byte("no commit has been fetched yet"))
	})
}

// fleetOf answers what a hub is asked as a person.
type fleetOf struct {
	status   *v1.Status
	clusters []v1.Cluster
	hub      v1.Hub
	me       error
}

func (f *fleetOf) Hub(context.Context) (*v1.Hub, error)       { return &f.hub, f.me }
func (f *fleetOf) Status(context.Context) (*v1.Status, error) { return f.status, f.me }
func (f *fleetOf) Me(context.Context) (*v1.Me, error)         { return &v1.Me{Name: "ada"}, f.me }
func (f *fleetOf) Clusters(context.Context) (*v1.List[v1.Cluster], error) {
	return &v1.List[v1.Cluster]{Items: f.clusters}, nil
}

func hubEnv(server *httptest.Server, authority []byte, asked Hub) Env {
	return Env{
		Version: "1.2.3", HubURL: server.URL, HubCA: authority, Hub: asked,
		Identities: func() ([]age.Identity, error) { return nil, nil },
	}
}

func TestAHubThatIsWellIsSaidToBe(t *testing.T) {
	year := time.Now().Add(365 * 24 * time.Hour)
	server, authority := certified(t, ready(http.StatusOK, 0), year)
	report := time.Now()
	asked := &fleetOf{
		status:   &v1.Status{Version: "1.2.3", Commit: v1.Commit{ID: "c0ffee0000"}, Head: v1.Commit{ID: "c0ffee0000"}},
		clusters: []v1.Cluster{{Name: "a", Phase: v1.Healthy, AgentVersion: "1.2.3", LastReport: &report}},
	}
	results := found(t, hubEnv(server, authority, asked), false)
	is(t, results, "hub/name", OK, "127.0.0.1")
	is(t, results, "hub/health", OK, "is ready")
	is(t, results, "hub/certificate", OK, year.UTC().Format(time.DateOnly))
	is(t, results, "hub/clock", OK)
	is(t, results, "hub/log-in", OK, "ada")
	is(t, results, "hub/version", OK, "1.2.3")
	is(t, results, "hub/commit", OK, "c0ffee0")
	is(t, results, "hub/agents", OK, "1 agent")
}

func TestAHubWhosePlannerIsStuckIsWarnedOf(t *testing.T) {
	for name, tc := range map[string]struct {
		header, text string
		state        State
	}{
		"by the header":                 {v1.PlannerStuck, "ready: no progress for 12m0s", Warn},
		"by a hub that has words alone": {"", "ready: the planner is stuck: it has been at one turn for 12m0s", Warn},
		"well, whatever the words are":  {v1.PlannerWell, "ready: nothing like \"planner is stuck\" for 12m0s", OK},
	} {
		t.Run(name, func(t *testing.T) {
			server, authority := certified(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tc.header != "" {
					w.Header().Set(v1.PlannerHeader, tc.header)
				}
				_, _ = w.Write([]byte(tc.text))
			}), time.Now().Add(365*24*time.Hour))
			results := found(t, hubEnv(server, authority, &fleetOf{status: &v1.Status{}}), false)
			if tc.state == OK {
				is(t, results, "hub/health", OK, "is ready")
				return
			}
			is(t, results, "hub/health", tc.state, "takes up no new commits", "12m0s")
		})
	}
}

func TestWhatIsWrongWithAHubsConnectionIsTold(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		handler http.Handler
		end     time.Duration
		names   []string
		trusted bool
		check   string
		state   State
		words   []string
	}{
		"ended":             {ready(200, 0), -day, nil, true, "hub/health", Fail, []string{"certificate has ended", "renew"}},
		"ends soon":         {ready(200, 0), 3*day + time.Hour, nil, true, "hub/certificate", Warn, []string{"ends in 3 days"}},
		"unknown authority": {ready(200, 0), 90 * day, nil, false, "hub/health", Fail, []string{"PLURAL_CA_FILE"}},
		"another name":      {ready(200, 0), 90 * day, []string{"hub.example.com"}, true, "hub/health", Fail, []string{"another name"}},
		"not ready": {
			ready(503, 0), 90 * day, nil, true, "hub/health", Fail,
			[]string{"503", "no commit has been fetched yet", "plural logs hub"},
		},
		"clock a bit off": {ready(200, 10*time.Second), 90 * day, nil, true, "hub/clock", Warn, []string{"ahead", "NTP"}},
		"clock far off":   {ready(200, -time.Hour), 90 * day, nil, true, "hub/clock", Fail, []string{"behind", "tokens are refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			server, authority := certified(t, tc.handler, time.Now().Add(tc.end), tc.names...)
			if !tc.trusted {
				authority = nil
			}
			is(t, found(t, hubEnv(server, authority, &fleetOf{me: errors.New("401")}), false), tc.check, tc.state, tc.words...)
		})
	}
}

func TestAHubThatIsAwayIsToldOnce(t *testing.T) {
	server, _ := certified(t, ready(200, 0), time.Now().Add(time.Hour))
	server.Close()
	results := found(t, hubEnv(server, nil, &fleetOf{}), false)
	is(t, results, "hub/health", Fail, "connection refused", "kubectl")
	for _, check := range []string{"hub/certificate", "hub/clock", "hub/log-in", "hub/version", "hub/commit", "hub/agents"} {
		is(t, results, check, Skipped, "cannot be reached")
	}
}

func TestWhatAHubSaysOfTheFleetIsJudged(t *testing.T) {
	server, authority := certified(t, ready(200, 0), time.Now().Add(90*24*time.Hour))
	old, fresh := time.Now().Add(-time.Hour), time.Now()
	good := v1.Commit{ID: "c0ffee0000"}
	for name, tc := range map[string]struct {
		asked fleetOf
		check string
		state State
		words []string
	}{
		"unknown person": {
			fleetOf{me: errors.New("token expired")},
			"hub/log-in", Warn,
			[]string{"token expired", "plural auth login"},
		},
		"unknown, so nothing follows": {
			fleetOf{me: errors.New("token expired")}, "hub/agents", Skipped, []string{"does not tell you"},
		},
		"newer hub": {
			fleetOf{status: &v1.Status{Version: "1.4.0"}},
			"hub/version", Warn,
			[]string{"1.4.0", "plural package upgrade hub"},
		},
		"hub of the next minor version": {fleetOf{status: &v1.Status{Version: "1.3.0"}}, "hub/version", OK, []string{"1.3.0", "work together"}},
		"other major":                   {fleetOf{status: &v1.Status{Version: "2.0.0"}}, "hub/version", Fail, []string{"2.0.0"}},
		"certificate that cannot be renewed": {
			fleetOf{hub: v1.Hub{Certificates: []v1.Certificate{{Name: "hub", Ends: old, Error: "private key does not match"}}}},
			"hub/certificate", Warn,
			[]string{"private key does not match", old.Format(time.DateOnly), "takes them up by itself"},
		},
		"operator's token that is to be renewed": {
			fleetOf{hub: v1.Hub{TokenWarning: "the hub's own token expires on 2027-01-01"}},
			"hub/operator's token", Warn,
			[]string{"expires on 2027-01-01", "plural up"},
		},
		"source that cannot be fetched": {
			fleetOf{status: &v1.Status{Sources: []v1.Source{{Name: "up", Error: "no route"}}}},
			"hub/sources", Warn,
			[]string{"cannot fetch up", "no route", "plural source get up"},
		},
		"source that was rewound": {
			fleetOf{status: &v1.Status{Sources: []v1.Source{{Name: "up", Refs: []v1.SourceRef{{Ref: "main", Rewound: "was 1"}}}}}},
			"hub/sources", Warn,
			[]string{"left its history: up main"},
		},
		"agent that is refused": {
			fleetOf{status: &v1.Status{Notices: []v1.Notice{{Message: "an agent is refused", Fix: "register it"}}}},
			"hub/notices", Warn,
			[]string{"an agent is refused", "register it"},
		},
		"refused commit": {
			fleetOf{status: &v1.Status{
				Commit: good, Head: v1.Commit{ID: "baad000000"},
				Refused: []v1.Problem{{Message: "services/a.yaml: no such field"}},
			}},
			"hub/commit", Fail,
			[]string{"refuses commit baad000", "serves c0ffee0", "no such field", "plural validate"},
		},
		"nothing served": {fleetOf{status: &v1.Status{}}, "hub/commit", Fail, []string{"no commit"}},
		"silent agent": {
			fleetOf{status: &v1.Status{}, clusters: []v1.Cluster{
				{Name: "edge-1", Phase: v1.Stale, LastReport: &old},
				{Name: "edge-2", Phase: v1.Healthy, LastReport: &fresh},
			}},
			"hub/agents", Fail,
			[]string{"edge-1 (1h0m", "deployment/plural-agent"},
		},
		"no agent": {
			fleetOf{status: &v1.Status{}, clusters: []v1.Cluster{{Name: "edge-1", Phase: v1.Unregistered}}},
			"hub/agents",
			Warn,
			[]string{"plural cluster register edge-1"},
		},
		"agent of a newer version": {
			fleetOf{status: &v1.Status{Version: "1.2.3"}, clusters: []v1.Cluster{{Name: "edge-1", AgentVersion: "1.3.0", LastReport: &fresh}}},
			"hub/agents", Warn,
			[]string{"newer than the hub", "edge-1 (1.3.0)", "upgrade hub"},
		},
		"agent that is not served any more": {
			fleetOf{status: &v1.Status{Version: "1.4.0"}, clusters: []v1.Cluster{{Name: "edge-1", AgentVersion: "1.1.9", LastReport: &fresh}}},
			"hub/agents", Warn,
			[]string{"does not serve any more", "edge-1 (1.1.9)"},
		},
		"cluster of an old Kubernetes": {
			fleetOf{status: &v1.Status{}, clusters: []v1.Cluster{{Name: "edge-1", KubernetesVersion: "v1.35.4"}, {Name: "edge-2", KubernetesVersion: "v1.32.1+k3s1"}}},
			"hub/kubernetes", Warn,
			[]string{"1.33 to 1.37", "edge-2 (v1.32.1+k3s1)"},
		},
		"clusters of Kubernetes versions that are meant": {
			fleetOf{status: &v1.Status{}, clusters: []v1.Cluster{{Name: "edge-1", KubernetesVersion: "v1.33.0-eks-1"}, {Name: "edge-2"}}},
			"hub/kubernetes", OK,
			[]string{"everywhere"},
		},
		"old agent": {fleetOf{status: &v1.Status{Version: "1.2.3"}, clusters: []v1.Cluster{{Name: "edge-1", AgentVersion: "1.1.0", LastReport: &fresh}}}, "hub/agents", Warn, []string{"edge-1 (1.1.0)"}},
	} {
		t.Run(name, func(t *testing.T) {
			is(t, found(t, hubEnv(server, authority, &tc.asked), false), tc.check, tc.state, tc.words...)
		})
	}
}

func TestAHubWithoutTLSIsWarnedOfUnlessItIsOnThisMachine(t *testing.T) {
	server := httptest.NewServer(ready(200, 0))
	t.Cleanup(server.Close)
	is(t, found(t, hubEnv(server, nil, &fleetOf{}), false), "hub/certificate", Skipped, "on this machine")
	x := &exam{Env: Env{HubURL: "http://hub.example.com"}}
	x.hub = func(context.Context) (*reply, error) { return &reply{}, nil }
	if r := x.certificate(t.Context()); r.State != Warn || !strings.Contains(r.Text, "without TLS") {
		t.Errorf("%+v", r)
	}
}

// The API server here is one of another version, or whose clock is wrong: Kubernetes answers /version like this.
func TestAnAPIServersVersionAndClockAreJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		minor string
		ahead time.Duration
		body  string
		check string
		state State
		words []string
	}{
		"ancient":        {"24", 0, "", "version", Fail, []string{"Pod Security"}},
		"old":            {"30+", 0, "", "version", Warn, []string{"1.33 to 1.37"}},
		"right":          {"35", 0, "", "version", OK, []string{"v1.35"}},
		"from tomorrow":  {"60", 0, "", "version", Warn, []string{"1.33 to 1.37"}},
		"clock ahead":    {"35", time.Minute, "", "clock", Warn, []string{"ahead"}},
		"clock way back": {"35", -10 * time.Minute, "", "clock", Fail, []string{"behind"}},
		"a web page":     {"", 0, "<html>", "reachable", Fail, []string{"does not answer as an API server does"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(tc.ahead).UTC().Format(http.TimeFormat))
				if tc.body != "" {
					_, _ = w.Write([]byte(tc.body))
					return
				}
				_, _ = w.Write([]byte(`{"major": "1", "minor": "` + tc.minor + `", "gitVersion": "v1.` + tc.minor + `.0"}`))
			}))
			t.Cleanup(server.Close)
			env := Env{
				Clusters:   map[string]*rest.Config{"a": {Host: server.URL}},
				Identities: func() ([]age.Identity, error) { return nil, nil },
			}
			is(t, found(t, env, true), "cluster a/"+tc.check, tc.state, tc.words...)
		})
	}
}
