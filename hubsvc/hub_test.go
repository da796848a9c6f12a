package hubsvc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// started passes on the address that a hub says it listens on.
type started struct {
	slog.Handler
	address chan<- string
}

func (s started) Enabled(context.Context, slog.Level) bool { return true }

func (s started) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "hub started" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "listen" {
				s.address <- a.Value.String()
			}
			return true
		})
	}
	return s.Handler.Handle(ctx, r)
}

// running is a whole hub at work.
type running struct {
	t      *testing.T
	url    string
	token  string
	client *http.Client
	stop   func()
}

func options(t *testing.T, o *fleetrepo.Origin) Options {
	t.Helper()
	dir := t.TempDir()
	return Options{
		Data: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", TokenFile: filepath.Join(dir, "token"), Repo: o.URL(), Branch: "main",
		Interval: 20 * time.Millisecond, AllowFile: true, AllowLoopback: true, Log: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20,
		Terms: gateway.Terms{PollInterval: time.Second, ReportInterval: time.Second},
	}
}

// start runs a hub until the test ends or stop is called.
func start(t *testing.T, opts Options) *running {
	t.Helper()
	return startWith(t, opts, slog.DiscardHandler)
}

// startWith starts a hub that logs to a handler.
func startWith(t *testing.T, opts Options, handler slog.Handler) *running {
	t.Helper()
	address := make(chan string, 1)
	opts.Log = slog.New(started{handler, address})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, opts) }()
	r := &running{t: t, client: &http.Client{Transport: &http.Transport{}}}
	stopped := false
	r.stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the hub did not stop")
		}
		r.client.CloseIdleConnections()
	}
	t.Cleanup(r.stop)
	select {
	case at := <-address:
		r.url = "http://" + at
	case err := <-done:
		stopped = true
		t.Fatalf("Run: %v", err)
	}
	raw, err := os.ReadFile(opts.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	r.token = strings.TrimSpace(string(raw))
	return r
}

func (r *running) do(method, path, bearer string, body []byte) (int, []byte) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(string(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+bearer)
	response, err := r.client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, answer
}

func (r *running) ready() {
	r.t.Helper()
	fleetrepo.Until(r.t, "the hub is ready", func() bool { code, _ := r.do(http.MethodGet, "/readyz", "", nil); return code == http.StatusOK })
}

func (r *running) status() v1.Status {
	r.t.Helper()
	code, body := r.do(http.MethodGet, "/v1/status", r.token, nil)
	var status v1.Status
	if err := json.Unmarshal(body, &status); err != nil || code != http.StatusOK {
		r.t.Fatalf("status: %d, %v", code, err)
	}
	return status
}

