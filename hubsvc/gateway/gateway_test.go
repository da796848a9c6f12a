package gateway_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/workspace/resolve"
)

const hubURL = "https://hub.example.com"

var (
	terms    = gateway.Terms{PollInterval: 30 * time.Second, ReportInterval: time.Minute, DeletionBudget: "50%"}
	received = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
)

func deployment(service, bundle string) resolve.Deployment {
	return resolve.Deployment{
		Service: service, Key: "d1-" + service, Bundle: bundle, Inputs: []string{"apps/" + service}, Path: "apps/" + service,
		Renderer: "raw", Namespace: "default", Commit: "c1",
		Operation: resolve.Operation{Prune: true, SelfHeal: true, DeletionBudget: "50%"},
	}
}

func newRoot(t testing.TB, cluster string, deployments ...resolve.Deployment) *gateway.Root {
	t.Helper()
	return newRootWith(t, cluster, nil, deployments...)
}

func newRootWith(t testing.TB, cluster string, envelopes []*api.Envelope, deployments ...resolve.Deployment) *gateway.Root {
	t.Helper()
	list := make([]*resolve.Deployment, len(deployments))
	for i := range deployments {
		list[i] = &deployments[i]
	}
	root, err := gateway.NewEncoder(terms).Root(cluster, list, envelopes)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }

// world is a gateway behind a real server, with real tokens, for the clusters a and b.
type world struct {
	t       testing.TB
	url     string
	signers map[string]*token.Signer
	keys    map[string]ed25519.PublicKey
	roots   map[string]*gateway.Root
	bundles map[string][]byte
	opened  []string
	stored  map[string]*api.Report
	broken  error
	now     time.Time
	excess  []string
	log     bytes.Buffer
	metrics *prometheus.Registry
	handler http.Handler
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, signers: map[string]*token.Signer{}, keys: map[string]ed25519.PublicKey{},
		roots: map[string]*gateway.Root{
			"a": newRoot(t, "a", deployment("web", "b1-shared"), deployment("only-a", "b1-a")),
			"b": newRoot(t, "b", deployment("web", "b1-shared"), deployment("only-b", "b1-b")),
		},
		bundles: map[string][]byte{"b1-shared": []byte("shared bytes"), "b1-a": []byte("bytes of a"), "b1-b": []byte("bytes of b")},
		stored:  map[string]*api.Report{}, metrics: prometheus.NewRegistry(), now: received,
	}
	for _, cluster := range []string{"a", "b"} {
		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		w.keys[cluster], w.signers[cluster] = public, token.NewSigner(private, cluster, hubURL, time.Now)
	}
	agents := auth.NewAgents(func() string { return hubURL }, func(c string) ed25519.PublicKey { return w.keys[c] }, time.Now)
	mux := http.NewServeMux()
	gateway.New(gateway.Options{
		Cluster: agents.Cluster, Edition: func() string { return "stream-1" }, Root: func(c string) *gateway.Root { return w.roots[c] }, Open: w.open, Report: w.store,
		Excess: func(cluster string) { w.excess = append(w.excess, cluster) },
		Now:    func() time.Time { return w.now }, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Metrics: w.metrics,
	}).Routes(mux)
	w.handler = mux
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) open(_ context.Context, key string) (io.ReadSeekCloser, error) {
	w.opened = append(w.opened, key)
	if w.broken != nil {
		return nil, w.broken
	}
	return file{bytes.NewReader(w.bundles[key])}, nil
}

func (w *world) store(_ context.Context, cluster string, report *api.Report) error {
	w.stored[cluster] = report
	return w.broken
}

// answer is what a client saw.
type answer struct {
	code   int
	header http.Header
	body   string
}

