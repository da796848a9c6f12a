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

// issued is a certificate with what proves it; all PEM.
type issued struct {
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

// issueServing issues a certificate for the names under which the API server is reached.
func issueServing() (issued, error) {
	return issue("localkube", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// issueKubeletClient issues a certificate with which the API server is a client.
func issueKubeletClient() (issued, error) {
	return issue("localkube-kubelet-clients", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver-kubelet-client"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue makes a certificate authority of the given name, signs one certificate, and forgets the authority's key.
func issue(name string, certificate *x509.Certificate) (issued, error) {
	authorityKey, err := newKey()
	if err != nil {
		return issued{}, err
	}
	subjectKey, err := newKey()
	if err != nil {
		return issued{}, err
	}
	authority := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	authorityPEM, err := sign(authority, authority, authorityKey, authorityKey)
	if err != nil {
		return issued{}, err
	}
	certificatePEM, err := sign(certificate, authority, subjectKey, authorityKey)
	if err != nil {
		return issued{}, err
	}
	return issued{authority: authorityPEM, certificate: certificatePEM, key: subjectKey}, nil
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
