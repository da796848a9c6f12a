package attest_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/tools/release/attest"
)

const (
	issuer   = "https://token.actions.githubusercontent.com"
	workflow = "https://github.com/pluralsh/plural/.github/workflows/release.yaml@refs/tags/v1.2.3"
)

// authority speaks as Fulcio and as an authority for timestamps, which cannot be reached from a test: the protocols are theirs, the keys
// are new. Whom a token names it takes from the token, as Fulcio does after it has verified it.
type authority struct {
	*testing.T
	ca, tsa       *x509.Certificate
	caKey, tsaKey *ecdsa.PrivateKey
	// now is what its clock says.
	now time.Time
	url string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t, now: time.Now().Truncate(time.Second)}
	a.caKey, a.tsaKey = a.key(), a.key()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: a.now.Add(-24 * time.Hour), NotAfter: a.now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	a.ca = a.certify(ca, ca, &a.caKey.PublicKey)
	purpose, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	a.check(err)
	a.tsa = a.certify(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: purpose}},
	}, a.ca, &a.tsaKey.PublicKey)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v2/signingCert", a.fulcio)
	mux.HandleFunc("POST /timestamp", a.stamp)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *authority) check(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *authority) key() *ecdsa.PrivateKey {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	return key
}

func (a *authority) certify(template, parent *x509.Certificate, key any) *x509.Certificate {
	a.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.caKey)
	a.check(err)
	certificate, err := x509.ParseCertificate(der)
	a.check(err)
	return certificate
}

// fulcio certifies a key for ten minutes.
func (a *authority) fulcio(w http.ResponseWriter, q *http.Request) {
	_, claims, _ := strings.Cut(q.Header.Get("Authorization"), ".")
	claims, _, _ = strings.Cut(claims, ".")
	text, err := base64.RawURLEncoding.DecodeString(claims)
	a.check(err)
	var token struct{ Iss, Ref string }
	a.check(json.Unmarshal(text, &token))
	var asked struct {
		PublicKeyRequest struct{ PublicKey struct{ Content string } }
	}
	a.check(json.NewDecoder(q.Body).Decode(&asked))
	block, _ := pem.Decode([]byte(asked.PublicKeyRequest.PublicKey.Content))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	a.check(err)
	identity, err := url.Parse(token.Ref)
	a.check(err)
	leaf := a.certify(&x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: a.now.Add(-time.Minute), NotAfter: a.now.Add(9 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, URIs: []*url.URL{identity},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(token.Iss)}},
	}, a.ca, key)
	chain := []string{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}))}
	a.check(json.NewEncoder(w).Encode(map[string]any{"signedCertificateEmbeddedSct": map[string]any{"chain": map[string]any{"certificates": chain}}}))
}

// stamp is RFC 3161.
func (a *authority) stamp(w http.ResponseWriter, q *http.Request) {
	text, err := io.ReadAll(q.Body)
	a.check(err)
	asked, err := timestamp.ParseRequest(text)
	a.check(err)
	stamp := timestamp.Timestamp{HashAlgorithm: asked.HashAlgorithm, HashedMessage: asked.HashedMessage, Time: a.now, Policy: asn1.ObjectIdentifier{1, 2, 3}, Nonce: asked.Nonce}
	answer, err := stamp.CreateResponseWithOpts(a.tsa, a.tsaKey, crypto.SHA256)
	a.check(err)
	_, err = w.Write(answer)
	a.check(err)
}

// trust is a trust root that names this authority.
func (a *authority) trust() []byte {
	a.Helper()
	begin, end := a.ca.NotBefore, a.ca.NotAfter
	trust, err := root.NewTrustedRoot(root.TrustedRootMediaType01,
		[]root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: a.ca, ValidityPeriodStart: begin, ValidityPeriodEnd: end}}, nil,
		[]root.TimestampingAuthority{&root.SigstoreTimestampingAuthority{Root: a.ca, Leaf: a.tsa, ValidityPeriodStart: begin, ValidityPeriodEnd: end}}, nil)
	a.check(err)
	text, err := trust.MarshalJSON()
	a.check(err)
	return text
}

// signed is a bundle over data by a workflow.
func (a *authority) signed(data []byte, iss, ref string, stamped bool) []byte {
	a.Helper()
	claims, err := json.Marshal(map[string]string{"iss": iss, "ref": ref, "sub": "repo:pluralsh/plural"})
	a.check(err)
	k := attest.Keyless{Token: "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".", Fulcio: a.url}
	if stamped {
		k.Timestamps = a.url + "/timestamp"
	}
	bundle, err := attest.KeylessSigner(k).Blob(a.Context(), data)
	a.check(err)
	return bundle
}

func TestAWorkflowSignsWithoutAKeyAndNobodyElseIsTakenForIt(t *testing.T) {
	a := newAuthority(t)
	data := []byte("checksums of a release")
	later := newAuthority(t)
	for name, c := range map[string]struct {
		bundle []byte
		data   string
		fault  error
	}{
		"the workflow at the tag":       {a.signed(data, issuer, workflow, true), string(data), nil},
		"the workflow at another tag":   {a.signed(data, issuer, strings.Replace(workflow, "1.2.3", "1.2.4", 1), true), string(data), verify.ErrUnknownKey},
		"the workflow at a branch":      {a.signed(data, issuer, strings.Replace(workflow, "tags/v1.2.3", "heads/main", 1), true), string(data), verify.ErrUnknownKey},
		"a workflow of another project": {a.signed(data, issuer, strings.Replace(workflow, "pluralsh", "mallory", 1), true), string(data), verify.ErrUnknownKey},
		"another workflow":              {a.signed(data, issuer, strings.Replace(workflow, "release", "ci", 1), true), string(data), verify.ErrUnknownKey},
		"another issuer":                {a.signed(data, "https://example.com", workflow, true), string(data), verify.ErrUnknownKey},
		"another authority":             {later.signed(data, issuer, workflow, true), string(data), verify.ErrBad},
		"no timestamp":                  {a.signed(data, issuer, workflow, false), string(data), verify.ErrBad},
		"other bytes":                   {a.signed(data, issuer, workflow, true), "other", verify.ErrBad},
		"no bundle":                     {[]byte("{}"), string(data), verify.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			demand, err := verify.Keyless{Issuer: issuer, Identity: workflow, TrustRoot: a.trust()}.Image()
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte(c.data))
			err = demand.Verify(t.Context(), "sha256:"+hex.EncodeToString(sum[:]), verify.Signatures{Bundles: [][]byte{c.bundle}})
			if !errors.Is(err, c.fault) || (err == nil) != (c.fault == nil) {
				t.Errorf("got %v, want %v", err, c.fault)
			}
		})
	}
}
