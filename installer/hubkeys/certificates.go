package hubkeys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// ReplicaService is the headless Service by whose names the hub's replicas know each other: hub's chart has it.
const ReplicaService = "plural-hub-replicas"

// Certificates outlive the people who made them; a lost one is made anew by Rotate. One that ends within renewal is renewed.
const (
	lifetime = 10 * 365 * 24 * time.Hour
	renewal  = 365 * 24 * time.Hour
	backdate = time.Hour // clocks differ
)

// certify makes the certificate of the replicas, all of which have the same one, where there is none that lasts. The authority
// stays, so that replicas with the former one get on with it; anew is for one that got into wrong hands.
func (k *Keys) certify(anew bool, now func() time.Time) (made bool, err error) {
	if now == nil {
		now = time.Now
	}
	if !anew && lasting(k.data[keyCert], now()) && lasting(k.data[keyCACert], now()) {
		return false, nil
	}
	authority, err := tls.X509KeyPair(k.data[keyCACert], k.data[keyCAKey])
	if anew || err != nil || !lasting(k.data[keyCACert], now()) {
		k.otherAuthority = k.old != nil && len(k.data[keyCACert]) > 0
		if authority, err = k.newAuthority(now()); err != nil {
			return false, err
		}
	}
	leaf := &x509.Certificate{
		Subject: pkix.Name{CommonName: SecretName}, DNSNames: replicaNames(), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	issuer, ok := authority.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return false, errors.New("the authority's key is of an unknown kind")
	}
	k.data[keyCert], k.data[keyKey], err = issue(leaf, authority.Leaf, issuer, now())
	return true, err
}

// replicaNames are what replicas are called: pods of the headless Service. A wildcard stands for one label.
func replicaNames() []string {
	service := ReplicaService + "." + Namespace + ".svc"
	return []string{"*." + service, "*." + service + ".cluster.local", service, "localhost"}
}

// lasting says whether text is a certificate that need not be renewed yet.
func lasting(text []byte, now time.Time) bool {
	block, _ := pem.Decode(text)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.Add(renewal).Before(cert.NotAfter)
}

func (k *Keys) newAuthority(now time.Time) (tls.Certificate, error) {
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "plural-hub replicas"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if k.data[keyCACert], k.data[keyCAKey], err = issue(ca, nil, nil, now); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(k.data[keyCACert], k.data[keyCAKey])
}

// issue signs a certificate with a fresh key; without an issuer it signs itself.
func issue(cert, issuer *x509.Certificate, by *ecdsa.PrivateKey, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key: %w", err)
	}
	if issuer == nil {
		issuer, by = cert, key
	}
	if cert.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, fmt.Errorf("generate serial number: %w", err)
	}
	cert.NotBefore, cert.NotAfter = now.Add(-backdate), now.Add(lifetime)
	if cert != issuer && issuer.NotAfter.Before(cert.NotAfter) {
		cert.NotAfter = issuer.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, issuer, key.Public(), by)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certPEM, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

func checkPair(cert, key []byte) error {
	_, err := tls.X509KeyPair(cert, key)
	return err
}
