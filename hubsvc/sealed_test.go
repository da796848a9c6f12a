package hubsvc

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// logs keeps what the hub logs.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestHubHandsOnWhatItCanNotRead(t *testing.T) {
	s, o := fleetrepo.NewSafe(t), fleetrepo.New(t)
	key, bearer := agent(t, "a")
	otherKey, otherBearer := agent(t, "b")
	files := s.Fleet(key)
	files["clusters/b.yaml"] = fleetrepo.Cluster("b", otherKey)
	files["services/web.yaml"] = strings.Replace(files["services/web.yaml"], "matchLabels: {env: test}", "names: [a]", 1)
	o.Push(files)
	opts, said := options(t, o), new(logs)
	hub := startWith(t, opts, slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	hub.ready()

	poll := hub.poll(bearer())
	web := poll.GetDeployments()[slices.IndexFunc(poll.GetDeployments(), func(d *api.Deployment) bool { return d.GetService() == "web" })]
	want := &api.Secret{Name: "db", Path: "secrets/db.yaml"}
	if len(web.GetSecrets()) != 1 || !proto.Equal(web.GetSecrets()[0], want) || !web.GetOwnRepository() {
		t.Errorf("deployment = %v", web)
	}
	if got := s.Open(poll.GetEnvelopes(), hub.bundle(web.GetSecretsBundle(), bearer()), "secrets/db.yaml"); got != "password: "+fleetrepo.Canary+"\n" {
		t.Errorf("the agent reads %q", got)
	}
	if got := s.Open(poll.GetEnvelopes(), hub.bundle(web.GetBundle(), bearer()), "apps/web/db.secret.yaml"); !strings.Contains(got, fleetrepo.Canary) {
		t.Errorf("the agent reads %q", got)
	}

	if other := hub.poll(otherBearer()); len(other.GetEnvelopes()) != 0 {
		t.Errorf("b gets envelopes: %v", other.GetEnvelopes())
	}
	for _, bundleKey := range []string{web.GetBundle(), web.GetSecretsBundle()} {
		if code, _ := hub.do(http.MethodGet, api.BundlePath+bundleKey, otherBearer(), nil); code != http.StatusNotFound {
			t.Errorf("b fetches %s: %d", bundleKey, code)
		}
	}

	hub.do(http.MethodGet, "/metrics", hub.token, nil)
	hub.status()
	hub.stop()
	for _, secret := range []string{fleetrepo.Canary, strings.Fields(s.Alice.String())[0], s.Cluster.String(), "AGE-SECRET-KEY-"} {
		searchAll(t, filepath.Dir(opts.Data), secret)
		if strings.Contains(said.String(), secret) {
			t.Errorf("the log holds %.12s…", secret)
		}
	}
	if said.String() == "" {
		t.Error("nothing was logged, so nothing was searched")
	}
}

func (r *running) poll(bearer string) *api.Poll {
	r.t.Helper()
	code, body := r.do(http.MethodGet, api.PollPath, bearer, nil)
	poll := new(api.Poll)
	if err := proto.Unmarshal(body, poll); err != nil || code != http.StatusOK {
		r.t.Fatalf("poll: %d, %v", code, err)
	}
	return poll
}

func (r *running) bundle(key, bearer string) *bundle.Files {
	r.t.Helper()
	code, body := r.do(http.MethodGet, api.BundlePath+key, bearer, nil)
	files, err := bundle.Unpack(bytes.NewReader(body), bundle.DefaultLimits())
	if err != nil || code != http.StatusOK {
		r.t.Fatalf("bundle: %d, %v", code, err)
	}
	return files
}

// searchAll looks for a secret in every file below dir: as it is, encoded, and in whatever can be inflated.
func searchAll(t *testing.T, dir, secret string) {
	t.Helper()
	needles := [][]byte{[]byte(secret), []byte(hex.EncodeToString([]byte(secret))), []byte(strings.ToUpper(hex.EncodeToString([]byte(secret))))}
	for shift := range 3 { // base64 looks different at each distance from a multiple of three
		padded := append(make([]byte, shift), secret...)
		encoded := base64.RawStdEncoding.EncodeToString(padded)
		needles = append(needles, []byte(encoded[4:len(encoded)-4]))
	}
	files := 0
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		for _, layer := range inflated(data) {
			for _, needle := range needles {
				if bytes.Contains(layer, needle) {
					t.Errorf("%s holds %.12s…", name, secret)
				}
			}
		}
		return nil
	})
	if err != nil || files < 5 {
		t.Errorf("searched %d files: %v", files, err)
	}
}

// inflated is data, and each stream in it that zlib, gzip or zstd can read. Git's packs hold one stream after another.
func inflated(data []byte) [][]byte {
	layers := [][]byte{data}
	for at := range data {
		var r io.Reader
		var err error
		switch rest := data[at:]; {
		case len(rest) > 2 && rest[0] == 0x78:
			r, err = zlib.NewReader(bytes.NewReader(rest))
		case bytes.HasPrefix(rest, []byte{0x1f, 0x8b}):
			r, err = gzip.NewReader(bytes.NewReader(rest))
		case bytes.HasPrefix(rest, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			r, err = zstd.NewReader(bytes.NewReader(rest), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(16<<20))
		}
		if r == nil || err != nil {
			continue
		}
		layer, _ := io.ReadAll(io.LimitReader(r, 16<<20)) // as far as it goes
		layers = append(layers, layer)
	}
	return layers
}

func TestSearchFindsWhatIsHidden(t *testing.T) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	if _, err := io.WriteString(w, "password: "+fleetrepo.Canary); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layers := inflated(append([]byte("PACK...."), packed.Bytes()...))
	if !slices.ContainsFunc(layers, func(l []byte) bool { return bytes.Contains(l, []byte(fleetrepo.Canary)) }) {
		t.Error("the search overlooks git's packs")
	}
	if diff := cmp.Diff(1, len(inflated([]byte("plain")))); diff != "" {
		t.Error(diff)
	}
}
