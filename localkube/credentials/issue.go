package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime is long because nothing renews these certificates: the cluster would
// just stop working one day.
const lifetime = 10 * 365 * 24 * time.Hour

// key is a private key with its encoded form.
type key struct {
	*ecdsa.PrivateKey
	pem []byte
}

// serving is a certificate for the API server with what proves it; all PEM.
type serving struct {
	authority   []byte
	certificate []byte
	key         key
}

func newKey() (key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return key{}, fmt.Errorf("generate key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return key{}, fmt.Errorf("encode key: %w", err)
	}
	return key{private, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})}, nil
}

// issueServing makes a certificate authority, signs one serving certificate for
// the names under which the API server is reached, and forgets the authority's key.
func issueServing() (serving, error) {
	authorityKey, err := newKey()
	if err != nil {
		return serving{}, err
	}
	servingKey, err := newKey()
	if err != nil {
		return serving{}, err
	}
	authority := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "localkube"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	authorityPEM, err := sign(authority, authority, authorityKey, authorityKey)
	if err != nil {
		return serving{}, err
	}
	certificate := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificatePEM, err := sign(certificate, authority, servingKey, authorityKey)
	if err != nil {
		return serving{}, err
	}
	return serving{authority: authorityPEM, certificate: certificatePEM, key: servingKey}, nil
}

// sign issues template for the holder of subject, in the name of parent.
func sign(template, parent *x509.Certificate, subject, issuer key) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	template.SerialNumber = serial
	// A clock set back a little must not make a fresh cluster unreachable.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, subject.Public(), issuer.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %q: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
