package verify_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pluralsh/plural/crypto/verify"
)

const (
	digest    = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	other     = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	issuer    = "https://token.actions.githubusercontent.com"
	workflow  = "https://github.com/team/app/.github/workflows/release.yml@refs/tags/v1.2.3"
	workflows = "https://github.com/team/app/.github/workflows/release.yml@refs/tags/v*"
	approval  = "https://sigstore.dev/cosign/sign/v1"
)

func publicPEM(tb testing.TB, key crypto.Signer) []byte {
	tb.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(key.Public()))(tb)})
}

// blob signs as cosign does with a key of that kind.
func blob(tb testing.TB, key crypto.Signer, payload []byte) []byte {
	tb.Helper()
	sum := sha256.Sum256(payload)
	if _, ok := key.(ed25519.PrivateKey); ok {
		return must(key.Sign(rand.Reader, payload, crypto.Hash(0)))(tb)
	}
	return must(key.Sign(rand.Reader, sum[:], crypto.SHA256))(tb)
}

func cosignKeys(tb testing.TB) map[string]crypto.Signer {
	tb.Helper()
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]crypto.Signer{
		"P-256": must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(tb), "P-384": must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(tb),
		"RSA": must(rsa.GenerateKey(rand.Reader, 2048))(tb), "Ed25519": edwards,
	}
}

func simple(tb testing.TB, key crypto.Signer, payload []byte) verify.Simple {
	tb.Helper()
	return verify.Simple{Payload: payload, Signature: base64.StdEncoding.EncodeToString(blob(tb, key, payload))}
}

// keyBundle is what `cosign sign --key` leaves since version 3.
func keyBundle(tb testing.TB, key crypto.Signer, payload []byte) []byte {
	tb.Helper()
	return bundleOf(tb, payload, blob(tb, key, pae(payload)))
}

func bundleOf(tb testing.TB, payload, signature []byte) []byte {
	tb.Helper()
	return must(protojson.Marshal(&protobundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json", Content: envelope(payload, signature),
		VerificationMaterial: &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_PublicKey{
			PublicKey: &protocommon.PublicKeyIdentifier{Hint: "whatever"},
		}},
	}))(tb)
}

// wantVerdict compares a verdict with the one that is due.
func wantVerdict(tb testing.TB, err, want error, words string) {
	tb.Helper()
	if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), words) {
		tb.Errorf("got %v, want %v with %q", err, want, words)
	}
}

func TestAnImageSignedWithAKeyIsVerified(t *testing.T) {
	t.Parallel()
	for name, key := range cosignKeys(t) {
		keys := must(verify.ParseKeys(publicPEM(t, key)))(t)
		stranger := must(verify.ParseKeys(publicPEM(t, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))))(t)
		for _, sigs := range []verify.Signatures{
			{Simple: []verify.Simple{simple(t, key, simplePayload(digest))}},
			{Bundles: [][]byte{keyBundle(t, key, statement(digest, approval))}},
		} {
			t.Log(name)
			wantVerdict(t, keys.Verify(t.Context(), digest, sigs), nil, "")
			if err := keys.Verify(t.Context(), other, sigs); err == nil {
				t.Error("the signature counts for another image")
			}
			if err := stranger.Verify(t.Context(), digest, sigs); err == nil {
				t.Error("the signature counts with another key")
			}
		}
	}
}

func TestABlobIsSignedByItsKeyAsItIs(t *testing.T) {
	t.Parallel()
	strangers := cosignKeys(t)
	for name, key := range cosignKeys(t) {
		keys := must(verify.ParseKeys(publicPEM(t, key)))(t)
		wantVerdict(t, keys.Blob([]byte("this"), blob(t, key, []byte("this"))), nil, "")
		for what, signature := range map[string][]byte{
			"over another": blob(t, key, []byte("that")), "a stranger's": blob(t, strangers[name], []byte("this")), "nonsense": []byte("x"),
		} {
			if err := keys.Blob([]byte("this"), signature); !errors.Is(err, verify.ErrBad) {
				t.Errorf("%s, %s: got %v", name, what, err)
			}
		}
	}
}

