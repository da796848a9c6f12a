package certs_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/certs"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: start.Add(-time.Hour), NotAfter: start.Add(1000 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}}
	raw, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a pair, as PEM.
func (a *authority) issue(serial int64, from, until time.Time) (cert, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: from, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// start is when the tests' clock begins.
var start = time.Now()

// mounted is a folder as kubelet mounts a Secret: its files are links through ..data, which is swapped as a whole.
type mounted struct {
	t        *testing.T
	dir      string
	versions int
	now      time.Time
	log      bytes.Buffer
}

func newMounted(t *testing.T, cert, key []byte) *mounted {
	m := &mounted{t: t, dir: t.TempDir(), now: start}
	m.swap(cert, key)
	for _, name := range []string{"tls.crt", "tls.key"} {
		m.must(os.Symlink(filepath.Join("..data", name), m.path(name)))
	}
	return m
}

func (m *mounted) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

// swap changes both files at once.
func (m *mounted) swap(cert, key []byte) {
	m.t.Helper()
	m.versions++
	version := "..v" + string(rune('0'+m.versions))
	m.must(os.Mkdir(m.path(version), 0o700))
	m.must(os.WriteFile(m.path(filepath.Join(version, "tls.crt")), cert, 0o600))
	m.must(os.WriteFile(m.path(filepath.Join(version, "tls.key")), key, 0o600))
	m.must(os.Symlink(version, m.path("..data_tmp")))
	m.must(os.Rename(m.path("..data_tmp"), m.path("..data")))
}

func (m *mounted) open(roots *x509.CertPool) *certs.Pair {
	m.t.Helper()
	pair, err := certs.Open(certs.Options{
		Name: "hub", Cert: m.path("tls.crt"), Key: m.path("tls.key"), Roots: roots,
		Now: func() time.Time { return m.now }, Log: slog.New(slog.NewTextHandler(&m.log, nil)),
	})
	m.must(err)
	return pair
}

// shown is the serial number of what a client is shown after a while.
func (m *mounted) shown(pair *certs.Pair) int64 {
	m.t.Helper()
	m.now = m.now.Add(10 * time.Second)
	cert, err := pair.Server(nil)
	m.must(err)
	return cert.Leaf.SerialNumber.Int64()
}

func TestARenewedCertificateIsShownAndABrokenOneIsNot(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	type files struct{ cert, key []byte }
	issue := func(a *authority, serial int64, from, until time.Duration) files {
		cert, key := a.issue(serial, start.Add(from), start.Add(until))
		return files{cert, key}
	}
	good := func(serial int64) files { return issue(a, serial, -time.Hour, 100*time.Hour) }
	one, two := good(1), good(2)
	for name, test := range map[string]struct {
		renewed files
		wrong   string // empty: it is taken up
	}{
		"a good one":             {two, ""},
		"another's key":          {files{two.cert, one.key}, "does not match"},
		"no certificate":         {files{[]byte("nonsense"), two.key}, "failed to find any PEM data"},
		"empty files":            {files{}, "failed to find any PEM data"},
		"half of a key":          {files{two.cert, two.key[:len(two.key)/2]}, "failed to find any PEM data"},
		"one that has ended":     {issue(a, 2, -2*time.Hour, -time.Hour), "it is good from"},
		"one that has not begun": {issue(a, 2, 50*time.Hour, 100*time.Hour), "it is good from"},
		"another authority's":    {issue(stranger, 2, -time.Hour, 100*time.Hour), "not of the authority"},
		"very long files":        {files{bytes.Repeat([]byte("x"), 2<<20), two.key}, "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMounted(t, one.cert, one.key)
			pair := m.open(a.pool())
			m.swap(test.renewed.cert, test.renewed.key)
			want := int64(2)
			if test.wrong != "" {
				want = 1
			}
			for range 3 {
				if got := m.shown(pair); got != want {
					t.Errorf("certificate %d is shown", got)
				}
			}
			ends, fault := pair.State()
			if (fault != nil) != (test.wrong != "") || fault != nil && !strings.Contains(fault.Error(), test.wrong) || !ends.Equal(start.Add(100*time.Hour).Truncate(time.Second)) {
				t.Errorf("ends %v, %v", ends, fault)
			}
			if said := strings.Count(m.log.String(), "\n"); said != 1 {
				t.Errorf("it is said %d times: %s", said, &m.log)
			}
			last := good(4)
			m.swap(last.cert, last.key)
			if got := m.shown(pair); got != 4 {
				t.Errorf("after it was mended, certificate %d is shown", got)
			}
			if _, fault := pair.State(); fault != nil {
				t.Errorf("after it was mended: %v", fault)
			}
		})
	}
}

func TestFilesThatVanishChangeNothingUntilTheyAreBack(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(1, start.Add(-time.Hour), start.Add(time.Hour))
	m := newMounted(t, cert, key)
	pair := m.open(nil)
	m.must(os.Remove(m.path("tls.key")))
	if got := m.shown(pair); got != 1 {
		t.Errorf("certificate %d is shown", got)
	}
	if _, fault := pair.State(); !errors.Is(fault, os.ErrNotExist) {
		t.Errorf("fault: %v", fault)
	}
	m.must(os.Symlink(filepath.Join("..data", "tls.key"), m.path("tls.key")))
	m.shown(pair)
	if _, fault := pair.State(); fault != nil {
		t.Errorf("fault: %v", fault)
	}
}

func TestManyHandshakesLookAtTheFilesOnce(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(1, start.Add(-time.Hour), start.Add(time.Hour))
	m := newMounted(t, cert, key)
	pair := m.open(nil)
	cert, key = a.issue(2, start.Add(-time.Hour), start.Add(time.Hour))
	m.swap(cert, key)
	var handshakes sync.WaitGroup
	for range 8 {
		handshakes.Go(func() {
			for range 100 {
				if shown, _ := pair.Server(nil); shown.Leaf.SerialNumber.Int64() != 1 { // no time has gone by
					t.Error("the files were looked at")
				}
			}
		})
	}
	handshakes.Wait()
	if got := m.shown(pair); got != 2 {
		t.Errorf("certificate %d is shown", got)
	}
}

func TestBothEndsOfAConnectionShowWhatWasRenewed(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(1, start.Add(-time.Hour), start.Add(time.Hour))
	m := newMounted(t, cert, key)
	pair := m.open(a.pool())
	config := &tls.Config{
		GetCertificate: pair.Server, GetClientCertificate: pair.Client, RootCAs: a.pool(), ClientCAs: a.pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	m.must(err)
	defer listener.Close()
	for _, serial := range []int64{1, 2} {
		heard := make(chan int64, 1)
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				heard <- -1
				return
			}
			defer conn.Close()
			served := conn.(*tls.Conn)
			if err := served.HandshakeContext(t.Context()); err != nil {
				t.Error(err)
				heard <- -1
				return
			}
			heard <- served.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
		}()
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", listener.Addr().String())
		m.must(err)
		if got := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
			t.Errorf("the server shows certificate %d, want %d", got, serial)
		}
		if got := <-heard; got != serial {
			t.Errorf("the client shows certificate %d, want %d", got, serial)
		}
		_ = conn.Close()
		cert, key = a.issue(serial+1, start.Add(-time.Hour), start.Add(time.Hour))
		m.swap(cert, key)
		m.now = m.now.Add(10 * time.Second)
	}
}

func TestBadFilesAtTheStartAreAnError(t *testing.T) {
	_, err := certs.Open(certs.Options{Cert: "nowhere.crt", Key: "nowhere.key", Now: time.Now})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), `"nowhere.key"`) {
		t.Error(err)
	}
}