func (w *world) do(method, path, cluster string, body []byte, header ...string) answer {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if cluster != "" {
		raw, err := w.signers[cluster].Token(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+raw)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

func (w *world) get(path, cluster string, header ...string) answer {
	w.t.Helper()
	return w.do(http.MethodGet, path, cluster, nil, header...)
}

func TestUnchangedPollIs304WithNoBody(t *testing.T) {
	w := newWorld(t)
	first := w.get(api.PollPath, "a")
	poll := new(api.Poll)
	if err := proto.Unmarshal([]byte(first.body), poll); err != nil || first.code != http.StatusOK {
		t.Fatalf("%d, %v", first.code, err)
	}
	if poll.GetCluster() != "a" || len(poll.GetDeployments()) != 2 || poll.GetIntervalMs() != 30_000 || poll.GetReportIntervalMs() != 60_000 || poll.GetDeletionBudget() != "50%" {
		t.Errorf("poll = %v", poll)
	}
	etag := first.header.Get("ETag")
	if etag == "" || strings.HasPrefix(etag, "W/") || first.header.Get("Content-Type") != api.ContentType {
		t.Errorf("header = %v", first.header)
	}
	for _, known := range []string{etag, "W/" + etag} {
		if again := w.get(api.PollPath, "a", "If-None-Match", known); again.code != http.StatusNotModified || again.body != "" || again.header.Get("ETag") != etag {
			t.Errorf("If-None-Match %s: %+v", known, again)
		}
	}
	if other := w.get(api.PollPath, "b", "If-None-Match", etag); other.code != http.StatusOK {
		t.Errorf("b got %d for the root of a", other.code)
	}
	w.roots["a"] = newRoot(t, "a", deployment("web", "b1-new"))
	if changed := w.get(api.PollPath, "a", "If-None-Match", etag); changed.code != http.StatusOK || changed.header.Get("ETag") == etag {
		t.Errorf("after a change: %+v", changed)
	}
}

func TestPollBeforeTheFirstFleetSaysTryAgain(t *testing.T) {
	w := newWorld(t)
	w.roots = nil
	if got := w.get(api.PollPath, "a"); got.code != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v", got)
	}
	if got := w.get(api.BundlePath+"b1-a", "a"); got.code != http.StatusNotFound {
		t.Errorf("bundle: %d", got.code)
	}
}

func TestEveryPathWantsAnAgentsToken(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"GET " + api.PollPath, "GET " + api.BundlePath + "b1-a", "POST " + api.ReportPath} {
		method, path, _ := strings.Cut(path, " ")
		if got := w.do(method, path, "", nil); got.code != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: %d", method, path, got.code)
		}
	}
	if len(w.opened)+len(w.stored) != 0 {
		t.Error("a stranger's request went through")
	}
}

func TestRevokedAgentIsRefusedAtItsNextRequest(t *testing.T) {
	w := newWorld(t)
	if got := w.get(api.PollPath, "a"); got.code != http.StatusOK {
		t.Fatal(got.code)
	}
	delete(w.keys, "a")
	if got := w.get(api.PollPath, "a"); got.code != http.StatusUnauthorized {
		t.Errorf("poll: %d", got.code)
	}
	if got := w.get(api.BundlePath+"b1-a", "a"); got.code != http.StatusUnauthorized {
		t.Errorf("bundle: %d", got.code)
	}
}

// A1
func TestBundleOfAnotherClusterLooksLikeOneThatDoesNotExist(t *testing.T) {
	w := newWorld(t)
	for _, cluster := range []string{"a", "b"} {
		secret := deployment("secret", "b1-shared")
		secret.SecretsBundle = "b1-secrets-" + cluster
		w.roots[cluster] = newRoot(t, cluster, deployment("only-"+cluster, "b1-"+cluster), secret)
		w.bundles[secret.SecretsBundle] = []byte("sealed for " + cluster)
	}
	for _, cluster := range []string{"a", "b"} {
		for _, key := range []string{"b1-shared", "b1-" + cluster, "b1-secrets-" + cluster} {
			if got := w.get(api.BundlePath+key, cluster); got.code != http.StatusOK || got.body != string(w.bundles[key]) {
				t.Errorf("%s reads %s: %d %q", cluster, key, got.code, got.body)
			}
		}
	}
	w.opened = nil
	unknown := w.get(api.BundlePath+"b1-nowhere", "a")
	unknown.header.Del("Date")
	for _, key := range []string{"b1-b", "b1-secrets-b"} {
		forbidden := w.get(api.BundlePath+key, "a", "X-Cluster", "b", "Range", "bytes=0-1")
		forbidden.header.Del("Date")
		if diff := cmp.Diff(unknown, forbidden, cmp.AllowUnexported(answer{})); diff != "" || unknown.code != http.StatusNotFound {
			t.Errorf("%d; unknown and forbidden %s differ:\n%s", unknown.code, key, diff)
		}
	}
	if len(w.opened) != 0 {
		t.Errorf("opened %q for a cluster that may not have it", w.opened)
	}
}

