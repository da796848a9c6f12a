package verify_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pluralsh/plural/crypto/verify"
)

func must[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}

// authority is all that stands behind keyless signatures: who certifies, who logs certificates and signatures, who tells
// the time. The keys are new, the formats are the public ones.
type authority struct {
	testing.TB
	ca, tsa           *x509.Certificate
	caKey, tsaKey     *ecdsa.PrivateKey
	logKey, certsKey  *ecdsa.PrivateKey
	begin, end, clock time.Time
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	now := time.Now().Truncate(time.Second)
	a := &authority{TB: tb, begin: now.Add(-time.Hour), end: now.Add(time.Hour), clock: now}
	a.caKey, a.tsaKey, a.logKey, a.certsKey = a.key(), a.key(), a.key(), a.key()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: a.begin, NotAfter: a.end,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	a.ca = a.certify(template, template, &a.caKey.PublicKey)
	purpose := must(asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}}))(tb)
	a.tsa = a.certify(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: a.begin, NotAfter: a.end, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: purpose}},
	}, a.ca, &a.tsaKey.PublicKey)
	return a
}

func (a *authority) key() *ecdsa.PrivateKey {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a)
}

func (a *authority) certify(template, parent *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	a.Helper()
	return must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, parent, key, a.caKey))(a)))(a)
}

func (a *authority) logID(key *ecdsa.PrivateKey) []byte {
	sum := sha256.Sum256(must(x509.MarshalPKIXPublicKey(key.Public()))(a))
	return sum[:]
}

func sign(tb testing.TB, key *ecdsa.PrivateKey, message []byte) []byte {
	tb.Helper()
	sum := sha256.Sum256(message)
	return must(ecdsa.SignASN1(rand.Reader, key, sum[:]))(tb)
}

// offers choose what a trust root names.
type offers struct{ log, certs, tsa bool }

func (a *authority) trust(o offers) []byte {
	a.Helper()
	logs := func(on bool, key *ecdsa.PrivateKey) map[string]*root.TransparencyLog {
		if !on {
			return nil
		}
		return map[string]*root.TransparencyLog{hex.EncodeToString(a.logID(key)): {
			BaseURL: "https://log.example.com", ID: a.logID(key), HashFunc: crypto.SHA256, SignatureHashFunc: crypto.SHA256,
			PublicKey: key.Public(), ValidityPeriodStart: a.begin, ValidityPeriodEnd: a.end,
		}}
	}
	var tsas []root.TimestampingAuthority
	if o.tsa {
		tsas = append(tsas, &root.SigstoreTimestampingAuthority{
			Root: a.ca, Leaf: a.tsa, ValidityPeriodStart: a.begin, ValidityPeriodEnd: a.end,
		})
	}
	cas := []root.CertificateAuthority{&root.FulcioCertificateAuthority{
		Root: a.ca, ValidityPeriodStart: a.begin, ValidityPeriodEnd: a.end,
	}}
	trust := must(root.NewTrustedRoot(root.TrustedRootMediaType01, cas, logs(o.certs, a.certsKey), tsas, logs(o.log, a.logKey)))(a)
	return must(trust.MarshalJSON())(a)
}

// leaf certifies a fresh key for ten minutes, as Fulcio does, with the promise that the certificate is logged.
func (a *authority) leaf(issuer, identity string, logged bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.Helper()
	key := a.key()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: a.clock.Add(-time.Minute), NotAfter: a.clock.Add(9 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(issuer)}},
		URIs:            []*url.URL{must(url.Parse(identity))(a)},
	}
	cert := a.certify(template, a.ca, &key.PublicKey)
	if !logged {
		return cert, key
	}
	value := must(asn1.Marshal(a.promise(cert.RawTBSCertificate)))(a)
	template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{
		Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: value,
	})
	return a.certify(template, a.ca, &key.PublicKey), key
}

// promise is a list of one signed certificate timestamp (RFC 6962) over a certificate that does not hold it yet.
func (a *authority) promise(tbs []byte) []byte {
	millis := binary.BigEndian.AppendUint64(nil, uint64(a.clock.UnixMilli()))
	issuer := sha256.Sum256(a.ca.RawSubjectPublicKeyInfo)
	length := binary.BigEndian.AppendUint32(nil, uint32(len(tbs)))[1:]
	signature := sign(a, a.certsKey, bytes.Join([][]byte{{0, 0}, millis, {0, 1}, issuer[:], length, tbs, {0, 0}}, nil))
	sct := bytes.Join([][]byte{{0}, a.logID(a.certsKey), millis, {0, 0, 4, 3}, sized(signature)}, nil)
	return sized(sized(sct))
}

func sized(text []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
}

