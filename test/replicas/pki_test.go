package replicas

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pki is one CA with one certificate, good for every server and client of a test.
type pki struct {
	ca, cert, key string
	leaf, issuer  *x509.Certificate
	sealing       *ecdsa.PrivateKey // of the issuer
}

func newPKI(t *testing.T, dir string, ips []string) *pki {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := &pki{ca: filepath.Join(dir, "ca.pem"), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), sealing: newKey(t)}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "hub"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		DNSNames: []string{"hub.test", "localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, ip := range append(ips, "127.0.0.1") {
		leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(ip))
	}
	p.leaf, p.issuer = leaf, ca
	writePEM(t, p.ca, "CERTIFICATE", sign(t, ca, ca, p.sealing, p.sealing))
	p.renew(t)
	return p
}

// renew writes another certificate with another key, one after the other, and gives its serial number.
func (p *pki) renew(t *testing.T) *big.Int {
	t.Helper()
	p.leaf.SerialNumber = new(big.Int).Add(p.leaf.SerialNumber, big.NewInt(1))
	key := newKey(t)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, p.cert, "CERTIFICATE", sign(t, p.leaf, p.issuer, key, p.sealing))
	writePEM(t, p.key, "EC PRIVATE KEY", der)
	return p.leaf.SerialNumber
}

// shown is the serial number of the certificate that an address shows; nil when it shows none.
func (p *pki) shown(t *testing.T, address string) *big.Int {
	t.Helper()
	text, err := os.ReadFile(p.ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
