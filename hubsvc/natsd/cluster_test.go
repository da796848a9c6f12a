package natsd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/internal/kv"
)

// authority signs the certificates of one cluster's servers.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := new(authority)
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: time.Now().Add(time.Hour),
	}
	var raw []byte
	raw, a.key = a.sign(t, a.certificate, nil)
	var err error
	if a.certificate, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign makes a certificate by a template, signed by a, or by itself when by is nil.
func (a *authority) sign(t *testing.T, template *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	return raw, key
}

// settings are those of a server at an address.
func (a *authority) settings(t *testing.T, address string) *tls.Config {
	t.Helper()
	host, _, _ := net.SplitHostPort(address)
	raw, key := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.ParseIP(host)}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.key)
	trusted := x509.NewCertPool()
	trusted.AddCert(a.certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted, RootCAs: trusted,
	}
}

// free is an address that nobody listens on, nor will: connections are given ports of another.
func free(t *testing.T) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", 1+mathrand.N(250), mathrand.N(250), 1+mathrand.N(250))
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func eventually(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func start(t *testing.T, name, dir string, cluster *natsd.Cluster) *natsd.Server {
	t.Helper()
	began := time.Now()
	server, err := natsd.Start(t.Context(), natsd.Options{
		Dir: dir, Name: name, Cluster: cluster, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("%s started after %s", name, took)
	}
	t.Cleanup(server.Close)
	return server
}

// copies opens a bucket and says how many servers keep it.
func copies(t *testing.T, server *natsd.Server, name string) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	kv, _, err := kv.Bucket(ctx, server.JetStream(), jetstream.KeyValueConfig{
		Bucket: strings.ReplaceAll(name, " ", "-"), Replicas: server.Replicas(),
	})
	if err != nil {
		return 0, err
	}
	if _, err := kv.PutString(ctx, "k", "v"); err != nil {
		return 0, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return 0, err
	}
	return status.Config().Replicas, nil
}

// has says why a bucket does not have so many copies.
func has(t *testing.T, server *natsd.Server, name string, want int) func() error {
	return func() error {
		got, err := copies(t, server, name)
		if err == nil && got != want {
			err = fmt.Errorf("the bucket has %d copies, not %d", got, want)
		}
		return err
	}
}

func TestAClusterGrowsFromOneServerToThreeCopies(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	routes := []string{free(t), free(t), free(t)}
	dirs := []string{filepath.Join(t.TempDir(), "nats"), t.TempDir(), t.TempDir()}
	alone := start(t, "hub-0", dirs[0], nil) // a hub that was one replica before
	eventually(t, has(t, alone, "before", 1))
	alone.Close()
	var servers []*natsd.Server
	run := func(i int) *natsd.Server {
		return start(t, fmt.Sprint("hub-", i), dirs[i],
			&natsd.Cluster{Listen: routes[i], Routes: routes, TLS: authority.settings(t, routes[i])})
	}
	for i := range routes {
		servers = append(servers, run(i))
		if n, err := copies(t, servers[0], "before"); err == nil && i == 0 {
			t.Errorf("a bucket of %d copies without a majority", n)
		}
	}
	eventually(t, has(t, servers[0], "before", 3))
	for _, server := range servers {
		server.Close()
	}
	run(0)
	second := run(1)
	eventually(t, has(t, second, "while one is down", 1))
	run(2)
	eventually(t, has(t, second, "while one is down", 3))
}

func TestAServerOfAnotherAuthorityIsTurnedAway(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	routes := []string{free(t), free(t), free(t)}
	said := new(log)
	first, err := natsd.Start(t.Context(), natsd.Options{
		Dir: t.TempDir(), Name: "hub-0", Log: slog.New(slog.NewTextHandler(said, nil)),
		Cluster: &natsd.Cluster{Listen: routes[0], Routes: routes, TLS: ours.settings(t, routes[0])},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	start(t, "hub-1", t.TempDir(), &natsd.Cluster{Listen: routes[1], Routes: routes, TLS: theirs.settings(t, routes[1])})
	eventually(t, func() error {
		if text := said.String(); !strings.Contains(text, "TLS route handshake error") {
			return fmt.Errorf("it said only: %s", text)
		}
		return nil
	})
}

// log keeps what is said.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestAClusterThatCannotWorkIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	three := []string{"10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.3:6222"}
	for name, cluster := range map[string]*natsd.Cluster{
		"two servers":     {Listen: "127.0.0.1:6222", Routes: three[:2]},
		"no certificates": {Listen: ":6222", Routes: three},
		"one-sided TLS":   {Listen: ":6222", Routes: three, TLS: &tls.Config{MinVersion: tls.VersionTLS13}},
		"no port":         {Listen: "127.0.0.1:6222", Routes: append([]string{"10.0.0.4"}, three...)},
	} {
		server, err := natsd.Start(t.Context(), natsd.Options{
			Dir: t.TempDir(), Cluster: cluster, Log: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			server.Close()
			t.Errorf("%s: started", name)
			continue
		}
		t.Logf("%s: %v", name, err)
	}
}