// stamp is a signed timestamp (RFC 3161) over a signature.
func (a *authority) stamp(signature []byte) []byte {
	a.Helper()
	sum := sha256.Sum256(signature)
	stamp := timestamp.Timestamp{
		HashAlgorithm: crypto.SHA256, HashedMessage: sum[:], Time: a.clock, Policy: asn1.ObjectIdentifier{1, 2, 3},
	}
	return must(stamp.CreateResponseWithOpts(a.tsa, a.tsaKey, crypto.SHA256))(a)
}

// entry logs a body, and promises that it is in the log.
func (a *authority) entry(kind, spec string) *protorekor.TransparencyLogEntry {
	a.Helper()
	body := []byte(`{"apiVersion":"0.0.1","kind":"` + kind + `","spec":` + spec + `}`)
	id, seconds := a.logID(a.logKey), a.clock.Unix()
	promised := fmt.Sprintf(`{"body":"%s","integratedTime":%d,"logID":"%x","logIndex":7}`, base64.StdEncoding.EncodeToString(body), seconds, id)
	return &protorekor.TransparencyLogEntry{
		LogIndex: 7, LogId: &protocommon.LogId{KeyId: id}, IntegratedTime: seconds, CanonicalizedBody: body,
		KindVersion:      &protorekor.KindVersion{Kind: kind, Version: "0.0.1"},
		InclusionPromise: &protorekor.InclusionPromise{SignedEntryTimestamp: sign(a, a.logKey, []byte(promised))},
	}
}

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// statement is what cosign signs of an image since version 3.
func statement(digest, kind string) []byte {
	return []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"","digest":{"sha256":"` + digest[len("sha256:"):] +
		`"}}],"predicateType":"` + kind + `","predicate":{}}`)
}

// pae is what is really signed of an envelope.
func pae(payload []byte) []byte {
	const kind = "application/vnd.in-toto+json"
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
}

func envelope(payload, signature []byte) *protobundle.Bundle_DsseEnvelope {
	return &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
		Payload: payload, PayloadType: "application/vnd.in-toto+json", Signatures: []*protodsse.Signature{{Sig: signature}},
	}}
}

// signBundle makes the bundle that a signer gets back who has a statement logged, stamped, or both.
func (a *authority) signBundle(cert *x509.Certificate, key *ecdsa.PrivateKey, payload []byte, o offers) []byte {
	a.Helper()
	signature := sign(a, key, pae(payload))
	b := &protobundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json", Content: envelope(payload, signature),
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: cert.Raw}},
		},
	}
	if o.log {
		sum := sha256.Sum256(payload)
		b.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.1" // the last that does with a promise
		b.VerificationMaterial.TlogEntries = []*protorekor.TransparencyLogEntry{a.entry("dsse", fmt.Sprintf(
			`{"envelopeHash":{"algorithm":"sha256","value":"%x"},"payloadHash":{"algorithm":"sha256","value":"%x"},`+
				`"signatures":[{"signature":"%s","verifier":"%s"}]}`,
			sum, sum, base64.StdEncoding.EncodeToString(signature), base64.StdEncoding.EncodeToString(pemOf(cert))))}
	}
	if o.tsa {
		b.VerificationMaterial.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: a.stamp(signature)}},
		}
	}
	return must(protojson.Marshal(b))(a)
}

// simplePayload is what cosign signs of an image up to version 2.
func simplePayload(digest string) []byte {
	return []byte(`{"critical":{"identity":{"docker-reference":"registry.example.com/app"},"image":{"docker-manifest-digest":"` +
		digest + `"},"type":"cosign container image signature"},"optional":null}`)
}

// signSimple scatters a keyless signature over annotations, as cosign did.
func (a *authority) signSimple(cert *x509.Certificate, key *ecdsa.PrivateKey, payload []byte) verify.Simple {
	a.Helper()
	signature := base64.StdEncoding.EncodeToString(sign(a, key, payload))
	sum := sha256.Sum256(payload)
	entry := a.entry("hashedrekord", fmt.Sprintf(`{"data":{"hash":{"algorithm":"sha256","value":"%x"}},"signature":{"content":"%s",`+
		`"publicKey":{"content":"%s"}}}`, sum, signature, base64.StdEncoding.EncodeToString(pemOf(cert))))
	logged := must(json.Marshal(map[string]any{
		"SignedEntryTimestamp": entry.GetInclusionPromise().GetSignedEntryTimestamp(),
		"Payload": map[string]any{
			"body": entry.GetCanonicalizedBody(), "integratedTime": entry.GetIntegratedTime(), "logIndex": entry.GetLogIndex(),
			"logID": hex.EncodeToString(entry.GetLogId().GetKeyId()),
		},
	}))(a)
	return verify.Simple{Payload: payload, Signature: signature, Certificate: string(pemOf(cert)), Bundle: string(logged)}
}
