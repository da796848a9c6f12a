package scale

import (
	"bytes"
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
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/test/support/needs"
)

// servingURL is what the hub's agents know it by.
const servingURL = "https://hub.example.com"

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
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "servers under comparison"},
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
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
	s.signer = token.NewSigner(private, "edge", servingURL, time.Now)
	repo := filepath.Join(s.dir, "fleet")
	document := func(file, kind, name, spec string, args ...any) {
		head := fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: %s\nmetadata: {name: %s}\n", kind, name)
		s.write(filepath.Join(repo, file), []byte(head+"spec: "+fmt.Sprintf(spec, args...)+"\n"))
	}
	document("plural.yaml", "Workspace", "scale", "{hub: {url: %q}}", servingURL)
	auth := "ed25519:" + base64.StdEncoding.EncodeToString(public)
	document("clusters/edge.yaml", "Cluster", "edge", "{agent: {auth: %q}}", auth)
	for name, size := range servingSizes {
		data := make([]byte, size)
		_, _ = rand.Read(data)
		s.write(repo+"/apps/"+name+"/data", data)
		document("services/"+name+".yaml", "Service", name, "{source: {path: apps/%s}, clusters: {names: [edge]}}", name)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-qm", "Begin"}} {
		gitIn(s.t, repo, args...)
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
	if _, err := os.Stat(program); err != nil {
		s.t.Fatalf("%s is not built: run make build first", program)
	}
	address := s.address()
	cmd := s.start(address, exec.Command(program, "hub", "serve", "--listen", address,
		"--repo", "file://"+s.installation(), "--allow-file-sources", "--allow-loopback", "--interval", "1h",
		"--data", filepath.Join(s.dir, "data"), "--tls-cert", s.cert, "--tls-key", s.key))
	return server{"https://" + address, func() []int { return []int{cmd.Process.Pid} }}
}

// nginxConf asks of nginx what the hub gives: TLS 1.3 with the cipher that both ends would choose, connections that are
// kept.
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
	cmd := s.start(address, exec.Command(program, "-p", dir, "-e", dir+"/error.log", "-c", dir+"/nginx.conf"))
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
