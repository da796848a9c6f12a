package dist_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log" //nolint:depguard // the registry of a test takes nothing else
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pluralsh/plural/cli/update"
	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/tools/release/attest"
	"github.com/pluralsh/plural/tools/release/dist"
	"github.com/pluralsh/plural/tools/release/publish"
	"github.com/pluralsh/plural/workspace/ocirepo"
)

const version = "1.2.3"

// source is the clone.
const source = "../../.."

// key is a signer's, and the public half in PEM.
func key(t *testing.T) (signer *attest.Signer, public []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = attest.KeySigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), nil); err != nil {
		t.Fatal(err)
	}
	if text, err = x509.MarshalPKIXPublicKey(&private.PublicKey); err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: text})
}

// built is what goreleaser leaves behind: this test's own program stands for each program, as it is one of Go's that has a page in it.
func built(t *testing.T) *dist.Release {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var artifacts []map[string]any
	add := func(kind, id, name, file, goos, goarch string) {
		artifacts = append(artifacts, map[string]any{
			"type": kind, "name": name, "path": relative(t, file), "goos": goos, "goarch": goarch, "extra": map[string]string{"ID": id},
		})
	}
	for _, id := range []string{"plural", "plural-agent", "localkube"} {
		for _, arch := range []string{"amd64", "arm64"} {
			add("Binary", id, id, self, "linux", arch)
		}
	}
	add("Binary", "plural", "plural", self, "darwin", "arm64")
	for _, name := range []string{"plural_1.2.3_linux_amd64.tar.gz", "plural_1.2.3_linux_amd64.deb"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("packed "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		add("Archive", "plural", name, file, "linux", "amd64")
	}
	text, err := json.Marshal(artifacts)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "artifacts.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &dist.Release{
		Dir: dir, Source: source, Version: version, Registry: "registry.example.com/plural", Created: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
		Build: attest.Build{
			Repository: "https://github.com/pluralsh/plural", Ref: "refs/tags/v1.2.3", Commit: strings.Repeat("ab", 20), Builder: "https://example.com/builder",
		},
	}
}

func relative(t *testing.T, file string) string {
	t.Helper()
	top, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(top, file)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// page is something that this test's program has in it.
var page = []byte("a page that is in the program of this test")

func finish(t *testing.T, r *dist.Release) {
	t.Helper()
	if err := r.Finish(t.Context(), page); err != nil {
		t.Fatal(err)
	}
}

func TestAReleaseIsVerifiedByWhatPeopleVerifyItWith(t *testing.T) {
	r := built(t)
	var public []byte
	r.Signer, public = key(t)
	finish(t, r)
	place := &update.Place{Version: version, From: r.Dir, Key: public}
	sums, err := place.Sums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	self, _ := os.Executable()
	if _, err := sums.Program(self, "plural", version); err != nil {
		t.Error(err)
	}
	if _, err := sums.Program(filepath.Join(r.Dir, "plural_1.2.3_linux_amd64.deb"), "plural", version); !errors.Is(err, update.ErrNotOurs) {
		t.Errorf("another file is verified as the program: %v", err)
	}
	_, other := key(t)
	checksums := filepath.Join(r.Dir, dist.Checksums)
	for name, forge := range map[string]func() *update.Place{
		"another signer":   func() *update.Place { return &update.Place{Version: version, From: r.Dir, Key: other} },
		"no workflow":      func() *update.Place { return &update.Place{Version: version, From: r.Dir} },
		"a pattern":        func() *update.Place { return &update.Place{Version: "*", From: r.Dir} },
		"another checksum": func() *update.Place { change(t, checksums, "0", "1"); return place },
		"no signature": func() *update.Place {
			if err := os.Remove(checksums + dist.BundleSuffix); err != nil {
				t.Fatal(err)
			}
			return place
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := forge().Sums(t.Context()); err == nil {
				t.Error("it is verified")
			}
		})
	}
}

