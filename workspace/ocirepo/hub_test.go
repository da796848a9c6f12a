package ocirepo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/pluralsh/plural/workspace/mirror"
)

// hub is a real registry in this process, with somebody at the door who notes and may refuse.
type hub struct {
	*httptest.Server
	handler http.Handler
	mu      sync.Mutex
	// asked are the requests of everybody but the test's own pushes, with the answer's status.
	asked []string
	// door, if set, may answer instead.
	door func(w http.ResponseWriter, r *http.Request) bool
}

func newHub(t testing.TB, start func(http.Handler) *httptest.Server) *hub {
	t.Helper()
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	h := &hub{handler: ggcr.New(ggcr.Logger(quiet), ggcr.WithReferrersSupport(true))}
	h.Server = start(h)
	h.Config.ErrorLog = quiet
	t.Cleanup(h.Close)
	return h
}

// ownAgent marks the test's own requests.
const ownAgent = "test"

type recordedStatus struct {
	http.ResponseWriter
	status int
}

func (r *recordedStatus) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (h *hub) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Header.Get("User-Agent") == ownAgent {
		h.handler.ServeHTTP(rw, r)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &recordedStatus{rw, 200}
	defer func() {
		path := strings.TrimPrefix(r.URL.Path, "/v2/team/app/")
		if head, hex, ok := strings.Cut(path, "sha256:"); ok {
			path = head + "sha256:" + hex[:4]
		}
		h.asked = append(h.asked, fmt.Sprint(r.Method, " ", path, " ", w.status))
	}()
	if h.door == nil || !h.door(w, r) {
		h.handler.ServeHTTP(w, r)
	}
}

func (h *hub) guard(door func(w http.ResponseWriter, r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.door = door
}

// requests gives and forgets what was asked.
func (h *hub) requests() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := strings.Join(h.asked, ", ")
	h.asked = nil
	return all
}

func (h *hub) url() string { return "oci://" + h.Listener.Addr().String() + "/team/app" }

type agent struct{ base http.RoundTripper }

func (a agent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", ownAgent)
	return a.base.RoundTrip(r)
}

// repository is how the test pushes.
func (h *hub) repository(t testing.TB) *remote.Repository {
	t.Helper()
	repo, err := remote.NewRepository(h.Listener.Addr().String() + "/team/app")
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = h.TLS == nil
	repo.Client = &http.Client{Transport: agent{h.Client().Transport}}
	return repo
}

// part is a layer to be pushed.
type part struct {
	mediaType string
	data      []byte
}

// push puts an artifact under a tag and gives its digest.
func (h *hub) push(t testing.TB, tag, configType string, parts ...part) string {
	t.Helper()
	config := h.blob(t, part{configType, []byte("{}")})
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{}}
	m.SchemaVersion = 2
	for _, p := range parts {
		m.Layers = append(m.Layers, h.blob(t, p))
	}
	return h.manifest(t, tag, m)
}

func (h *hub) blob(t testing.TB, p part) ocispec.Descriptor {
	t.Helper()
	d := ocispec.Descriptor{MediaType: p.mediaType, Digest: digest.FromBytes(p.data), Size: int64(len(p.data))}
	if err := h.repository(t).Blobs().Push(context.Background(), d, bytes.NewReader(p.data)); err != nil {
		t.Fatal(err)
	}
	return d
}

func (h *hub) manifest(t testing.TB, tag string, m ocispec.Manifest) string {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	d := ocispec.Descriptor{MediaType: m.MediaType, Digest: digest.FromBytes(text), Size: int64(len(text))}
	if err := h.repository(t).Manifests().PushReference(context.Background(), d, bytes.NewReader(text), tag); err != nil {
		t.Fatal(err)
	}
	return d.Digest.String()
}

func (h *hub) pushChart(t testing.TB, tag, values string) string {
	t.Helper()
	return h.push(t, tag, chartConfig, part{
		chartLayer,
		zipped(t, "app/Chart.yaml", "name: app\nversion: "+versionOf(tag)+"\n", "app/values.yaml", values),
	},
		part{"application/vnd.cncf.helm.chart.provenance.v1.prov", []byte("signed")})
}

// zipped is a gzipped tar file of names and contents.
func zipped(t testing.TB, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(tarred(t, files...)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func tarred(t testing.TB, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (h *hub) upstream(t testing.TB, o Options) mirror.Upstream {
	t.Helper()
	o.URL, o.PlainHTTP = h.url(), h.TLS == nil
	u, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func emptyMirror(t testing.TB) *mirror.Mirror {
	t.Helper()
	m, err := mirror.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func fetchAll(t testing.TB, m *mirror.Mirror, u mirror.Upstream, refs ...string) error {
	t.Helper()
	_, err := m.Fetch(t.Context(), u, refs)
	return err
}

func mustFetch(t testing.TB, m *mirror.Mirror, u mirror.Upstream, refs ...string) {
	t.Helper()
	if err := fetchAll(t, m, u, refs...); err != nil {
		t.Fatal(err)
	}
}

// values is what tells the served artifact from others.
func values(t testing.TB, m *mirror.Mirror, ref string) string {
	t.Helper()
	snap, err := m.Snapshot(ref)
	if err != nil {
		t.Fatal(err)
	}
	data, err := fs.ReadFile(snap.FS(), "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
