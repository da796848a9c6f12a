package ocirepo

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pluralsh/plural/crypto/verify"
)

// signer is somebody with a cosign key, and what trusts it.
type signer struct {
	key  *ecdsa.PrivateKey
	keys *verify.Keys
}

func newSigner(t testing.TB) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := verify.ParseKeys(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	if err != nil {
		t.Fatal(err)
	}
	return &signer{key, keys}
}

func (s *signer) sign(t testing.TB, payload []byte) string {
	t.Helper()
	sum := sha256.Sum256(payload)
	signature, err := s.key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(signature)
}

// signOld leaves what cosign did up to version 2.
func (s *signer) signOld(t testing.TB, h *hub, image string) {
	t.Helper()
	payload := []byte(`{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"` + image +
		`"},"type":"cosign container image signature"},"optional":null}`)
	layer := h.blob(t, part{simpleLayer, payload})
	layer.Annotations = map[string]string{"dev.cosignproject.cosign/signature": s.sign(t, payload)}
	h.manifest(t, strings.Replace(image, ":", "-", 1)+".sig", ocispec.Manifest{
		Versioned: schema2(), MediaType: ocispec.MediaTypeImageManifest,
		Config: h.blob(t, part{ocispec.MediaTypeImageConfig, []byte("{}")}), Layers: []ocispec.Descriptor{layer},
	})
}

// signNew leaves what cosign does since version 3, with an artifact type or without.
func (s *signer) signNew(t testing.TB, h *hub, image ocispec.Descriptor, artifactType string) ocispec.Manifest {
	t.Helper()
	const kind, media = "application/vnd.in-toto+json", "application/vnd.dev.sigstore.bundle.v0.3+json"
	statement := fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"","digest":{"sha256":%q}}],`+
		`"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}`, image.Digest.Encoded())
	signature := s.sign(t, fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(statement), statement))
	bundle := fmt.Sprintf(`{"mediaType":%q,"verificationMaterial":{"publicKey":{"hint":"x"}},`+
		`"dsseEnvelope":{"payload":%q,"payloadType":%q,"signatures":[{"sig":%q}]}}`,
		media, base64.StdEncoding.EncodeToString([]byte(statement)), kind, signature)
	m := ocispec.Manifest{
		Versioned: schema2(), MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType, Subject: &image,
		Config: h.blob(t, part{emptyType, []byte("{}")}), Layers: []ocispec.Descriptor{h.blob(t, part{media, []byte(bundle)})},
	}
	h.manifest(t, "bundle", m)
	return m
}

func schema2() (v specs.Versioned) {
	v.SchemaVersion = 2
	return v
}

func (h *hub) descriptor(t testing.TB, tag string) ocispec.Descriptor {
	t.Helper()
	d, err := h.repository(t).Resolve(t.Context(), tag)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAnUnsignedArtifactIsNotTakenUntilItIsSigned(t *testing.T) {
	t.Parallel()
	for name, sign := range map[string]func(s *signer, h *hub, d ocispec.Descriptor){
		"old": func(s *signer, h *hub, d ocispec.Descriptor) { s.signOld(t, h, d.Digest.String()) },
		"bundle": func(s *signer, h *hub, d ocispec.Descriptor) {
			s.signNew(t, h, d, "application/vnd.dev.sigstore.bundle.v0.3+json")
		},
		"untold": func(s *signer, h *hub, d ocispec.Descriptor) { s.signNew(t, h, d, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, s, stranger := newHub(t, httptest.NewServer), newSigner(t), newSigner(t)
			h.pushChart(t, "1.0.0", "unsigned")
			m, u := emptyMirror(t), h.upstream(t, Options{Verify: s.keys})
			if err := fetchAll(t, m, u, "1.0.0"); !errors.Is(err, verify.ErrUnsigned) || !strings.Contains(err.Error(), "1.0.0@sha256:") {
				t.Fatal(err)
			}
			if got := h.requests(); strings.Contains(got, "blobs/") {
				t.Errorf("what nobody vouches for was brought: %s", got)
			}
			sign(stranger, h, h.descriptor(t, "1.0.0"))
			if err := fetchAll(t, m, u, "1.0.0"); err == nil || errors.Is(err, verify.ErrUnsigned) {
				t.Fatal(err)
			}
			sign(s, h, h.descriptor(t, "1.0.0"))
			mustFetch(t, m, u, "1.0.0", "^1")
			h.requests()
			mustFetch(t, m, u, "1.0.0")
			if got := h.requests(); got != "HEAD manifests/1.0.0 200" || values(t, m, "1.0.0") != "unsigned" {
				t.Errorf("an unchanged tag: %s", got)
			}
			// The next version is signed by nobody: what was good stays, and the reason is told.
			h.pushChart(t, "1.1.0", "next")
			err := fetchAll(t, m, u, "^1")
			if !errors.Is(err, verify.ErrUnsigned) || values(t, m, "^1") != "unsigned" {
				t.Errorf("values %q, error %v", values(t, m, "^1"), err)
			}
			// What was taken in under another policy is judged again.
			u = h.upstream(t, Options{Verify: newSigner(t).keys})
			if err := fetchAll(t, m, u, "1.0.0"); err == nil || values(t, m, "1.0.0") != "unsigned" {
				t.Errorf("with a new policy: %v", err)
			}
		})
	}
}

func TestSignaturesAreFoundWhereARegistryCannotListReferrers(t *testing.T) {
	t.Parallel()
	h, s := newHub(t, httptest.NewServer), newSigner(t)
	h.pushChart(t, "1.0.0", "good")
	d := h.descriptor(t, "1.0.0")
	m := s.signNew(t, h, d, "application/vnd.dev.sigstore.bundle.v0.3+json")
	bundle := h.descriptor(t, "bundle")
	bundle.ArtifactType = m.ArtifactType
	index := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":%d,"artifactType":%q}]}`,
		ocispec.MediaTypeImageIndex, bundle.MediaType, bundle.Digest, bundle.Size, bundle.ArtifactType)
	at := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromString(index), Size: int64(len(index))}
	err := h.repository(t).Manifests().PushReference(t.Context(), at, strings.NewReader(index), strings.Replace(d.Digest.String(), ":", "-", 1))
	if err != nil {
		t.Fatal(err)
	}
	refuse := http.StatusNotFound
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/referrers/") {
			w.WriteHeader(refuse)
			return true
		}
		return false
	})
	mustFetch(t, emptyMirror(t), h.upstream(t, Options{Verify: s.keys}), "1.0.0")
	refuse = http.StatusInternalServerError
	err = fetchAll(t, emptyMirror(t), h.upstream(t, Options{Verify: s.keys}), "1.0.0")
	if err == nil || !strings.Contains(err.Error(), "cannot be listed") {
		t.Error(err)
	}
	// The old form needs no list.
	s.signOld(t, h, d.Digest.String())
	mustFetch(t, emptyMirror(t), h.upstream(t, Options{Verify: s.keys}), "1.0.0")
}

