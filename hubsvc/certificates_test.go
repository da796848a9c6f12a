package hubsvc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/peer"
	"github.com/pluralsh/plural/hubsvc/replica"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// issuer renews a certificate for this machine, in files as kubelet mounts a Secret.
type issuer struct {
	t        *testing.T
	dir      string
	key      *ecdsa.PrivateKey
	cert     *x509.Certificate
	versions int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, dir: t.TempDir(), cert: &x509.Certificate{
		SerialNumber: big.NewInt(1000), Subject: pkix.Name{CommonName: "issuer"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}}
	var err error
	if i.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, i.cert, i.cert, i.key.Public(), i.key)
	if err != nil {
		t.Fatal(err)
	}
	i.write("ca.crt", &pem.Block{Type: "CERTIFICATE", Bytes: der})
	i.renew(false)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), i.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func (i *issuer) path(name string) string { return filepath.Join(i.dir, name) }

func (i *issuer) write(name string, block *pem.Block) {
	i.t.Helper()
	if err := os.WriteFile(i.path(name), pem.EncodeToMemory(block), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

// renew swaps both files at once for those of the next serial number; broken: the key is another's.
func (i *issuer) renew(broken bool) (serial int64) {
	i.t.Helper()
	i.versions++
	version := fmt.Sprintf("..%d", i.versions)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(i.versions), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, i.cert, key.Public(), i.key)
	if err != nil {
		i.t.Fatal(err)
	}
	if broken {
		key = i.key
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		i.t.Fatal(err)
	}
	if err := os.Mkdir(i.path(version), 0o700); err != nil {
		i.t.Fatal(err)
	}
	i.write(filepath.Join(version, "tls.crt"), &pem.Block{Type: "CERTIFICATE", Bytes: der})
	i.write(filepath.Join(version, "tls.key"), &pem.Block{Type: "PRIVATE KEY", Bytes: private})
	if err := os.Symlink(version, i.path("..new")); err != nil {
		i.t.Fatal(err)
	}
	if err := os.Rename(i.path("..new"), i.path("..data")); err != nil {
		i.t.Fatal(err)
	}
	return i.versions
}

// client trusts the issuer, and shows what its files hold.
func (i *issuer) client() *tls.Config {
	i.t.Helper()
	pair, err := tls.LoadX509KeyPair(i.path("tls.crt"), i.path("tls.key"))
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := os.ReadFile(i.path("ca.crt"))
	if err != nil {
		i.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS13}
}

// shown is the serial number of the certificate that one more connection to an address is shown.
func shown(t *testing.T, address string, config *tls.Config) int64 {
	t.Helper()
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestHubShowsARenewedCertificateWithoutARestart(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	opts := options(t, o)
	files := newIssuer(t)
	opts.TLSCert, opts.TLSKey = files.path("tls.crt"), files.path("tls.key")
	hub := start(t, opts)
	trusting := files.client()
	address := strings.TrimPrefix(hub.url, "http://")
	hub.url = "https://" + address
	hub.client = &http.Client{Transport: &http.Transport{TLSClientConfig: trusting}}
	hub.ready()
	certificates := func() []v1.Certificate {
		var status v1.Hub
		code, body := hub.do(http.MethodGet, "/v1/hub", hub.token, nil)
		if err := json.Unmarshal(body, &status); err != nil || code != http.StatusOK {
			t.Fatalf("hub: %d, %v", code, err)
		}
		return status.Certificates
	}
	if got := shown(t, address, trusting); got != 1 {
		t.Fatalf("certificate %d is shown", got)
	}
	broken := files.renew(true)
	fleetrepo.Until(t, "the hub says what is wrong with the renewed certificate", func() bool {
		all := certificates()
		return len(all) == 1 && all[0].Name == "hub" && strings.Contains(all[0].Error, "does not match")
	})
	if got := shown(t, address, trusting); got != 1 {
		t.Errorf("certificate %d is shown after %d, which is broken", got, broken)
	}
	renewed := files.renew(false)
	fleetrepo.Until(t, "the renewed certificate is shown", func() bool { return shown(t, address, trusting) == renewed })
	if all := certificates(); len(all) != 1 || all[0].Error != "" || all[0].Ends.IsZero() {
		t.Errorf("certificates: %+v", all)
	}
	hub.ready() // over the connection of before
}

// Replicas show each other renewed certificates, whichever of them connects, in the form in which the rooms get them.
func TestReplicasShowEachOtherARenewedCertificateWithoutARestart(t *testing.T) {
	files := newIssuer(t)
	part, err := replica.New(&replica.Options{
		Name: "a", NATS: "in this process", PeerListen: "127.0.0.1:0", PeerURL: "127.0.0.1:0",
		Cert: files.path("tls.crt"), Key: files.path("tls.key"), CA: files.path("ca.crt"),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	pair, config := part.Certificates(), part.TLS()
	seen := make(chan int64, 10) // of who asks
	server, err := peer.NewServer(peer.Options{Bundle: func(context.Context, string) (io.ReadSeekCloser, string, error) {
		return nil, "", fs.ErrNotExist
	}}, config)
	if err != nil {
		t.Fatal(err)
	}
	inner := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.TLS.PeerCertificates[0].SerialNumber.Int64()
		inner.ServeHTTP(w, r)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	defer func() {
		_ = server.Close()
		<-served
	}()
	address := listener.Addr().String()
	ask := func() int64 {
		t.Helper()
		if _, err := peer.NewClient(config).Bundle(t.Context(), address, "b1-none"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return <-seen
	}
	if got := ask(); got != 1 {
		t.Errorf("the client shows certificate %d", got)
	}
	renewed := files.renew(false)
	fleetrepo.Until(t, "the renewed certificate is read", func() bool { return shown(t, address, files.client()) == renewed })
	if got := ask(); got != renewed {
		t.Errorf("the client shows certificate %d, want %d", got, renewed)
	}
	newIssuer(t).into(files) // of an authority that the others do not know
	fleetrepo.Until(t, "the certificate of another authority is refused", func() bool { _, fault := pair.State(); return fault != nil })
	if got := ask(); got != renewed {
		t.Errorf("the client shows certificate %d, want %d", got, renewed)
	}
}

// into puts what this issuer made into the files of another.
func (i *issuer) into(other *issuer) {
	i.t.Helper()
	if err := os.Symlink(i.path("..data"), other.path("..new")); err != nil {
		i.t.Fatal(err)
	}
	if err := os.Rename(other.path("..new"), other.path("..data")); err != nil {
		i.t.Fatal(err)
	}
}