func change(t *testing.T, file, from, to string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheSameProgramsGiveTheSameBytes covers everything but signatures, which are never the same twice.
func TestTheSameProgramsGiveTheSameBytes(t *testing.T) {
	one, other := built(t), built(t)
	finish(t, one)
	finish(t, other)
	a, b := tree(t, one.Dir), tree(t, other.Dir)
	if len(a) < 30 {
		t.Fatalf("a release of %d files", len(a))
	}
	for name := range a {
		if a[name] != b[name] && name != "artifacts.json" {
			t.Errorf("%s differs", name)
		}
	}
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheBillOfMaterialsListsWhatTheToolchainLists(t *testing.T) {
	program := needs.Program(t, helmProgram(t), "make .tools/helm") // one with many modules; a test's own program lists none
	text, err := attest.SBOM(program, version, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		SpecVersion string
		Components  []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bill); err != nil || bill.SpecVersion != "1.6" {
		t.Fatal(bill.SpecVersion, err)
	}
	var got, want []string
	for _, c := range bill.Components {
		got = append(got, c.Name+" "+c.Version)
	}
	for n, line := range strings.Split(string(run(t, "go", "version", "-m", program)), "\n") {
		fields := strings.Fields(line)
		switch {
		case n == 0:
			want = append(want, "stdlib "+strings.TrimPrefix(fields[1], "go"))
		case len(fields) > 2 && (fields[0] == "dep" || fields[0] == "=>"):
			want = append(want, fields[1]+" "+fields[2])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(want) < 50 {
		t.Errorf("got %d: %v, want %d: %v", len(got), got, len(want), want)
	}
}

func TestAReleaseWithoutThePageIsRefused(t *testing.T) {
	r := built(t)
	if err := r.Finish(t.Context(), bytes.Repeat([]byte("another page"), 9)); err == nil || !strings.Contains(err.Error(), "make web") {
		t.Error(err)
	}
	if err := r.Finish(t.Context(), nil); err == nil {
		t.Error("no page is taken")
	}
}

// TestOthersReadTheImages has skopeo and umoci, which share no code with what packs them, read what is packed.
func TestOthersReadTheImages(t *testing.T) {
	needs.Program(t, "skopeo", "skopeo")
	needs.Program(t, "umoci", "umoci")
	r := built(t)
	finish(t, r)
	layout := filepath.Join(r.Dir, "oci/plural")
	out := run(t, "skopeo", "inspect", "--override-arch", "amd64", "--override-os", "linux", "oci:"+layout+":"+version)
	var seen struct {
		Architecture string
		Created      time.Time
		Labels       map[string]string
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatal(err)
	}
	if seen.Architecture != "amd64" || !seen.Created.Equal(r.Created) || seen.Labels["org.opencontainers.image.revision"] != r.Build.Commit {
		t.Errorf("%+v", seen)
	}
	bundle, one := filepath.Join(t.TempDir(), "bundle"), filepath.Join(t.TempDir(), "one")
	run(t, "skopeo", "copy", "--override-arch", "arm64", "--override-os", "linux", "oci:"+layout+":"+version, "oci:"+one+":"+version)
	run(t, "umoci", "unpack", "--rootless", "--image", one+":"+version, bundle)
	self, _ := os.Executable()
	if got, want := digest(t, filepath.Join(bundle, "rootfs/usr/local/bin/plural")), digest(t, self); got != want {
		t.Errorf("the image's program is %s, and the release's %s", got, want)
	}
	text, err := os.ReadFile(filepath.Join(bundle, "rootfs/etc/ssl/certs/ca-certificates.crt"))
	if roots := x509.NewCertPool(); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Errorf("no certificates of authorities: %v", err)
	}
	packed, program := size(t, filepath.Join(layout, "blobs")), size(t, self)
	if packed > 2*(program+1<<20) {
		t.Errorf("two platforms take %d bytes, and the program %d", packed, program)
	}
}

func size(t *testing.T, top string) (sum int64) {
	t.Helper()
	err := filepath.Walk(top, func(_ string, info fs.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func digest(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return out
}

// server is a registry that can fail.
type server struct {
	http.Handler
	// failing is asked before each request.
	failing func(*http.Request) int
	pushed  atomic.Int32 // blobs that came in
}

func (s *server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if s.failing != nil {
		if code := s.failing(q); code != 0 {
			w.WriteHeader(code)
			return
		}
	}
	if q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/blobs/uploads/") {
		s.pushed.Add(1)
	}
	s.Handler.ServeHTTP(w, q)
}

func serve(t *testing.T) (s *server, at string) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	s = &server{Handler: registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))}
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	u, err := url.Parse(listening.URL)
	if err != nil {
		t.Fatal(err)
	}
	return s, u.Host + "/plural"
}

func push(ctx context.Context, r *dist.Release) (names []string, err error) {
	err = r.Push(ctx, true, func(name string, d ocispec.Descriptor) { names = append(names, name+"@"+d.Digest.String()) })
	return names, err
}

// TestWhatIsPushedIsVerifiedAsImagesOfOthersAre reads the registry as the hub and the agent do.
func TestWhatIsPushedIsVerifiedAsImagesOfOthersAre(t *testing.T) {
	_, at := serve(t)
	r := built(t)
	r.Registry = at
	var public []byte
	r.Signer, public = key(t)
	finish(t, r)
	names, err := push(t.Context(), r)
	if err != nil || len(names) != 4 {
		t.Fatal(names, err)
	}
	keys, err := verify.ParseKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, digest, _ := strings.Cut(name, "@")
		name, tag := name[:strings.LastIndex(name, ":")], name[strings.LastIndex(name, ":")+1:]
		repo, err := ocirepo.Open(ocirepo.Options{URL: "oci://" + name, PlainHTTP: true, Verify: keys})
		if err != nil {
			t.Fatal(err)
		}
		d, err := repo.Resolve(t.Context(), tag)
		if err == nil {
			err = repo.Verify(t.Context(), d)
		}
		if err != nil || d.Digest.String() != digest || tag != version {
			t.Errorf("%s is %s: %v", name, d.Digest, err)
		}
	}
	helm := needs.Program(t, helmProgram(t), "make .tools/helm")
	values := run(t, helm, "show", "values", "--plain-http", "oci://"+at+"/charts/plural-hub", "--version", version)
	if image := names[slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, at+"/plural:") })]; !strings.Contains(
		string(values), "digest: "+image[strings.Index(image, "sha256:"):]) {
		t.Errorf("the chart does not name %s:\n%s", image, values)
	}
}