func TestOneOfSeveralKeysIsEnoughWhicheverItIs(t *testing.T) {
	t.Parallel()
	one, two := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), must(rsa.GenerateKey(rand.Reader, 2048))(t)
	keys := must(verify.ParseKeys(publicPEM(t, one), publicPEM(t, two)))(t)
	for _, key := range []crypto.Signer{one, two} {
		for _, sigs := range []verify.Signatures{
			{Simple: []verify.Simple{simple(t, key, simplePayload(digest))}},
			{Bundles: [][]byte{keyBundle(t, key, statement(digest, approval))}},
		} {
			wantVerdict(t, keys.Verify(t.Context(), digest, sigs), nil, "")
		}
		scan := keyBundle(t, key, statement(digest, "https://cosign.sigstore.dev/attestation/vuln/v1"))
		wantVerdict(t, keys.Verify(t.Context(), digest, verify.Signatures{Bundles: [][]byte{scan}}), verify.ErrNamespace, "vuln")
	}
}

// longer signs over SHA-384, as newer signers do with the larger curve.
type longer struct{ *ecdsa.PrivateKey }

func (l longer) sign(tb testing.TB, payload []byte) []byte {
	tb.Helper()
	sum := sha512.Sum384(payload)
	return must(ecdsa.SignASN1(rand.Reader, l.PrivateKey, sum[:]))(tb)
}

func TestTheLargerCurveSignsOverTheLongerDigestToo(t *testing.T) {
	t.Parallel()
	for curve, counts := range map[elliptic.Curve]bool{elliptic.P384(): true, elliptic.P256(): false} {
		key := longer{must(ecdsa.GenerateKey(curve, rand.Reader))(t)}
		keys := must(verify.ParseKeys(publicPEM(t, key)))(t)
		payload, said := simplePayload(digest), statement(digest, approval)
		for _, sigs := range []verify.Signatures{
			{Simple: []verify.Simple{{Payload: payload, Signature: base64.StdEncoding.EncodeToString(key.sign(t, payload))}}},
			{Bundles: [][]byte{bundleOf(t, said, key.sign(t, pae(said)))}},
		} {
			if err := keys.Verify(t.Context(), digest, sigs); (err == nil) != counts {
				t.Errorf("%s: %v", curve.Params().Name, err)
			}
		}
	}
}

func TestWhatAKeyDidNotApproveIsRefusedInWords(t *testing.T) {
	t.Parallel()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	keys := must(verify.ParseKeys(publicPEM(t, key)))(t)
	good := simple(t, key, simplePayload(digest))
	doctored := good
	doctored.Payload = simplePayload(other)
	ofAnotherType := simple(t, key, bytes.Replace(simplePayload(digest), []byte("cosign container image"), []byte("a blob's"), 1))
	for _, c := range []struct {
		sigs  verify.Signatures
		want  error
		words string
	}{
		{verify.Signatures{}, verify.ErrUnsigned, "not signed"},
		{verify.Signatures{Simple: []verify.Simple{{Payload: good.Payload}}}, verify.ErrUnsigned, "not signed"},
		{verify.Signatures{Simple: []verify.Simple{doctored}}, verify.ErrBad, "not trusted here, or"},
		{verify.Signatures{Simple: []verify.Simple{simple(t, key, simplePayload(other))}}, verify.ErrOther, other},
		{verify.Signatures{Simple: []verify.Simple{ofAnotherType}}, verify.ErrNamespace, "a blob's signature"},
		{verify.Signatures{Simple: []verify.Simple{{Payload: good.Payload, Signature: "%"}}}, verify.ErrMalformed, "base64"},
		{verify.Signatures{Simple: []verify.Simple{simple(t, key, []byte("no JSON"))}}, verify.ErrMalformed, "JSON"},
		{verify.Signatures{Bundles: [][]byte{[]byte("{}")}}, verify.ErrMalformed, "bundle"},
		{verify.Signatures{Bundles: [][]byte{bytes.Repeat([]byte(" "), 4<<20+1)}}, verify.ErrMalformed, "a bundle larger than"},
		{verify.Signatures{Bundles: [][]byte{keyBundle(t, key, statement(other, approval))}}, verify.ErrBad, "digest"},
		{
			verify.Signatures{Bundles: [][]byte{keyBundle(t, key, statement(digest, "https://cosign.sigstore.dev/attestation/vuln/v1"))}},
			verify.ErrNamespace, "vuln",
		},
		{verify.Signatures{Simple: slices.Repeat([]verify.Simple{good}, 65)}, verify.ErrMalformed, "65 signatures"},
		{verify.Signatures{Simple: []verify.Simple{doctored, doctored, {}}}, verify.ErrBad, "none of 3 signatures counts"},
	} {
		wantVerdict(t, keys.Verify(t.Context(), digest, c.sigs), c.want, c.words)
	}
	if err := keys.Verify(t.Context(), digest, verify.Signatures{Simple: []verify.Simple{doctored, good}}); err != nil {
		t.Errorf("one good signature is not enough: %v", err)
	}
	for _, bad := range []string{
		"latest", "", "sha256:", digest[:len(digest)-2], digest + "00", "sha512" + digest[len("sha256"):],
		digest[len("sha256:"):], digest[:len(digest)-1] + "x",
	} {
		sigs := verify.Signatures{Simple: []verify.Simple{simple(t, key, simplePayload(bad))}}
		if err := keys.Verify(t.Context(), bad, sigs); err == nil || !strings.Contains(err.Error(), "bad digest") {
			t.Errorf("%q passes for a digest: %v", bad, err)
		}
	}
}

