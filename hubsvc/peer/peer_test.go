package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// authority signs replicas' certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "replicas"},
		IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}}
	a.key = newKey(t)
	raw, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// replica is one replica's configuration, for both directions.
func (a *authority) replica() *tls.Config {
	a.t.Helper()
	key := newKey(a.t)
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	pair := tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool}
}

// serve runs a replica's listener until the test ends, and gives its address.
func serveAt(t *testing.T, o Options, certificates *tls.Config, wrap func(net.Listener) net.Listener) string {
	t.Helper()
	server, err := NewServer(o, certificates)
	if err != nil {
		t.Fatal(err)
	}
	server.ErrorLog = nil
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if wrap != nil {
		listener = wrap(listener)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if certificates == nil {
			_ = server.Serve(listener)
		} else {
			_ = server.ServeTLS(listener, "", "")
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return addr
}

func newClient(t *testing.T, certificates *tls.Config) *Client {
	t.Helper()
	c := NewClient(certificates)
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// shelf holds bundles in memory.
type shelf map[string]string

func (s shelf) open(_ context.Context, key string) (io.ReadSeekCloser, string, error) {
	data, ok := s[key]
	if !ok {
		return nil, "", fmt.Errorf("open bundle %s: %w", key, fs.ErrNotExist)
	}
	sum := sha256.Sum256([]byte(strings.TrimSuffix(data, "damaged")))
	return struct {
		io.ReadSeeker
		io.Closer
	}{strings.NewReader(data), io.NopCloser(nil)}, hex.EncodeToString(sum[:]), nil
}

func nothing(string) (Repo, bool) { return nil, false }

func TestBundleComesByItsKey(t *testing.T) {
	replicas := newAuthority(t)
	addr := serveAt(t, Options{Repo: nothing, Bundle: shelf{"b1-a": "bundle a"}.open}, replicas.replica(), nil)
	c := newClient(t, replicas.replica())
	for range 3 {
		body, err := c.Bundle(t.Context(), addr, "b1-a")
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(body); err != nil || string(data) != "bundle a" {
			t.Errorf("read %q, %v", data, err)
		}
		_ = body.Close()
	}
	if _, err := c.Bundle(t.Context(), addr, "b1-b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unknown: %v", err)
	}
}

func TestBundleThatIsNotWhatWasPackedIsNotBelieved(t *testing.T) {
	replicas := newAuthority(t)
	addr := serveAt(t, Options{Repo: nothing, Bundle: shelf{"b1-a": "bundle a damaged"}.open}, replicas.replica(), nil)
	body, err := newClient(t, replicas.replica()).Bundle(t.Context(), addr, "b1-a")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := io.ReadAll(body); err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("read: %v", err)
	}
}

func TestBundleWithoutItsDigestIsNotTaken(t *testing.T) {
	for _, header := range []string{"", "sha-256=:AAAA:", "sha-512=:AAAA:", "md5"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(digestHeader, header)
			_, _ = w.Write([]byte("bundle"))
		}))
		t.Cleanup(server.Close)
		if _, err := newClient(t, nil).Bundle(t.Context(), server.Listener.Addr().String(), "b1-a"); err == nil {
			t.Errorf("a bundle with %s %q was taken", digestHeader, header)
		}
	}
}

func TestWhoIsNoReplicaIsRefused(t *testing.T) {
	replicas, others := newAuthority(t), newAuthority(t)
	o := Options{Repo: nothing, Bundle: shelf{"b1-a": "bundle a"}.open}
	addr := serveAt(t, o, replicas.replica(), nil)
	without, stranger := replicas.replica(), others.replica()
	without.Certificates, stranger.RootCAs = nil, without.RootCAs
	for name, config := range map[string]*tls.Config{
		"without a certificate": without, "with another authority's": stranger,
	} {
		if _, err := newClient(t, config).Bundle(t.Context(), addr, "b1-a"); err == nil {
			t.Errorf("a client %s was served", name)
		}
	}
	if _, err := newClient(t, others.replica()).Bundle(t.Context(), addr, "b1-a"); err == nil {
		t.Error("a client believed a replica of another hub")
	}
	if _, err := newClient(t, nil).Bundle(t.Context(), addr, "b1-a"); err == nil {
		t.Error("a client without TLS was served")
	}
}

func TestHandlerThatWasWiredWithoutVerificationServesNobody(t *testing.T) {
	unverified := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	h := Handler(Options{Repo: nothing, Bundle: shelf{"b1-a": "bundle a"}.open})
	for name, r := range map[string]struct {
		remote string
		tls    *tls.ConnectionState
		want   int
	}{
		"TLS, nothing verified":    {"127.0.0.1:1", unverified, http.StatusForbidden},
		"plain, another machine":   {"192.0.2.1:1", nil, http.StatusForbidden},
		"plain, this machine":      {"127.0.0.1:1", nil, http.StatusOK},
		"plain, no address at all": {"", nil, http.StatusForbidden},
	} {
		request := httptest.NewRequest(http.MethodGet, bundlePath+"b1-a", nil)
		request.RemoteAddr, request.TLS = r.remote, r.tls
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, request)
		if answer.Code != r.want {
			t.Errorf("%s: %d", name, answer.Code)
		}
	}
	if _, err := NewServer(Options{}, &tls.Config{}); err == nil {
		t.Error("a server was made that would take the system's authorities for the replicas'")
	}
}

func TestOtherMachinesAreAskedByTLSAlone(t *testing.T) {
	_, err := NewClient(nil).Bundle(t.Context(), "192.0.2.1:7000", "b1-a")
	if err == nil || !strings.Contains(err.Error(), "TLS alone") {
		t.Errorf("Bundle: %v", err)
	}
}
