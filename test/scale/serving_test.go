package scale

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/internal/needs"
)

const (
	// Turns are short and many, so that what else the machine does hits both sides alike.
	servingTurns = 25
	servingTime  = 300 * time.Millisecond
	hubURL        = "https://hub.example.com"
	cluster       = "edge"
)

// servingSizes are bundles from a handful of manifests to a repository's worth.
var servingSizes = map[string]int{"16k": 16 << 10, "256k": 256 << 10, "4m": 4 << 20}

// BenchmarkServing compares the shipped hub with what serves bytes and answers requests best: nginx with the same file, a
// bare handler of net/http with the same 304. All speak HTTP/1.1 over TLS 1.3 to the same client over connections that are
// kept, in turns. It prints a line "bench NAME VALUE UNIT" for each figure, and runs once, however long that takes.
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
		ours, theirs := s.inTurns(agent, run{hub, own, nil, http.StatusOK, 16}, run{nginx, other, nil, http.StatusOK, 16})
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

// serving is what the servers under comparison share.
type serving struct {
	t         testing.TB
	dir       string
	roots     *x509.CertPool
	cert, key string // files
	signer    *token.Signer
}

func newServing(tb testing.TB) *serving {
	tb.Helper()
	s := &serving{t: tb, dir: tb.TempDir(), roots: x509.NewCertPool()}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "servers under comparison"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	s.must(err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	s.must(err)
	s.cert, s.key = filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	s.roots.AppendCertsFromPEM(text)
	s.write(s.cert, text)
	s.write(s.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
	return s
}

func (s *serving) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *serving) write(name string, data []byte) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(name), 0o755))
	s.must(os.WriteFile(name, data, 0o600))
}

// installation makes an installation repo with one registered cluster, and a service for each size.
func (s *serving) installation() string {
	s.t.Helper()
	needs.Program(s.t, "git", "your system's packages")
	public, private, err := ed25519.GenerateKey(nil)
	s.must(err)
	s.signer = token.NewSigner(private, cluster, hubURL, time.Now)
	repo := filepath.Join(s.dir, "fleet")
	head := "apiVersion: plural.sh/v1alpha1\nkind: %s\nmetadata: {name: %s}\n"
	s.write(repo+"/plural.yaml", fmt.Appendf(nil, head+"spec: {hub: {url: %q}}\n", "Workspace", "scale", hubURL))
	auth := "ed25519:" + base64.StdEncoding.EncodeToString(public)
	s.write(repo+"/clusters/"+cluster+".yaml", fmt.Appendf(nil, head+"spec: {agent: {auth: %q}}\n", "Cluster", cluster, auth))
	for name, size := range servingSizes {
		data := make([]byte, size)
		_, _ = rand.Read(data)
		s.write(repo+"/apps/"+name+"/data", data)
		s.write(repo+"/services/"+name+".yaml", fmt.Appendf(nil, head+"spec: {source: {path: apps/%s}, clusters: {names: [%s]}}\n", "Service", name, name, cluster))
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=scale", "-c", "user.email=scale@example.com", "commit", "-qm", "Begin"}} {
		git := exec.CommandContext(s.t.Context(), "git", args...)
		git.Dir = repo
		if out, err := git.CombinedOutput(); err != nil {
			s.t.Fatalf("git %s: %v\n%s", args[0], err, out)
		}
	}
	return repo
}

// server is a program under comparison.
type server struct {
	url  string
	pids func() []int
}

// start runs a program until the test ends, and waits until it listens.
func (s *serving) start(address string, cmd *exec.Cmd) *exec.Cmd {
	s.t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	s.must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
		}
	})
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(s.t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
			return cmd
		}
		select {
		case err := <-ended:
			s.t.Fatalf("%s ended: %v\n%s", cmd.Path, err, out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.t.Fatalf("%s does not listen on %s", cmd.Path, address)
	return nil
}

// address is one of this machine that nobody listens on.
func (s *serving) address() string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	defer l.Close()
	return l.Addr().String()
}

func (s *serving) startHub() server {
	s.t.Helper()
	program, err := filepath.Abs("../../bin/plural")
	s.must(err)
	if built := os.Getenv("PLURAL_BIN"); built != "" {
		program = built
	}
	if _, err := os.Stat(program); err != nil {
		s.t.Fatalf("%s is not built: run make build first", program)
	}
	address := s.address()
	cmd := s.start(address, exec.Command(program, "hub", "serve", "--repo", "file://"+s.installation(), "--allow-file-sources",
		"--data", filepath.Join(s.dir, "data"), "--listen", address, "--tls-cert", s.cert, "--tls-key", s.key, "--interval", "1h"))
	return server{"https://" + address, func() []int { return []int{cmd.Process.Pid} }}
}

// nginxConf asks of nginx what the hub gives: TLS 1.3 with the cipher that both ends would choose, connections that are kept.
const nginxConf = `
user root root; daemon off; worker_processes auto; pid %[1]s/nginx.pid; error_log %[1]s/error.log;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nopush on; default_type application/zstd;
  keepalive_timeout 300s; keepalive_requests 1000000000;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server {
    listen %[2]s ssl;
    ssl_certificate %[3]s; ssl_certificate_key %[4]s;
    ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    root %[5]s;
  }
}
`

func (s *serving) startNginx(files string) server {
	s.t.Helper()
	program := needs.Program(s.t, "nginx", "your system's packages (nginx-light)")
	address, dir := s.address(), filepath.Join(s.dir, "nginx")
	s.write(filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, nginxConf, dir, address, s.cert, s.key, files))
	cmd := s.start(address, exec.Command(program, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", filepath.Join(dir, "nginx.conf")))
	return server{"https://" + address, func() []int { return append(children(cmd.Process.Pid), cmd.Process.Pid) }}
}

// children are the processes that a process started.
func children(pid int) (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(text)) {
		child, _ := strconv.Atoi(field)
		pids = append(pids, child)
	}
	return pids
}

// bareEnv makes this program, started as a process of its own, the bare handler: ADDRESS,CERT,KEY.
const bareEnv = "PLURAL_SCALE_BARE"

func (s *serving) startBare() server {
	s.t.Helper()
	address := s.address()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBareHandler$", "-test.timeout=1h")
	cmd.Env = append(os.Environ(), bareEnv+"="+strings.Join([]string{address, s.cert, s.key}, ","))
	s.start(address, cmd)
	return server{"https://" + address, func() []int { return []int{cmd.Process.Pid} }}
}

// TestBareHandler answers 304 and does nothing else, in the process that startBare starts.
func TestBareHandler(t *testing.T) {
	args := strings.Split(os.Getenv(bareEnv), ",")
	if len(args) != 3 {
		return
	}
	pair, err := tls.LoadX509KeyPair(args[1], args[2])
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Addr:      args[0],
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", r.Header.Get("If-None-Match"))
			w.WriteHeader(http.StatusNotModified)
		}),
	}
	t.Error(server.ListenAndServeTLS("", ""))
}

// servingAgent is the client of all.
type servingAgent struct {
	t      testing.TB
	client *http.Client
	signer *token.Signer
	etag   string
}

func (s *serving) newAgent() *servingAgent {
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS13},
		MaxIdleConnsPerHost: 256, DisableCompression: true, ReadBufferSize: 64 << 10,
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &servingAgent{t: s.t, client: &http.Client{Transport: transport}, signer: s.signer}
}

// ask sends one request and reads its answer to the end.
func (a *servingAgent) ask(ctx context.Context, url string, header http.Header, into io.Writer, buffer []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	raw, err := a.signer.Token()
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("Authorization", "Bearer "+raw)
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
