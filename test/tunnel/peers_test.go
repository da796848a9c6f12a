package tunnel

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Where other programs are that do the same work. Those that are not named are left out, and said so.
const (
	remotedialerProgram = "PLURAL_BENCH_REMOTEDIALER"
	chiselProgram       = "PLURAL_BENCH_CHISEL"
	konnectivityServer  = "PLURAL_BENCH_KONNECTIVITY_SERVER"
	konnectivityAgent   = "PLURAL_BENCH_KONNECTIVITY_AGENT"
)

// peer is another program's way to the API server. Its client's end meets the server's through line, which a long line can take
// the place of.
type peer struct {
	name string
	// needs are the variables that name its programs.
	needs []string
	open  func(b *testing.B, api *httptest.Server, line func(target string) string) way
}

func peers() []peer {
	return []peer{
		{"remotedialer", []string{remotedialerProgram}, remotedialer},
		{"chisel", []string{chiselProgram}, chisel},
		{"konnectivity", []string{konnectivityServer, konnectivityAgent}, konnectivity},
	}
}

// BenchmarkPeers prints for other programs what BenchmarkTunnel does for this one.
func BenchmarkPeers(b *testing.B) {
	if b.N > 1 {
		return
	}
	api := apiServer(b)
	alone := p50(b, direct(b, api))
	for _, p := range peers() {
		b.Run(p.name, func(b *testing.B) {
			if b.N > 1 {
				return
			}
			for _, name := range p.needs {
				if os.Getenv(name) == "" {
					b.Skipf("%s names no program", name)
				}
			}
			near := p.open(b, api, func(target string) string { return target })
			report(p.name+"_added_p50_us", micro(p50(b, near)-alone), "us")
			report(p.name+"_rps_c64", rate(b, near, 64), "1/s")
			report(p.name+"_bulk_mb_s", throughput(b, near), "MB/s")
			report(p.name+"_stalled_reader_rps", stalled(b, near), "1/s")
			far(b, p.name, func(b *testing.B) way {
				return p.open(b, api, func(target string) string { return lag(b, target, roundTrip) })
			})
		})
	}
}

// remotedialer passes connections on inside a WebSocket; TLS goes from end to end through it.
func remotedialer(b *testing.B, api *httptest.Server, line func(string) string) way {
	b.Helper()
	program, dir := os.Getenv(remotedialerProgram), b.TempDir()
	cert, key := certificate(b, dir)
	server, forward := free(b), free(b)
	start(b, exec.CommandContext(b.Context(), program, "server", server, cert, key, forward, api.Listener.Addr().String()))
	answers(b, server)
	start(b, exec.CommandContext(b.Context(), program, "client", "wss://"+line(server), cert))
	return ready(b, way{client: client(b, authority(api), by(forward)), base: api.URL})
}

// chisel passes connections on by SSH inside a WebSocket.
func chisel(b *testing.B, api *httptest.Server, line func(string) string) way {
	b.Helper()
	program := os.Getenv(chiselProgram)
	server, forward := free(b), free(b)
	host, port, _ := net.SplitHostPort(server)
	start(b, exec.CommandContext(b.Context(), program, "server", "--reverse", "--host", host, "--port", port))
	answers(b, server)
	start(b, exec.CommandContext(b.Context(), program, "client", "http://"+line(server), "R:"+forward+":"+api.Listener.Addr().String()))
	return ready(b, way{client: client(b, authority(api), by(forward)), base: api.URL})
}

// konnectivity passes connections on that are asked for by CONNECT on a Unix socket.
func konnectivity(b *testing.B, api *httptest.Server, line func(string) string) way {
	b.Helper()
	dir := b.TempDir()
	cert, key := certificate(b, dir)
	socket, agents := filepath.Join(dir, "proxy.sock"), free(b)
	_, agentPort, _ := net.SplitHostPort(agents)
	start(b, exec.CommandContext(b.Context(), os.Getenv(konnectivityServer), "--mode=http-connect", "--server-port=0", "--uds-name="+socket,
		"--agent-port="+agentPort, "--cluster-cert="+cert, "--cluster-key="+key, "--cluster-ca-cert="+cert,
		"--admin-port="+portOf(free(b)), "--health-port="+portOf(free(b))))
	answers(b, agents)
	start(b, exec.CommandContext(b.Context(), os.Getenv(konnectivityAgent), "--ca-cert="+cert, "--agent-cert="+cert, "--agent-key="+key,
		"--proxy-server-host=127.0.0.1", "--proxy-server-port="+portOf(line(agents)),
		"--admin-server-port="+portOf(free(b)), "--health-server-port="+portOf(free(b))))
	return ready(b, way{client: client(b, authority(api), connecting(socket, api.Listener.Addr().String())), base: api.URL})
}

// connecting asks for connections by CONNECT.
func connecting(socket, target string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Write([]byte("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 1), nil) // no byte of the connection itself is read here
		if err == nil {
			err = answer.Body.Close()
		}
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New("CONNECT: " + answer.Status)
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
}

// start runs a program as long as the benchmark.
func start(b *testing.B, command *exec.Cmd) {
	b.Helper()
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}

// free is an address that nobody listens on.
func free(b *testing.B) string {
	b.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// answers waits until somebody listens.
func answers(b *testing.B, address string) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// ready waits until the way leads to the API server.
func ready(b *testing.B, w way) way {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := w.fetch(b.Context(), smallPath, small)
		if err == nil {
			return w
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// certificate is one for this machine that signs itself, as files.
func certificate(b *testing.B, dir string) (cert, key string) {
	b.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		b.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
}