func helmProgram(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(source, ".tools/helm"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAPushThatWasBrokenOffGoesOnWhereItWas(t *testing.T) {
	s, at := serve(t)
	r := built(t)
	r.Registry = at
	finish(t, r)
	s.failing = func(*http.Request) int {
		if s.pushed.Load() >= 2 {
			return http.StatusForbidden
		}
		return 0
	}
	if names, err := push(t.Context(), r); err == nil {
		t.Fatal(names, "it did not fail")
	}
	s.failing = nil
	if tags := tagsOf(t, at+"/plural"); len(tags) != 0 {
		t.Errorf("tags before all is there: %v", tags)
	}
	if _, err := push(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	once := s.pushed.Load()
	if tags := tagsOf(t, at+"/plural"); !slices.Equal(tags, []string{version}) {
		t.Error(tags)
	}
	if _, err := push(t.Context(), r); err != nil || s.pushed.Load() != once {
		t.Errorf("pushed again: %d blobs more, %v", s.pushed.Load()-once, err)
	}
}

func TestARegistryThatIsBusyIsAskedAgain(t *testing.T) {
	s, at := serve(t)
	r := built(t)
	r.Registry = at
	finish(t, r)
	var refused atomic.Int32
	s.failing = func(q *http.Request) int {
		if q.Method == http.MethodPost && refused.Add(1) <= 2 {
			return http.StatusTooManyRequests
		}
		return 0
	}
	if names, err := push(t.Context(), r); err != nil || len(names) != 4 || refused.Load() < 3 {
		t.Error(names, refused.Load(), err)
	}
}

func TestATagThatNamesSomethingElseIsNotMoved(t *testing.T) {
	_, at := serve(t)
	first := built(t)
	first.Registry = at
	finish(t, first)
	if _, err := push(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second := built(t)
	second.Registry, second.Created = at, first.Created.Add(time.Hour)
	finish(t, second)
	if _, err := push(t.Context(), second); !errors.Is(err, publish.ErrMoved) {
		t.Error(err)
	}
}

func tagsOf(t *testing.T, repository string) []string {
	t.Helper()
	repo, err := ocirepo.Open(ocirepo.Options{URL: "oci://" + repository, PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	tags, err := repo.Tags(t.Context())
	if err != nil { // a repository that is not there has none
		return nil
	}
	return tags
}
