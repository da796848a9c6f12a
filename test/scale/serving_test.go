package scale

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/agent/credential"
	"github.com/pluralsh/plural/api"
)

const (
	// Turns are short and many, so that what else the machine does hits both sides alike.
	servingTurns = 25
	servingTime  = 300 * time.Millisecond
)

// servingSizes are bundles from a handful of manifests to a repository's worth.
var servingSizes = map[string]int{"16k": 16 << 10, "256k": 256 << 10, "4m": 4 << 20}

// BenchmarkServing compares the shipped hub with what serves bytes and answers requests best: nginx with the same file,
// a bare handler of net/http with the same 304. All speak HTTP/1.1 over TLS 1.3 to the same client over connections
// that are kept, in turns. It prints a line "bench NAME VALUE UNIT" for each figure, and runs once, however long that
// takes.
func BenchmarkServing(b *testing.B) {
	if b.N > 1 {
		return
	}
	s := newServing(b)
	hub := s.startHub()
	agent := s.newAgent()
	poll := agent.poll(hub.url)
	s.benchBundles(hub, agent, poll)
	s.benchPolls(hub, agent)
}

// benchBundles prints the throughput of each size over nginx's, and the least of them.
func (s *serving) benchBundles(hub server, agent *servingAgent, poll *api.Poll) {
	dir := s.t.TempDir()
	for _, d := range poll.GetDeployments() {
		bundle := agent.get(hub.url+api.BundlePath+d.GetBundle(), nil)
		s.write(filepath.Join(dir, d.GetService()), bundle)
	}
	nginx := s.startNginx(dir)
	least := 0.0
	for _, d := range poll.GetDeployments() {
		own, other := hub.url+api.BundlePath+d.GetBundle(), nginx.url+"/"+d.GetService()
		if !bytes.Equal(agent.get(own, nil), agent.get(other, nil)) {
			s.t.Fatal("the two serve different bytes")
		}
		ours, theirs := s.inTurns(agent,
			run{hub, own, nil, http.StatusOK, 16}, run{nginx, other, nil, http.StatusOK, 16})
		ratio := medianRatio(ours, theirs, load.throughput)
		s.report("bundle_get_"+d.GetService()+"_mb_s", middle(ours, load.throughput)/1e6, "MB/s")
		s.report("bundle_get_"+d.GetService()+"_ratio_nginx", ratio, "x")
		s.report("bundle_get_"+d.GetService()+"_core_ratio_nginx", medianRatio(ours, theirs, load.bytesPerCore), "x")
		if least == 0 || ratio < least {
			least = ratio
		}
	}
	s.report("bundle_get_ratio_nginx", least, "x")
}

// benchPolls prints unchanged polls per core-second over those of a bare handler.
func (s *serving) benchPolls(hub server, agent *servingAgent) {
	bare := s.startBare()
	poll := http.Header{"If-None-Match": {agent.etag}}
	ours, theirs := s.inTurns(agent, run{hub, hub.url + api.PollPath, poll, http.StatusNotModified, 64},
		run{bare, bare.url + api.PollPath, poll, http.StatusNotModified, 64})
	s.report("poll_304_per_core_second", middle(ours, load.requestsPerCore), "1/s")
	s.report("poll_304_ratio_bare_http", medianRatio(ours, theirs, load.requestsPerCore), "x")
}

func (s *serving) report(name string, value float64, unit string) {
	fmt.Fprintf(os.Stdout, "bench %s %.4g %s\n", name, value, unit)
}

// servingAgent is the client of all.
type servingAgent struct {
	t      testing.TB
	client *http.Client
	etag   string
}

func (s *serving) newAgent() *servingAgent {
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS13},
		MaxIdleConnsPerHost: 256, DisableCompression: true, ReadBufferSize: 64 << 10,
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &servingAgent{t: s.t, client: &http.Client{Transport: credential.New(s.signer.Token).Over(transport)}}
}

// ask sends one request and reads its answer to the end.
func (a *servingAgent) ask(
	ctx context.Context, url string, header http.Header, into io.Writer, buffer []byte,
) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{into}, answer.Body, buffer)
	return answer, err
}