func TestBundleHasAStrongETagAndRanges(t *testing.T) {
	w := newWorld(t)
	whole := w.get(api.BundlePath+"b1-a", "a")
	etag := whole.header.Get("ETag")
	if etag != `"b1-a"` || !strings.Contains(whole.header.Get("Cache-Control"), "private") || whole.header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("header = %v", whole.header)
	}
	part := w.get(api.BundlePath+"b1-a", "a", "Range", "bytes=6-", "If-Range", etag)
	if part.code != http.StatusPartialContent || part.body != "of a" || part.header.Get("Content-Range") != "bytes 6-9/10" {
		t.Errorf("range: %+v", part)
	}
	if got := w.get(api.BundlePath+"b1-a", "a", "Range", "bytes=6-", "If-Range", `"other"`); got.code != http.StatusOK || got.body != "bytes of a" {
		t.Errorf("range of another bundle: %+v", got)
	}
	if got := w.get(api.BundlePath+"b1-a", "a", "If-None-Match", etag); got.code != http.StatusNotModified {
		t.Errorf("conditional: %d", got.code)
	}
	if got := w.get(api.BundlePath+"b1-a", "a", "Range", "bytes=99-"); got.code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("range beyond the end: %d", got.code)
	}
}

func TestBundleThatCannotBeOpenedSaysNothingOfTheCause(t *testing.T) {
	w := newWorld(t)
	for err, want := range map[error]int{
		fmt.Errorf("pack: %w", fs.ErrNotExist): http.StatusNotFound,
		errors.New("disk /var/lib is full"):    http.StatusServiceUnavailable,
	} {
		w.broken = err
		if got := w.get(api.BundlePath+"b1-a", "a"); got.code != want || strings.Contains(got.body, "disk") {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

func (w *world) report(report *api.Report) (answer, *api.Report) {
	w.t.Helper()
	body, err := proto.Marshal(report)
	if err != nil {
		w.t.Fatal(err)
	}
	got := w.do(http.MethodPost, api.ReportPath, "a", body)
	return got, w.stored["a"]
}

func TestReportIsStoredUnderTheClusterOfTheTokenAtTheHubsTime(t *testing.T) {
	w := newWorld(t)
	sent := &api.Report{
		AgentVersion: "v1", Boot: "x", Sequence: 3, ReceivedUnixMs: 1, // the agent's own idea of the time
		Services: []*api.ServiceReport{{Service: "web", Key: "d1-web", Phase: api.Phase_HEALTHY, Objects: 2, Ready: 2}},
	}
	got, stored := w.report(sent)
	if got.code != http.StatusNoContent {
		t.Fatalf("%+v", got)
	}
	sent.ReceivedUnixMs = received.UnixMilli()
	if diff := cmp.Diff(sent, stored, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if len(w.stored) != 1 {
		t.Errorf("stored for %d clusters", len(w.stored))
	}
	w.broken = errors.New("no space")
	if got, _ := w.report(sent); got.code != http.StatusServiceUnavailable {
		t.Errorf("with a broken store: %d", got.code)
	}
}

// The answer tells the agent to count anew, and the log says it once.
func TestAReportWhoseNumberLeapsIsAConflictAndWarnedOfOnce(t *testing.T) {
	w := newWorld(t)
	send := func(want int) {
		t.Helper()
		if got, _ := w.report(&api.Report{Boot: "x", Sequence: 3}); got.code != want {
			t.Errorf("%+v, want %d", got, want)
		}
	}
	warned := func(want int) {
		t.Helper()
		if got := strings.Count(w.log.String(), "report refused"); got != want || strings.Contains(w.log.String(), "level=ERROR") {
			t.Errorf("%d warnings, want %d:\n%s", got, want, w.log.String())
		}
	}
	leaping := fmt.Errorf("take in: %w", gateway.ErrLeap)
	w.broken = leaping
	for range 3 {
		send(http.StatusConflict)
	}
	warned(1)
	w.broken = nil
	send(http.StatusNoContent)
	w.broken, w.now = leaping, w.now.Add(time.Minute) // somebody else with the key, between the agent's own
	send(http.StatusConflict)
	warned(1)
	w.now = w.now.Add(time.Hour)
	send(http.StatusConflict)
	warned(2)
}

// A8
func TestReportIsClipped(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("ü", 2000)
	sent := &api.Report{AgentVersion: long, KubernetesVersion: long, Boot: long, Root: long}
	for i := range 11_000 {
		sent.Services = append(sent.Services, &api.ServiceReport{Service: fmt.Sprint(i)})
	}
	loud := sent.GetServices()[0]
	loud.Service, loud.Key, loud.AppliedKey, loud.Message = long, long, long, long
	for range 60 {
		loud.Problems = append(loud.Problems, &api.ObjectReport{Kind: long, Message: long})
	}
	got, stored := w.report(sent)
	if got.code != http.StatusNoContent {
		t.Fatalf("%+v", got)
	}
	if n := len(stored.GetServices()); n != 10_000 || cap(stored.GetServices()) > 11_000 {
		t.Errorf("%d services, room for %d", n, cap(stored.GetServices()))
	}
	clipped := stored.GetServices()[0]
	if len(clipped.GetProblems()) != 50 {
		t.Errorf("%d problems", len(clipped.GetProblems()))
	}
	for text, most := range map[string]int{
		stored.GetAgentVersion(): 64, stored.GetKubernetesVersion(): 64, stored.GetBoot(): 64, stored.GetRoot(): 64,
		clipped.GetService(): 253, clipped.GetKey(): 128, clipped.GetAppliedKey(): 128, clipped.GetMessage(): 1024,
		clipped.GetProblems()[0].GetKind(): 253, clipped.GetProblems()[0].GetMessage(): 1024,
	} {
		if len(text) > most || !strings.HasSuffix(text, "ü...") {
			t.Errorf("%d bytes of at most %d: ...%q", len(text), most, text[max(0, len(text)-6):])
		}
	}
}

// A5
func TestOversizeReportIsRefused(t *testing.T) {
	w := newWorld(t)
	tests := map[string]struct {
		body []byte
		code int
	}{
		"more bytes than allowed":   {bytes.Repeat([]byte{0x2a, 0}, api.MaxReportBytes/2+1), http.StatusRequestEntityTooLarge},
		"a flood of empty services": {bytes.Repeat([]byte{0x2a, 0}, 50_001), http.StatusRequestEntityTooLarge},
		"a flood of empty problems": {nested(bytes.Repeat([]byte{0x3a, 0}, 50_001)), http.StatusRequestEntityTooLarge},
		"a length of two GiB":       {[]byte{0x2a, 0xff, 0xff, 0xff, 0xff, 0x07}, http.StatusBadRequest},
		"no protobuf at all":        {[]byte("{\"services\": []}"), http.StatusBadRequest},
		"text that is not UTF-8":    {[]byte{0x0a, 1, 0xff}, http.StatusBadRequest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := w.do(http.MethodPost, api.ReportPath, "a", test.body); got.code != test.code {
				t.Errorf("%d %s", got.code, got.body)
			}
		})
	}
	if len(w.stored) != 0 {
		t.Error("a refused report was stored")
	}
}

// nested is a report of one service with the given fields.
func nested(service []byte) []byte {
	size := len(service)
	return append([]byte{0x2a, byte(size) | 0x80, byte(size>>7) | 0x80, byte(size >> 14)}, service...)
}

// flood posts reports of a cluster until one is refused, and gives how many were taken with the refusal.
func (w *world) flood(cluster string, body []byte) (taken int, refusal answer) {
	w.t.Helper()
	for ; taken < 1000; taken++ {
		if refusal = w.do(http.MethodPost, api.ReportPath, cluster, body); refusal.code != http.StatusNoContent {
			return taken, refusal
		}
	}
	w.t.Fatalf("%d reports of %s were taken at once", taken, cluster)
	return 0, answer{}
}

func TestAClusterThatReportsInALoopIsRefusedAndNoOther(t *testing.T) {
	w := newWorld(t)
	taken, got := w.flood("a", nil)
	if taken != 100 || got.code != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" {
		t.Errorf("after %d reports: %d, Retry-After %q", taken, got.code, got.header.Get("Retry-After"))
	}
	if got := w.do(http.MethodPost, api.ReportPath, "b", nil); got.code != http.StatusNoContent {
		t.Errorf("another cluster's report: %d", got.code)
	}
	if got := w.get(api.PollPath, "a"); got.code != http.StatusOK {
		t.Errorf("its own poll: %d", got.code)
	}
	w.now = w.now.Add(time.Second)
	if taken, _ := w.flood("a", nil); taken != 5 {
		t.Errorf("a second later %d reports were taken", taken)
	}
	w.now = w.now.Add(time.Hour)
	if taken, _ := w.flood("a", nil); taken != 100 {
		t.Errorf("an hour later %d reports were taken", taken)
	}
	if diff := cmp.Diff([]string{"a", "a"}, w.excess); diff != "" {
		t.Errorf("people are told: %s", diff)
	}
	if refused := w.counters()["plural_hub_reports_refused_total"]; refused != 3 {
		t.Errorf("%v are counted as refused", refused)
	}
}

func TestLargeReportsCountForMoreWhetherTheyAreGoodOrNot(t *testing.T) {
	for name, test := range map[string]struct{ size, code int }{
		"unreadable": {api.MaxReportBytes, http.StatusBadRequest},
		"too large":  {api.MaxReportBytes + 1, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			body, taken := bytes.Repeat([]byte{0xff}, test.size), 0
			for ; taken < 1000; taken++ {
				got := w.do(http.MethodPost, api.ReportPath, "a", body)
				if got.code == http.StatusTooManyRequests {
					break
				}
				if got.code != test.code {
					t.Fatalf("%d: %s", got.code, got.body)
				}
			}
			if taken != 12 { // each is nine
				t.Errorf("%d were read", taken)
			}
		})
	}
}

func TestFieldsNobodyKnowsAreNotKept(t *testing.T) {
	w := newWorld(t)
	if got := w.do(http.MethodPost, api.ReportPath, "a", append([]byte{0xfa, 0x3f, 5}, "hello"...)); got.code != http.StatusNoContent {
		t.Fatal(got.code)
	}
	if unknown := w.stored["a"].ProtoReflect().GetUnknown(); len(unknown) != 0 {
		t.Errorf("kept %q", unknown)
	}
}

func TestMetricsCountAnswers(t *testing.T) {
	w := newWorld(t)
	etag := w.get(api.PollPath, "a").header.Get("ETag")
	w.get(api.PollPath, "a", "If-None-Match", etag)
	w.get(api.PollPath, "a", "If-None-Match", etag)
	w.get(api.BundlePath+"b1-a", "a")
	w.get(api.BundlePath+"b1-b", "a")
	w.report(&api.Report{})
	w.roots = nil
	w.get(api.PollPath, "a")
	want := map[string]float64{
		"plural_hub_polls_total 200": 1, "plural_hub_polls_total 304": 2, "plural_hub_polls_total 503": 1,
		"plural_hub_bundle_requests_total": 1, "plural_hub_reports_total": 1, "plural_hub_reports_refused_total": 0,
	}
	if diff := cmp.Diff(want, w.counters()); diff != "" {
		t.Error(diff)
	}
}

func (w *world) counters() map[string]float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			out[name] = metric.GetCounter().GetValue()
		}
	}
	return out
}

func BenchmarkPoll304(b *testing.B) {
	w := newWorld(b)
	hub := encrypt(b, w.handler)
	conn, err := tls.Dial("tcp", hub.Listener.Addr().String(), hub.Client().Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	state := conn.ConnectionState()
	for name, tls := range map[string]*tls.ConnectionState{"bound": &state, "unbound": nil} {
		b.Run(name, func(b *testing.B) { w.poll304(b, tls) })
	}
}

// poll304 polls with a token that is bound to the TLS connection, if there is one.
func (w *world) poll304(b *testing.B, state *tls.ConnectionState) {
	b.Helper()
	raw, err := w.signers["a"].Token(token.Binding(state))
	if err != nil {
		b.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodGet, api.PollPath, nil)
	request.TLS = state
	request.Header.Set("Authorization", "Bearer "+raw)
	request.Header.Set("If-None-Match", w.roots["a"].ETag())
	b.ReportAllocs()
	for b.Loop() {
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusNotModified {
			b.Fatal(recorder.Code)
		}
	}
}