func TestKeysThatOnlySignGitVerifyNoImage(t *testing.T) {
	t.Parallel()
	keys := must(verify.ParseKeys([]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDkbNSyjuG95n38m5X5EBxtbDxu05QQTpDdAa9zIYZu0 ada")))(t)
	wantVerdict(t, keys.Verify(t.Context(), digest, verify.Signatures{Bundles: [][]byte{nil}}), verify.ErrUnknownKey, "PEM public key")
}

func TestPEMKeysThatAreWeakOrPrivateAreRefused(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	weak := publicPEM(t, must(rsa.GenerateKey(rand.Reader, 1024))(t))
	private := pem.EncodeToMemory(&pem.Block{
		Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)))(t),
	})
	curve := publicPEM(t, must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))(t))
	for text, words := range map[string]string{
		string(weak): "RSA of less than 2048 bits", string(private): "private key", string(curve): "P-521",
		"": "empty", "-----BEGIN PUBLIC KEY-----\nx": "damaged", "nonsense": "line 1", "\x99\x01": "not an OpenPGP public key",
	} {
		if _, err := verify.ParseKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: got %v, want %q", text, err, words)
		}
	}
	if _, err := verify.ParseKeys(); err == nil {
		t.Error("no keys at all pass for some")
	}
}

func TestAnIdentityIsVerifiedAgainstTheGivenTrustRootAlone(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for name, c := range map[string]struct {
		trust, has offers
		logged     bool
		want       error
		words      string
	}{
		"all is there":               {offers{true, true, true}, offers{log: true, tsa: true}, true, nil, ""},
		"a log, and no clock":        {offers{log: true}, offers{log: true}, false, nil, ""},
		"a clock, and no log":        {offers{tsa: true, certs: true}, offers{tsa: true}, true, nil, ""},
		"not in the log":             {offers{log: true, tsa: true}, offers{tsa: true}, false, verify.ErrBad, "log"},
		"not stamped":                {offers{tsa: true}, offers{log: true}, false, verify.ErrBad, "timestamp"},
		"its certificate not logged": {offers{true, true, true}, offers{log: true, tsa: true}, false, verify.ErrBad, "certificate timestamp"},
	} {
		cert, key := a.leaf(issuer, workflow, c.logged)
		sigs := verify.Signatures{Bundles: [][]byte{a.signBundle(cert, key, statement(digest, approval), c.has)}}
		image := must(verify.Keyless{Issuer: issuer, Identity: workflows, TrustRoot: a.trust(c.trust)}.Image())(t)
		t.Log(name)
		wantVerdict(t, image.Verify(t.Context(), digest, sigs), c.want, c.words)
	}
}