// agent is a cluster's key with tokens made by it.
func agent(t *testing.T, cluster string) (ed25519.PublicKey, func() string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer := token.NewSigner(private, cluster, "https://hub.example.com", time.Now)
	return public, func() string {
		raw, err := signer.Token(nil)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
}

func TestHubServesAFleetFromStartToFinish(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := fleetrepo.New(t)
	key, bearer := agent(t, "a")
	id := o.Push(fleetrepo.TwoServices(key))
	hub := start(t, options(t, o))
	defer hub.stop()
	hub.ready()
	code, body := hub.do(http.MethodGet, api.PollPath, bearer(), nil)
	poll := new(api.Poll)
	if err := proto.Unmarshal(body, poll); err != nil || code != http.StatusOK || len(poll.GetDeployments()) != 2 {
		t.Fatalf("poll: %d, %v, %v", code, err, poll)
	}
	report := &api.Report{AgentVersion: "v1", Boot: "x", Sequence: 1}
	for _, d := range poll.GetDeployments() {
		if code, _ := hub.do(http.MethodGet, api.BundlePath+d.GetBundle(), bearer(), nil); code != http.StatusOK {
			t.Errorf("bundle: %d", code)
		}
		report.Services = append(report.Services, &api.ServiceReport{Service: d.GetService(), Key: d.GetKey(), AppliedKey: d.GetKey(), Phase: api.Phase_HEALTHY})
	}
	if status := hub.status(); status.Converged() {
		t.Error("converged before the agent has reported")
	}
	encoded, err := proto.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := hub.do(http.MethodPost, api.ReportPath, bearer(), encoded); code != http.StatusNoContent {
		t.Fatalf("report: %d %s", code, body)
	}
	status := hub.status()
	if !status.Converged() || status.Commit.ID != id || status.Deployments[v1.Healthy] != 2 || status.Workspace != "demo" {
		t.Errorf("status = %+v", status)
	}
	if len(status.Sources) != 1 || status.Sources[0].Name != "." || status.Sources[0].Commit != id || status.Sources[0].LastFetch == nil {
		t.Errorf("sources = %+v", status.Sources)
	}
	bad := o.Push(map[string]string{"plural.yaml": "nonsense"})
	fleetrepo.Until(t, "the bad commit is refused", func() bool { s := hub.status(); return s.Head.ID == bad && len(s.Refused) > 0 })
	if status := hub.status(); status.Commit.ID != id || status.Sources[0].Commit != id || status.Converged() {
		t.Errorf("status = %+v", status)
	}
}

func TestAReportWhoseNumberLeapsIsRefusedUntilItsAgentCountsAnew(t *testing.T) {
	o := fleetrepo.New(t)
	key, bearer := agent(t, "a")
	o.Push(fleetrepo.TwoServices(key))
	hub := start(t, options(t, o))
	defer hub.stop()
	hub.ready()
	for _, said := range []struct {
		boot   string
		number uint64
		want   int
	}{
		{"x", 1, http.StatusNoContent},
		{"x", math.MaxUint64, http.StatusConflict},
		{"y", math.MaxUint64, http.StatusNoContent},
	} {
		body, err := proto.Marshal(&api.Report{AgentVersion: "v1", Boot: said.boot, Sequence: said.number})
		if err != nil {
			t.Fatal(err)
		}
		if code, body := hub.do(http.MethodPost, api.ReportPath, bearer(), body); code != said.want {
			t.Errorf("report %d of %s: %d %s", said.number, said.boot, code, body)
		}
	}
}

func TestRevokedAgentIsTurnedAwayAsSoonAsTheCommitIsServed(t *testing.T) {
	o := fleetrepo.New(t)
	key, bearer := agent(t, "a")
	o.Push(fleetrepo.TwoServices(key))
	hub := start(t, options(t, o))
	hub.ready()
	if code, _ := hub.do(http.MethodGet, api.PollPath, bearer(), nil); code != http.StatusOK {
		t.Fatalf("poll: %d", code)
	}
	id := o.Push(map[string]string{"clusters/a.yaml": fleetrepo.Cluster("a", nil)})
	fleetrepo.Until(t, "the commit is served", func() bool { return hub.status().Commit.ID == id })
	for path, method := range map[string]string{api.PollPath: http.MethodGet, api.ReportPath: http.MethodPost, api.BundlePath + "b1-x": http.MethodGet} {
		if code, _ := hub.do(method, path, bearer(), nil); code != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestPeopleAreToldOfAnAgentThatReportsInALoop(t *testing.T) {
	o := fleetrepo.New(t)
	key, bearer := agent(t, "a")
	o.Push(fleetrepo.TwoServices(key))
	hub := start(t, options(t, o))
	hub.ready()
	code := 0
	for tries := 0; code != http.StatusTooManyRequests; tries++ {
		if code, _ = hub.do(http.MethodPost, api.ReportPath, bearer(), nil); tries == 100_000 {
			t.Fatal("all reports are taken")
		}
	}
	fleetrepo.Until(t, "the event is shown", func() bool {
		_, body := hub.do(http.MethodGet, "/v1/events", hub.token, nil)
		return strings.Contains(string(body), `"ReportsLimited"`) && strings.Contains(string(body), "cluster a reports more often")
	})
	code, body := hub.do(http.MethodGet, "/metrics", hub.token, nil)
	if code != http.StatusOK || strings.Contains(string(body), "plural_hub_reports_refused_total 0\n") {
		t.Errorf("metrics: %d, the refusal is not counted", code)
	}
}

func TestOperatorsPathsAnswerWhomTheyShould(t *testing.T) {
	o := fleetrepo.New(t)
	opts := options(t, o)
	opts.Interval = time.Hour
	bad := o.Push(map[string]string{"plural.yaml": "nonsense"})
	hub := start(t, opts)
	fleetrepo.Until(t, "the bad commit is refused", func() bool { return hub.status().Head.ID == bad })
	if code, _ := hub.do(http.MethodGet, "/healthz", "", nil); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	if code, _ := hub.do(http.MethodGet, "/readyz", "", nil); code != http.StatusServiceUnavailable {
		t.Errorf("readyz before the first good commit: %d", code)
	}
	if code, _ := hub.do(http.MethodPost, "/hooks/git", "wrong", nil); code != http.StatusServiceUnavailable {
		t.Errorf("a stranger's hook, who may be a user of the first good commit: %d", code)
	}
	o.Push(fleetrepo.TwoServices(nil))
	if code, _ := hub.do(http.MethodPost, "/hooks/git", hub.token, nil); code != http.StatusAccepted {
		t.Errorf("hook: %d", code)
	}
	hub.ready() // an hour before the next regular fetch
	if code, _ := hub.do(http.MethodPost, "/hooks/git", "wrong", nil); code != http.StatusUnauthorized {
		t.Errorf("a stranger's hook: %d", code)
	}
	code, body := hub.do(http.MethodGet, "/metrics", hub.token, nil)
	if code != http.StatusOK || !strings.Contains(string(body), "plural_hub_clusters 1\n") || !strings.Contains(string(body), "plural_hub_services 2\n") {
		t.Errorf("metrics: %d", code)
	}
	if code, _ := hub.do(http.MethodGet, "/metrics", "", nil); code != http.StatusUnauthorized { // as a mesh's sidecar passes it on
		t.Errorf("metrics for a stranger, from this machine: %d", code)
	}
}

func TestHubThatCannotStartLeavesNothingBehind(t *testing.T) {
	o := fleetrepo.New(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	other := t.TempDir()
	unlock, err := lock(other)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	shared := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(shared, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change func(*Options)
		want   string
	}{
		"port in use":        {func(o *Options) { o.Listen = taken.Addr().String() }, "address already in use"},
		"data in use":        {func(o *Options) { o.Data = other }, "in use by another hub"},
		"no certificate":     {func(o *Options) { o.TLSCert, o.TLSKey = "nowhere.crt", "nowhere.key" }, "nowhere.crt"},
		"key alone":          {func(o *Options) { o.TLSKey = "nowhere.key" }, "nowhere.key"},
		"token is too short": {func(o *Options) { o.TokenFile = shared }, shared},
		"data is a file":     {func(o *Options) { o.Data = shared }, shared},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			opts := options(t, o)
			test.change(&opts)
			if err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Run: %v, want something with %q", err, test.want)
			}
		})
	}
}

func TestHubServesTLS(t *testing.T) {
	o := fleetrepo.New(t)
	key, bearer := agent(t, "a")
	o.Push(fleetrepo.TwoServices(key))
	opts := options(t, o)
	var roots *x509.CertPool
	opts.TLSCert, opts.TLSKey, roots = certificate(t)
	hub := start(t, opts)
	hub.url = strings.Replace(hub.url, "http://", "https://", 1)
	hub.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}}
	hub.ready()
	if code, _ := hub.do(http.MethodGet, api.PollPath, bearer(), nil); code != http.StatusOK {
		t.Errorf("poll: %d", code)
	}
	old := &tls.Dialer{Config: &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS12}}
	if conn, err := old.DialContext(t.Context(), "tcp", strings.TrimPrefix(hub.url, "https://")); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.2 was accepted")
	}
}

