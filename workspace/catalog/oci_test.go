package catalog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/archive"
	"github.com/pluralsh/plural/workspace/ocirepo"
	"github.com/pluralsh/plural/workspace/packages"
)

// hub is a real registry in this process, with a door that may answer instead.
type hub struct {
	*httptest.Server
	handler http.Handler
	mu      sync.Mutex
	asked   int
	door    func(w http.ResponseWriter, r *http.Request) bool
}

func newHub(t *testing.T, start func(http.Handler) *httptest.Server) *hub {
	t.Helper()
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	h := &hub{handler: ggcr.New(ggcr.Logger(quiet), ggcr.WithReferrersSupport(true))}
	h.Server = start(h)
	h.Config.ErrorLog = quiet
	t.Cleanup(h.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked++
	door := h.door
	h.mu.Unlock()
	if door == nil || !door(w, r) {
		h.handler.ServeHTTP(w, r)
	}
}

func (h *hub) guard(door func(w http.ResponseWriter, r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.door = door
}

// requests gives and forgets how many there were.
func (h *hub) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.asked
	h.asked = 0
	return n
}

func (h *hub) options() OCIOptions {
	o := OCIOptions{URL: "oci://" + h.Listener.Addr().String() + "/team/packages", PlainHTTP: h.TLS == nil}
	if h.TLS != nil {
		o.Credentials.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	}
	return o
}

func (h *hub) publish(t *testing.T, files fstest.MapFS, change ...func(*PublishOptions)) *Published {
	t.Helper()
	o := PublishOptions{OCIOptions: h.options()}
	for _, each := range change {
		each(&o)
	}
	p, err := Publish(t.Context(), files, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (h *hub) catalog(t *testing.T, change ...func(*OCIOptions)) Catalog {
	t.Helper()
	o := h.options()
	for _, each := range change {
		each(&o)
	}
	c, err := OCI("team", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// repository is for pushing what Publish would not.
func (h *hub) repository(t *testing.T) *ocirepo.Repository {
	t.Helper()
	r, err := ocirepo.Open(h.options())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func withKey(key, password []byte) func(*PublishOptions) {
	return func(o *PublishOptions) { o.Key, o.Password = key, password }
}

func force(o *PublishOptions) { o.Force = true }

func TestWhatIsPublishedIsFoundAndOpened(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, start)
			old, now := content("web-app", "1.9.0", ""), content("web-app", "1.10.0", "  description: a web app\n  home: https://example.com\n")
			now["app/files/more.txt"] = &fstest.MapFile{Data: []byte("text")}
			h.publish(t, old)
			got := h.publish(t, now)
			digest, err := packages.Digest(now)
			if err != nil || got.Digest != digest || got.Tag != "web-app_1.10.0" || got.Existed {
				t.Errorf("published %+v, %v", got, err)
			}
			h.publish(t, content("db", "1.0.0", "  questions: [{name: size, type: enum, options: [small, large], default: small}, {name: replicas, type: int, default: 1, min: 1, max: 9}]\n"))
			c := h.catalog(t)
			names, err := c.Packages(t.Context())
			if err != nil || strings.Join(names, " ") != "db web-app" {
				t.Errorf("packages %v, %v", names, err)
			}
			if got := listed(t, c, "web-app"); got != "1.10.0, 1.9.0" {
				t.Errorf("versions %s", got)
			}
			opened(t, c, "web-app", "1.9.0", old)
			opened(t, c, "web-app", "1.10.0", now)
			if got := listed(t, c, "db") + listed(t, c, "nothing"); got != "1.0.0" {
				t.Errorf("versions %s", got)
			}
			var none *NotFoundError
			if _, err := c.Open(t.Context(), "web-app", "2.0.0"); !errors.As(err, &none) || none.Has[0] != "1.10.0" {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTheSameFilesGiveTheSameManifestInAnyRegistry(t *testing.T) {
	t.Parallel()
	var manifests []string
	for range 2 {
		h := newHub(t, httptest.NewServer)
		files := content("web", "1.0.0", "")
		files["app/service.yaml"].ModTime = time.Now()
		manifests = append(manifests, h.publish(t, files).Manifest)
		if again := h.publish(t, files); !again.Existed || again.Manifest != manifests[0] {
			t.Errorf("published again: %+v", again)
		}
	}
	if manifests[0] != manifests[1] {
		t.Errorf("manifests %v", manifests)
	}
}

func TestAVersionIsNotReplacedUnlessByForce(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	first := h.publish(t, content("web", "1.0.0", ""))
	other := content("web", "1.0.0", "  description: another\n")
	_, err := Publish(t.Context(), other, PublishOptions{OCIOptions: h.options()})
	var exists *ExistsError
	if !errors.As(err, &exists) || exists.Have != first.Digest || !strings.Contains(err.Error(), "raise spec.version") {
		t.Fatalf("%v", err)
	}
	opened(t, h.catalog(t), "web", "1.0.0", content("web", "1.0.0", ""))
	if again := h.publish(t, other, force); again.Existed || again.Digest == first.Digest {
		t.Errorf("%+v", again)
	}
	opened(t, h.catalog(t), "web", "1.0.0", other)
}

func TestTheRegistryIsAskedOnceForEachThing(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		h.publish(t, content("web", version, ""))
	}
	c := h.catalog(t)
	now := time.Now()
	c.(*oci).now = func() time.Time { return now }
	h.requests()
	listed(t, c, "web")
	if got := h.requests(); got != 1+3*3 {
		t.Errorf("%d requests: the tags, and of each version its digest, manifest and config", got)
	}
	listed(t, c, "web")
	opened(t, c, "web", "1.1.0", content("web", "1.1.0", ""))
	if got := h.requests(); got != 1 {
		t.Errorf("%d requests: one layer", got)
	}
	h.publish(t, content("web", "1.3.0", ""))
	h.requests()
	now = now.Add(lookLasts)
	if got := listed(t, c, "web"); !strings.HasPrefix(got, "1.3.0, ") {
		t.Error(got)
	}
	if got := h.requests(); got != 1+4+2 {
		t.Errorf("%d requests: the tags, four digests, and what is new of one", got)
	}
}

// keys are somebody's private key, and what trusts it.
type keys struct {
	private, password []byte
	trust             verify.Image
}

func newKeys(t *testing.T, private crypto.Signer, password string) keys {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	trust, err := verify.ParseKeys(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	k := keys{password: []byte(password), trust: trust}
	if password != "" {
		locked, err := cryptoutils.MarshalPrivateKeyToEncryptedDER(private, func(bool) ([]byte, error) { return k.password, nil })
		if err != nil {
			t.Fatal(err)
		}
		k.private = cryptoutils.PEMEncode(cryptoutils.EncryptedSigstorePrivateKeyPEMType, locked)
		return k
	}
	if k.private, err = cryptoutils.MarshalPrivateKeyToPEM(private); err != nil {
		t.Fatal(err)
	}
	return k
}

func newECDSA(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func trusting(image verify.Image) func(*OCIOptions) {
	return func(o *OCIOptions) { o.Verify = image }
}

func TestWhatIsSignedIsBelievedByItsKey(t *testing.T) {
	t.Parallel()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger := newKeys(t, newECDSA(t, elliptic.P256()), "")
	for name, k := range map[string]keys{
		"Ed25519": newKeys(t, ed, ""), "P-256": newKeys(t, newECDSA(t, elliptic.P256()), ""), "P-384": newKeys(t, newECDSA(t, elliptic.P384()), ""),
		"locked": newKeys(t, newECDSA(t, elliptic.P256()), "s3cret"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, httptest.NewServer)
			files := content("web", "1.0.0", "")
			h.publish(t, files)
			if got := listed(t, h.catalog(t, trusting(k.trust)), "web"); !strings.Contains(got, "web 1.0.0 is not taken") || !strings.Contains(got, "not signed") {
				t.Errorf("without a signature: %s", got)
			}
			h.publish(t, files, withKey(stranger.private, nil))
			c := h.catalog(t, trusting(k.trust))
			if _, err := c.Open(t.Context(), "web", "1.0.0"); !errors.Is(err, verify.ErrUnknownKey) {
				t.Errorf("by a stranger: %v", err)
			}
			if got := h.publish(t, files, withKey(k.private, k.password)); !got.Existed {
				t.Errorf("signed later: %+v", got)
			}
			opened(t, c, "web", "1.0.0", files)
			opened(t, h.catalog(t, trusting(stranger.trust)), "web", "1.0.0", files)
			// What reads charts and other artifacts believes it too.
			if d, err := h.repository(t).Resolve(t.Context(), "web_1.0.0"); err != nil {
				t.Error(err)
			} else if o := h.options(); true {
				o.Verify = k.trust
				r, err := ocirepo.Open(o)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Verify(t.Context(), d); err != nil {
					t.Error(err)
				}
			}
			h.publish(t, files, withKey(k.private, k.password))
			if m := h.signatures(t, "web_1.0.0"); len(m.Layers) != 2 {
				t.Errorf("%d signatures: each key signs once", len(m.Layers))
			}
		})
	}
}

func (h *hub) signatures(t *testing.T, tag string) ocispec.Manifest {
	t.Helper()
	r := h.repository(t)
	d, err := r.Resolve(t.Context(), tag)
	if err == nil {
		d, err = r.Resolve(t.Context(), ocirepo.SignatureTag(d.Digest.String()))
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Manifest(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAKeyThatCannotSignIsToldAndNotShown(t *testing.T) {
	t.Parallel()
	locked := newKeys(t, newECDSA(t, elliptic.P256()), "s3cret")
	short := newKeys(t, newECDSA(t, elliptic.P256()), "")
	for name, tc := range map[string]struct {
		key, password []byte
		want          string
	}{
		"locked":         {locked.private, nil, "give its password"},
		"wrong password": {locked.private, []byte("wr0ng"), "cannot be read"},
		"nonsense":       {[]byte("canary-of-a-key"), nil, "cannot be read"},
		"damaged":        {short.private[:len(short.private)/2], nil, "cannot be read"},
		"P-224":          {newUnfit(t), nil, "Ed25519, or ECDSA on P-256 or P-384"},
	} {
		// Nothing is asked of the registry, which is not there.
		o := PublishOptions{OCIOptions: OCIOptions{URL: "oci://127.0.0.1:1/x", PlainHTTP: true}, Key: tc.key, Password: tc.password}
		_, err := Publish(t.Context(), content("web", "1.0.0", ""), o)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func newUnfit(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(newECDSA(t, elliptic.P224()))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func TestARegistryThatIsAwayOrRefusesIsTold(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.publish(t, content("web", "1.0.0", ""))
	answer := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(code)
			return true
		}
	}
	password := func(o *OCIOptions) {
		o.Credentials = httpclient.Credentials{Username: "me", Password: "s3cr3t-word"}
	}
	for name, tc := range map[string]struct {
		door   func(http.ResponseWriter, *http.Request) bool
		change func(*OCIOptions)
		want   string
	}{
		"401":                 {answer(401), func(*OCIOptions) {}, "401 Unauthorized: no credentials were given for it"},
		"401 with a password": {answer(401), password, "401 Unauthorized: the credentials given (username, password) are not good for this"},
		"403":                 {answer(403), password, "403 Forbidden: the credentials given"},
		"404":                 {answer(404), func(*OCIOptions) {}, "a repository is made when the first package is published to it"},
		"500":                 {answer(500), func(*OCIOptions) {}, "500 Internal Server Error"},
		"only tags": {func(w http.ResponseWriter, r *http.Request) bool {
			return !strings.HasSuffix(r.URL.Path, "/tags/list") && answer(500)(w, r)
		}, func(*OCIOptions) {}, "500 Internal Server Error"},
	} {
		h.guard(tc.door)
		c := h.catalog(t, tc.change)
		_, err := c.Versions(t.Context(), "web")
		var failed *CatalogError
		if !errors.As(err, &failed) || failed.Catalog != "team" || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Open(t.Context(), "web", "1.0.0"); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	h.guard(nil)
	c := h.catalog(t)
	h.Close()
	var failed *CatalogError
	if _, err := c.Packages(t.Context()); !errors.As(err, &failed) || !strings.HasSuffix(err.Error(), "connection refused") ||
		!strings.Contains(failed.Fix(), "reachable from here") {
		t.Errorf("%v", err)
	}
	_, err := Publish(t.Context(), content("web", "1.0.0", ""), PublishOptions{OCIOptions: h.options()})
	if err == nil || !strings.Contains(err.Error(), "publish web_1.0.0: ") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := newHub(t, httptest.NewServer).catalog(t).Versions(ended, "web"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestACatalogBehindAPasswordIsReadWithIt(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewTLSServer)
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "me" && password == "s3cr3t-word" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	login := func(o *OCIOptions) { o.Credentials.Username, o.Credentials.Password = "me", "s3cr3t-word" }
	files := content("web", "1.0.0", "")
	h.publish(t, files, func(o *PublishOptions) { login(&o.OCIOptions) })
	opened(t, h.catalog(t, login), "web", "1.0.0", files)
}

// artifact pushes what a stranger could, under web_1.0.0.
func (h *hub) artifact(t *testing.T, config, layer []byte, change func(*ocispec.Manifest)) {
	t.Helper()
	p, digest, err := examine(content("web", "1.0.0", ""))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := pack(content("web", "1.0.0", ""), p, digest)
	if err != nil {
		t.Fatal(err)
	}
	if config == nil {
		config = parts.configText
	}
	if layer == nil {
		layer = parts.layerBytes
	}
	m := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, Config: describe(configType, config),
		Layers: []ocispec.Descriptor{describe(layerType, layer)}, Annotations: map[string]string{digestKey: digest},
	}
	m.SchemaVersion = 2
	if change != nil {
		change(&m)
	}
	text := mustJSON(t, m)
	r := h.repository(t)
	for _, err := range []error{
		r.PushBlob(t.Context(), describe(configType, config), config), r.PushBlob(t.Context(), describe(layerType, layer), layer),
		r.PushManifest(t.Context(), describe(ocispec.MediaTypeImageManifest, text), text, "web_1.0.0"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsNoPackageIsNotOpened(t *testing.T) {
	t.Parallel()
	other := content("web", "1.0.0", "  description: another\n")
	otherLayer, err := packFiles(other)
	if err != nil {
		t.Fatal(err)
	}
	bomb := tarred(t, tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: packages.MaxBytes + 1}, io.LimitReader(zeros{}, packages.MaxBytes+1))
	for name, tc := range map[string]struct {
		config, layer []byte
		change        func(*ocispec.Manifest)
		want          string
	}{
		"other files":            {nil, otherLayer, nil, "a version never changes"},
		"no tar":                 {nil, []byte("nonsense of any length at all"), nil, "not a tar file"},
		"path escape":            {nil, tarred(t, tar.Header{Name: "../../etc/passwd", Typeflag: tar.TypeReg}, nil), nil, "not a plain relative path"},
		"link":                   {nil, tarred(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, nil), nil, "a link"},
		"bomb":                   {nil, bomb, nil, "exceeds"},
		"no package inside":      {nil, tarred(t, tar.Header{Name: "a", Typeflag: tar.TypeReg}, nil), nil, "package.yaml: file not found"},
		"config of other files":  {[]byte(strings.Replace(string(mustConfig(t)), "{", `{"spec":{},`, 1)), nil, nil, "package.yaml:"},
		"config of another name": {bytes.ReplaceAll(mustConfig(t), []byte(`"web"`), []byte(`"db"`)), nil, nil, "it says that it is db 1.0.0"},
		"config that says less":  {mustConfigOf(t, other), nil, nil, "its config and its package.yaml differ"},
		"other config type":      {nil, nil, func(m *ocispec.Manifest) { m.Config.MediaType = "application/vnd.cncf.helm.config.v1+json" }, "it is no package"},
		"no digest":              {nil, nil, func(m *ocispec.Manifest) { m.Annotations = nil }, "does not say its digest"},
		"two layers":             {nil, nil, func(m *ocispec.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) }, "2 layers"},
		"huge layer":             {nil, nil, func(m *ocispec.Manifest) { m.Layers[0].Size = archive.DefaultLimits().Packed + 1 }, "more than the limit"},
		"huge config":            {nil, nil, func(m *ocispec.Manifest) { m.Config.Size = packages.MaxFile + 1 }, "more than the limit"},
	} {
		h := newHub(t, httptest.NewServer)
		h.artifact(t, tc.config, tc.layer, tc.change)
		_, err := h.catalog(t).Open(t.Context(), "web", "1.0.0")
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBytesThatARegistryChangedAreNoticed(t *testing.T) {
	t.Parallel()
	h := newHub(t, httptest.NewServer)
	h.publish(t, content("web", "1.0.0", ""))
	c := h.catalog(t)
	listed(t, c, "web")
	h.guard(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || r.Method != http.MethodGet {
			return false
		}
		answer := httptest.NewRecorder()
		h.handler.ServeHTTP(answer, r)
		body := answer.Body.Bytes()
		body[len(body)/2] ^= 1
		_, _ = w.Write(body)
		return true
	})
	if _, err := c.Open(t.Context(), "web", "1.0.0"); err == nil || !strings.Contains(err.Error(), "the registry sent something else than what sha256:") {
		t.Errorf("%v", err)
	}
	if got := listed(t, h.catalog(t), "web"); !strings.Contains(got, "the registry sent something else") {
		t.Error(got)
	}
}

func TestOtherTagsArePassedOver(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{
		"web_1.0.0": "web 1.0.0", "web-app_1.0.0-rc.1": "web-app 1.0.0-rc.1", "web_1.0.0_b.2": "", "latest": "", "web_latest": "", "_1.0.0": "", "Web_1.0.0": "",
		"sha256-" + strings.Repeat("0", 64) + ".sig": "", "web_1": "", "1.0.0": "", "web_1.0.0_a_b": "", "web_v1.0.0": "web v1.0.0",
	} {
		name, version, ok := parseTag(tag)
		if got := strings.TrimSpace(name + " " + version); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v", tag, got, ok)
		}
	}
}

// FuzzTag holds that a tag names one version, and that it is the version's own.
func FuzzTag(f *testing.F) {
	for _, seed := range []string{"web_1.0.0", "web_1.0.0_x", "a_b_c", "_", "web_1.0.0-_1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		name, version, ok := parseTag(tag)
		if ok && tagOf(name, version) != tag {
			t.Errorf("%q is %s %s, whose tag is %q", tag, name, version, tagOf(name, version))
		}
	})
}

func TestAFolderOnDiskIsPublishedAsItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := content("web", "1.0.0", "")
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	h := newHub(t, httptest.NewServer)
	if got, err := Publish(t.Context(), os.DirFS(dir), PublishOptions{OCIOptions: h.options()}); err != nil {
		t.Fatal(err)
	} else if want := newHub(t, httptest.NewServer).publish(t, files); got.Manifest != want.Manifest {
		t.Errorf("%+v, and from memory %+v", got, want)
	}
	if err := os.Symlink("/etc/passwd", dir+"/app/link"); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(t.Context(), os.DirFS(dir), PublishOptions{OCIOptions: h.options()}); err == nil || !strings.Contains(err.Error(), "app/link") {
		t.Errorf("%v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func tarred(t *testing.T, header tar.Header, from io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	header.Mode = 0o644
	err := w.WriteHeader(&header)
	if err == nil && from != nil {
		_, err = io.Copy(w, from)
	}
	if err = errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func mustConfig(t *testing.T) []byte {
	t.Helper()
	return mustConfigOf(t, content("web", "1.0.0", ""))
}

func mustConfigOf(t *testing.T, files fstest.MapFS) []byte {
	t.Helper()
	p, err := packages.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return mustJSON(t, p)
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