// judge notes what it was given.
type judge func(sigs verify.Signatures) error

func (j judge) Verify(_ context.Context, _ string, sigs verify.Signatures) error { return j(sigs) }

func TestSignaturesAreBoundedInNumberAndSize(t *testing.T) {
	t.Parallel()
	h, s := newHub(t, httptest.NewServer), newSigner(t)
	d := h.pushChart(t, "1.0.0", "good")
	many := ocispec.Manifest{Versioned: schema2(), MediaType: ocispec.MediaTypeImageManifest, Config: h.blob(t, part{emptyType, []byte("{}")})}
	for i := range 200 {
		many.Layers = append(many.Layers, h.blob(t, part{simpleLayer, fmt.Appendf(nil, "payload %d", i)}))
	}
	tag := strings.Replace(d, ":", "-", 1) + ".sig"
	h.manifest(t, tag, many)
	var given verify.Signatures
	u := h.upstream(t, Options{Verify: judge(func(sigs verify.Signatures) error { given = sigs; return s.keys.Verify(t.Context(), d, sigs) })})
	if err := fetchAll(t, emptyMirror(t), u, "1.0.0"); !errors.Is(err, verify.ErrMalformed) || len(given.Simple) != mostSignatures {
		t.Errorf("%d signatures, %v", len(given.Simple), err)
	}
	many.Layers = many.Layers[:1]
	many.Layers[0].Size = 1 << 30
	h.manifest(t, tag, many)
	if err := fetchAll(t, emptyMirror(t), u, "1.0.0"); err == nil || !strings.Contains(err.Error(), "more than the limit") {
		t.Errorf("a large signature: %v", err)
	}
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".sig") {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "no")
			return true
		}
		return false
	})
	if err := fetchAll(t, emptyMirror(t), u, "1.0.0"); err == nil || !strings.Contains(err.Error(), "signatures: 127.0.0.1") {
		t.Errorf("signatures that cannot be had: %v", err)
	}
}

func TestASignedChartStandsUnderNoOthersTag(t *testing.T) {
	t.Parallel()
	h, s := newHub(t, httptest.NewServer), newSigner(t)
	chart := func(tag, name, version string) string {
		d := h.push(t, tag, chartConfig, part{
			chartLayer,
			zipped(t, "x/Chart.yaml", "name: "+name+"\nversion: "+version+"\n", "x/values.yaml", version),
		})
		s.signOld(t, h, d)
		return d
	}
	chart("1.0.0", "app", "1.0.0")
	chart("v1.1.0_arm", "app", "1.1.0+arm")
	older := chart("1.2.0", "app", "1.0.0")
	other := chart("stable", "other", "1.2.0")
	m, u := emptyMirror(t), h.upstream(t, Options{Verify: s.keys})
	mustFetch(t, m, u, "1.0.0", "v1.1.0_arm", older, other)
	for ref, want := range map[string]string{
		"1.2.0":  `version "1.0.0" of the chart, and not 1.2.0`,
		"^1.2":   `version "1.0.0" of the chart, and not 1.2.0`,
		"stable": `chart "other", and not "app"`,
	} {
		if err := fetchAll(t, m, u, ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
	mustFetch(t, emptyMirror(t), h.upstream(t, Options{}), "1.2.0", "stable") // the host is believed

	// A tag that comes to name what was served under another is looked at as well.
	mustFetch(t, m, u, "1.0.x")
	chart("1.0.1", "app", "1.0.0")
	if err := fetchAll(t, m, u, "1.0.x"); err == nil || !strings.Contains(err.Error(), "and not 1.0.1") {
		t.Errorf("%v", err)
	}
}