// certificate writes a certificate for this machine that signs itself.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := os.ReadFile(certFile)
	if err != nil || !roots.AppendCertsFromPEM(encoded) {
		t.Fatalf("certificate: %v", err)
	}
	return certFile, keyFile, roots
}

// Whoever asks has to be able to tell a hub of another repository, also where it lets nobody in.
func TestEveryAnswerToPeopleNamesTheRepository(t *testing.T) {
	o := fleetrepo.New(t)
	const id = "4cyfb7qkz2nmx5w3"
	o.Push(map[string]string{
		"plural.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata:\n  name: demo\n  annotations: {plural.sh/repository: " + id + "}\nspec: {}\n",
	})
	hub := start(t, options(t, o))
	said := func(path, bearer string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+bearer)
		response, err := hub.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header.Get(v1.RepositoryHeader)
	}
	fleetrepo.Until(t, "its repository is read", func() bool { _, id := said("/v1/status", hub.token); return id != "" })
	for _, tt := range []struct {
		path, bearer string
		status       int
		want         string
	}{
		{"/v1/status", hub.token, http.StatusOK, id},
		{"/v1/status", "another", http.StatusUnauthorized, id},
		{"/v1/services/nothing", hub.token, http.StatusNotFound, id},
		{"/v1/me", "another", http.StatusUnauthorized, id},
		{"/v1/stream", "another", http.StatusUnauthorized, id},
		{"/healthz", "", http.StatusOK, ""},
	} {
		if status, got := said(tt.path, tt.bearer); status != tt.status || got != tt.want {
			t.Errorf("%s by %q: %d with %q, want %d with %q", tt.path, tt.bearer, status, got, tt.status, tt.want)
		}
	}
}
