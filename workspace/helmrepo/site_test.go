package helmrepo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pluralsh/plural/workspace/mirror"
)

// pack is a chart's archive; values tells one from another.
func pack(t testing.TB, name, version, values string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for file, content := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: " + version + "\n", "values.yaml": values,
		"templates/app.yaml": "kind: ConfigMap\n", "charts/db-1.0.0.tgz": "an archive in the archive",
	} {
		h := &tar.Header{Name: name + "/" + file, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content)), ModTime: time.Now()}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// site is a web server with files, as charts are published on.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	// index holds the entries of one chart, in order.
	index []string
	// asked are the requests, with the answer's status.
	asked []string
	// answer, if set, may answer instead.
	answer func(w http.ResponseWriter, r *http.Request) bool
}

func serve(t testing.TB) *site {
	t.Helper()
	s := &site{files: map[string][]byte{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

type recordedStatus struct {
	http.ResponseWriter
	status int
}

func (r *recordedStatus) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (s *site) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &recordedStatus{rw, 200}
	defer func() { s.asked = append(s.asked, fmt.Sprint(r.URL.Path, " ", w.status)) }()
	if s.answer != nil && s.answer(w, r) {
		return
	}
	data, ok := s.files[r.URL.Path]
	if strings.HasSuffix(r.URL.Path, "/index.yaml") {
		data, ok = []byte("apiVersion: v1\nentries:\n  podinfo:\n"+strings.Join(s.index, "")), true
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+sum(data)+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// change does something to the site between requests.
func (s *site) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// requests gives and forgets what was asked.
func (s *site) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.asked, ", ")
	s.asked = nil
	return all
}

// publish adds a version, whose archive lies beside the index.
func (s *site) publish(t testing.TB, version, values string) []byte {
	t.Helper()
	data := pack(t, "podinfo", version, values)
	name := "podinfo-" + version + ".tgz"
	s.change(func() { s.files["/charts/"+name] = data })
	s.list(version, name, sum(data))
	return data
}

// list puts an entry into the index, in the place of one of the same version.
func (s *site) list(version, url, digest string) {
	s.remove(version)
	s.change(func() {
		s.index = append(s.index, fmt.Sprintf("  - name: podinfo\n    version: %s\n    digest: %s\n    urls:\n    - %s\n", version, digest, url))
	})
}

func (s *site) remove(version string) {
	s.change(func() {
		for i, entry := range s.index {
			if strings.Contains(entry, "version: "+version+"\n") {
				s.index = append(s.index[:i:i], s.index[i+1:]...)
				return
			}
		}
	})
}

func upstreamOf(t testing.TB, o Options) mirror.Upstream {
	t.Helper()
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

// values is what tells the served version from others.
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