func (a *servingAgent) get(url string, header http.Header) []byte {
	a.t.Helper()
	var body bytes.Buffer
	answer, err := a.ask(a.t.Context(), url, header, &body, nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		a.t.Fatalf("GET %s: %v, %v", url, answer, err)
	}
	if suite := answer.TLS.CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 || answer.ProtoMajor != 1 {
		a.t.Fatalf("GET %s: %s, %s", url, tls.CipherSuiteName(suite), answer.Proto)
	}
	return body.Bytes()
}

// poll waits until the hub knows what the cluster should run.
func (a *servingAgent) poll(url string) *api.Poll {
	a.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var body bytes.Buffer
		answer, err := a.ask(a.t.Context(), url+api.PollPath, nil, &body, nil)
		if err == nil && answer.StatusCode == http.StatusOK {
			poll := new(api.Poll)
			if err := proto.Unmarshal(body.Bytes(), poll); err != nil {
				a.t.Fatal(err)
			}
			a.etag = answer.Header.Get("ETag")
			return poll
		}
		select {
		case <-a.t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	a.t.Fatal("the hub does not answer polls")
	return nil
}

// run is one kind of request at one server.
type run struct {
	server
	address     string
	header      http.Header
	code        int
	connections int
}

// load is what a server did in a while.
type load struct{ requests, bytes, seconds, cores float64 }

func (l load) throughput() float64      { return l.bytes / l.seconds }
func (l load) bytesPerCore() float64    { return l.bytes / l.cores }
func (l load) requestsPerCore() float64 { return l.requests / l.cores }

// inTurns loads two servers one after the other, again and again, so that what else the machine does hits both.
func (s *serving) inTurns(agent *servingAgent, one, other run) (ours, theirs []load) {
	s.t.Helper()
	s.load(agent, one, 2*servingTime) // connections are made, processors warm up
	s.load(agent, other, 2*servingTime)
	for range servingTurns {
		ours = append(ours, s.load(agent, one, servingTime))
		theirs = append(theirs, s.load(agent, other, servingTime))
	}
	return ours, theirs
}

func (s *serving) load(agent *servingAgent, r run, d time.Duration) (sum load) {
	s.t.Helper()
	before, began := s.cpu(r.pids()), time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range r.connections {
		wg.Go(func() {
			var mine load
			buffer := make([]byte, 64<<10)
			for time.Since(began) < d {
				n := new(byteCount)
				answer, err := agent.ask(s.t.Context(), r.address, r.header, n, buffer)
				if err != nil || answer.StatusCode != r.code {
					s.t.Errorf("GET %s: %v, %v", r.address, answer, err)
					return
				}
				mine.requests++
				mine.bytes += float64(*n)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.requests += mine.requests
			sum.bytes += mine.bytes
		})
	}
	wg.Wait()
	sum.seconds, sum.cores = time.Since(began).Seconds(), s.cpu(r.pids())-before
	return sum
}

type byteCount int64

func (n *byteCount) Write(p []byte) (int, error) {
	*n += byteCount(len(p))
	return len(p), nil
}

// cpu is how many seconds of processor time processes took since they began.
func (s *serving) cpu(pids []int) (seconds float64) {
	s.t.Helper()
	const ticks = 100 // a second, on every Linux that runs Go
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			s.t.Skipf("SKIPPED, NOT TESTED: processor time is read from /proc: %v", err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		for _, field := range fields[11:13] {
			n, err := strconv.ParseFloat(field, 64)
			s.must(err)
			seconds += n / ticks
		}
	}
	return seconds
}

func middle(loads []load, of func(load) float64) float64 {
	all := make([]float64, len(loads))
	for i, l := range loads {
		all[i] = of(l)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// medianRatio compares turn by turn.
func medianRatio(ours, theirs []load, of func(load) float64) float64 {
	all := make([]float64, len(ours))
	for i := range ours {
		all[i] = of(ours[i]) / of(theirs[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}