func TestAKeylessSignatureOfSomethingOrSomebodyElseIsRefused(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	all := offers{log: true, tsa: true}
	trust := a.trust(offers{true, true, true})
	image := must(verify.Keyless{Issuer: issuer, Identity: workflows, TrustRoot: trust}.Image())(t)
	bundle := func(a *authority, issuer, identity, digest string) []byte {
		cert, key := a.leaf(issuer, identity, true)
		return a.signBundle(cert, key, statement(digest, approval), all)
	}
	good := bundle(a, issuer, workflow, digest)
	for name, c := range map[string]struct {
		bundle []byte
		want   error
	}{
		"the right one":         {good, nil},
		"another identity":      {bundle(a, issuer, "https://github.com/evil/app/.github/workflows/release.yml@refs/tags/v1", digest), verify.ErrUnknownKey},
		"an identity around it": {bundle(a, issuer, "https://evil.example.com/?"+workflow, digest), verify.ErrUnknownKey},
		"another issuer":        {bundle(a, "https://evil.example.com", workflow, digest), verify.ErrUnknownKey},
		"another image":         {bundle(a, issuer, workflow, other), verify.ErrBad},
		"no bundle":             {[]byte("{}"), verify.ErrMalformed},
		"nothing":               {nil, verify.ErrMalformed},
		"another authority":     {bundle(stranger, issuer, workflow, digest), verify.ErrBad},
		"doctored": {bytes.Replace(good, []byte(base64.StdEncoding.EncodeToString(statement(digest, approval))),
			[]byte(base64.StdEncoding.EncodeToString(statement(digest, approval+"x"))), 1), verify.ErrBad},
	} {
		t.Log(name)
		wantVerdict(t, image.Verify(t.Context(), digest, verify.Signatures{Bundles: [][]byte{c.bundle}}), c.want, "")
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	wantVerdict(t, image.Verify(ended, digest, verify.Signatures{Bundles: [][]byte{good}}), context.Canceled, "")
}

func TestTheOldKeylessFormatIsVerifiedToo(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	image := must(verify.Keyless{Issuer: issuer, Identity: workflow, TrustRoot: a.trust(offers{log: true, certs: true})}.Image())(t)
	cert, key := a.leaf(issuer, workflow, true)
	good := a.signSimple(cert, key, simplePayload(digest))
	judge := func(s verify.Simple) error {
		return image.Verify(t.Context(), digest, verify.Signatures{Simple: []verify.Simple{s}})
	}
	wantVerdict(t, judge(good), nil, "")
	wantVerdict(t, judge(a.signSimple(cert, key, simplePayload(other))), verify.ErrOther, other)

	doctored, unlogged, byKey := good, good, good
	doctored.Payload = append([]byte(" "), good.Payload...)
	unlogged.Bundle, byKey.Certificate = "", ""
	wantVerdict(t, judge(doctored), verify.ErrBad, "")
	wantVerdict(t, judge(unlogged), verify.ErrBad, "log")
	wantVerdict(t, judge(byKey), verify.ErrUnknownKey, "a certificate is wanted")
	for _, broken := range []verify.Simple{
		{Payload: good.Payload, Signature: "%", Certificate: good.Certificate},
		{Payload: good.Payload, Signature: good.Signature, Certificate: "x"},
		{Payload: good.Payload, Signature: good.Signature, Certificate: good.Certificate, Bundle: "{"},
		{Payload: good.Payload, Signature: good.Signature, Certificate: good.Certificate, Bundle: "{}"},
		{Payload: good.Payload, Signature: good.Signature, Certificate: good.Certificate, Timestamp: "x"},
	} {
		wantVerdict(t, judge(broken), verify.ErrMalformed, "")
	}
	someone, theirs := a.leaf(issuer, "https://evil.example.com/", true)
	wantVerdict(t, judge(a.signSimple(someone, theirs, simplePayload(digest))), verify.ErrUnknownKey, "evil.example.com")
}

func TestADemandThatEverybodyOrNobodyMeetsIsRefused(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	trust := a.trust(offers{log: true})
	without := must(root.NewTrustedRoot(root.TrustedRootMediaType01, nil, nil, nil, nil))(t)
	for _, c := range []struct {
		verify.Keyless
		words string
	}{
		{verify.Keyless{Issuer: "", Identity: workflow, TrustRoot: trust}, "want an issuer and an identity"},
		{verify.Keyless{Issuer: issuer, Identity: "", TrustRoot: trust}, "want an issuer and an identity"},
		{verify.Keyless{Issuer: issuer, Identity: "**", TrustRoot: trust}, "want an issuer and an identity"},
		{verify.Keyless{Issuer: issuer, Identity: workflow}, "trust root: not the JSON"},
		{verify.Keyless{Issuer: issuer, Identity: workflow, TrustRoot: []byte("{}")}, "trust root: not the JSON"},
		{verify.Keyless{Issuer: issuer, Identity: workflow, TrustRoot: must(without.MarshalJSON())(t)}, "names no certificate authority"},
		{verify.Keyless{Issuer: issuer, Identity: workflow, TrustRoot: a.trust(offers{certs: true})}, "names neither a transparency log nor"},
	} {
		if image, err := c.Image(); image != nil || err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s %s: got %v, want %q", c.Issuer, c.Identity, err, c.words)
		}
	}
}
