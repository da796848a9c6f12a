// Package install owns what is checked of the ways in which people and CIs get a release: install.sh, the action for GitHub, and the
// configuration for GitLab, by real shells and real programs from a real server on this machine.
package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/tools/release/attest"
)

// script is what is tested.
var script = filepath.Join("..", "..", "install.sh")

// tools are all the programs that the script may call, besides one that fetches, one that computes digests, and cosign.
var tools = []string{"cat", "chmod", "cut", "grep", "gzip", "head", "mkdir", "mktemp", "mv", "rm", "sed", "sort", "tar", "tr", "uname"}

// machine is somebody's: a home, a shell, and the programs that are in PATH there.
type machine struct {
	t     *testing.T
	home  string
	shell []string
	bin   string
	env   []string
}

// newMachine has what most have: dash, GNU's programs, curl and sha256sum.
func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{t: t, home: filepath.Join(dir, "home"), bin: filepath.Join(dir, "bin"), shell: []string{needs.Program(t, "dash", "dash")}}
	for _, d := range []string{m.home, m.bin} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.has(append([]string{"curl", "sha256sum"}, tools...)...)
	m.env = []string{"HOME=" + m.home, "PATH=" + m.bin}
	return m
}

// newBusybox has a shell and programs that are not GNU's, as systems with musl do.
func newBusybox(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	busybox := needs.Program(t, "busybox", "busybox")
	m.shell = []string{busybox, "sh"}
	for _, name := range append([]string{"sha256sum"}, tools...) {
		m.lacks(name)
		if err := os.Symlink(busybox, filepath.Join(m.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// has puts programs of this machine into PATH.
func (m *machine) has(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if err := os.Symlink(needs.Program(m.t, name, name), filepath.Join(m.bin, name)); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) lacks(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(m.bin, name)); err != nil {
			m.t.Fatal(err)
		}
	}
}

// wget has the machine fetch by GNU's wget, which finds the mirror's authority in its own file.
func (m *machine) wget(s *server) {
	m.lacks("curl")
	m.has("wget")
	m.write(".wgetrc", "ca_certificate = "+s.authority+"\n", 0o600)
}

// stub is a program in PATH that writes its arguments into a file of the home, and ends with a code.
func (m *machine) stub(name string, code int) {
	m.t.Helper()
	text := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$@\" >> '%s'\nexit %d\n", filepath.Join(m.bin, name+".said"), code)
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// said are the arguments that a stub was called with.
func (m *machine) said(name string) []string {
	text, err := os.ReadFile(filepath.Join(m.bin, name+".said"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// write writes a file of the home.
func (m *machine) write(name, text string, mode fs.FileMode) string {
	m.t.Helper()
	file := filepath.Join(m.home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
	return file
}

// command runs install.sh when it is started.
func (m *machine) command(args ...string) *exec.Cmd {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	m.t.Cleanup(cancel)
	at, err := filepath.Abs(script)
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, m.shell[0], append(append(m.shell[1:len(m.shell):len(m.shell)], at), args...)...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = m.env, m.home, time.Second
	return cmd
}

func (m *machine) run(args ...string) (printed string, err error) {
	m.t.Helper()
	out, err := m.command(args...).CombinedOutput()
	return string(out), err
}

// installs runs install.sh, which has to install.
func (m *machine) installs(args ...string) (printed string) {
	m.t.Helper()
	printed, err := m.run(args...)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, printed)
	}
	return printed
}

// refuses runs install.sh, which has to say why it installs nothing, and to leave the home as it was, but for empty folders.
func (m *machine) refuses(why string, args ...string) (printed string) {
	m.t.Helper()
	before := m.files()
	printed, err := m.run(args...)
	if err == nil || !strings.Contains(printed, why) || !strings.Contains(printed, "\n  fix: ") {
		m.t.Errorf("ended with %v, and does not say %q:\n%s", err, why, printed)
	}
	if after := m.files(); after != before {
		m.t.Errorf("files before:\n%s\nafter:\n%s\nafter it printed:\n%s", before, after, printed)
	}
	return printed
}

// files are the names and digests of all files in the home and beside it.
func (m *machine) files() string {
	m.t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Dir(m.home), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Dir(path) == m.bin {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%x  %s\n", sha256.Sum256(content), path)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return all.String()
}

// member is one of an archive. Without a type it is a file with mode 0755.
type member struct {
	name, content, link string
	kind                byte
	mode                int64
}

func pack(t testing.TB, level int, members ...member) []byte {
	t.Helper()
	var packed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&packed, level)
	if err != nil {
		t.Fatal(err)
	}
	tarred := tar.NewWriter(zipped)
	for _, m := range members {
		if m.mode == 0 {
			m.mode = 0o755
		}
		h := &tar.Header{Name: m.name, Typeflag: m.kind, Mode: m.mode, Size: int64(len(m.content)), Linkname: m.link}
		if err := tarred.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tarred.Write([]byte(m.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tarred.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// small is an archive of programs that take no time to move: a plural that says its version, and that a signature is right as long as
// there is a bundle which says so. What it is asked is written beside where it lies.
func small(t testing.TB, version string, more ...member) []byte {
	t.Helper()
	plural := `#!/bin/sh
case "$*" in
version) echo "plural ` + version + ` (go1.26, linux/amd64)" ;;
"version --verify --from "*) echo "$*" > "$HOME/../bin/plural.said"; read -r said < "$4/checksums.txt.sigstore.json"; [ "$said" = right ] ;;
*) exit 2 ;;
esac
`
	return pack(t, gzip.BestSpeed, append([]member{
		{name: "LICENSE", content: "free\n", mode: 0o644},
		{name: "completions/plural.bash", content: "complete\n", mode: 0o644},
		{name: "plural", content: plural},
		{name: "localkube", content: "#!/bin/sh\n"},
	}, more...)...)
}

// realVersion is the release that the real plural is of.
const realVersion = "0.1.0"

// real is the program as a release has it: of a version, which it verifies itself by.
var real = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "plural-release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "plural")
	flags := "-s -w -X github.com/pluralsh/plural/internal/buildinfo.version=" + realVersion
	build := exec.Command("go", "build", "-o", file, "-ldflags", flags, "./cmd/plural")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.ReadFile(file)
})

// realRelease puts a release of the real plural there, in an archive that takes no time to unpack, and install.sh beside it.
func (s *server) realRelease() {
	s.t.Helper()
	plural, err := real()
	if err != nil {
		s.t.Fatal(err)
	}
	packed := pack(s.t, gzip.NoCompression, member{name: "plural", content: string(plural)}, member{name: "localkube", content: "#!/bin/sh\n"})
	s.list(realVersion, packed, plural)
	text, err := os.ReadFile(script)
	if err != nil {
		s.t.Fatal(err)
	}
	s.put("download/v"+realVersion+"/install.sh", text)
}

// archive is what the archive for this machine is called.
func archive(version string) string {
	return fmt.Sprintf("plural_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
}

// server has releases as GitHub has them: it redirects to where the files lie.
type server struct {
	*httptest.Server
	t         *testing.T
	authority string
	// files are by their path below the releases; answers come before them.
	mu      sync.Mutex
	files   map[string][]byte
	answers map[string]http.HandlerFunc
	asked   []string
}

// newServer has no release yet. It speaks HTTPS.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, files: map[string][]byte{}, answers: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Server.Close)
	s.authority = filepath.Join(t.TempDir(), "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// trusts has a machine trust the server's certificate.
func (s *server) trusts(m *machine) *machine {
	m.env = append(m.env, "CURL_CA_BUNDLE="+s.authority)
	return m
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	name, stored := strings.CutPrefix(r.URL.Path, "/stored/")
	if !stored {
		name = strings.TrimPrefix(r.URL.Path, "/releases/")
	}
	s.asked = append(s.asked, name)
	content, has := s.files[name]
	answer := s.answers[name]
	s.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case !has:
		http.NotFound(w, r)
	case !stored:
		http.Redirect(w, r, "/stored/"+name, http.StatusFound)
	default:
		_, _ = w.Write(content)
	}
}

// place is what --from takes.
func (s *server) place() string { return s.URL + "/releases" }

// release puts a release there, whose bundle a plural of small takes for right.
func (s *server) release(version string, packed []byte) { s.list(version, packed, nil) }

// list puts a release there with the digests of its archive and of the program in it.
func (s *server) list(version string, packed, program []byte) {
	sums := fmt.Sprintf("%x  plural_%s_plan9_mips.tar.gz\n%x  %s\n%x  %s\n", sha256.Sum256(nil), version,
		sha256.Sum256(packed), archive(version), sha256.Sum256(program), strings.TrimSuffix(archive(version), ".tar.gz"))
	s.put("download/v"+version+"/"+archive(version), packed)
	s.put("download/v"+version+"/checksums.txt", []byte(sums))
	s.put("download/v"+version+"/checksums.txt.sigstore.json", []byte("right\n"))
	s.put("latest/download/checksums.txt", []byte(sums))
}

func (s *server) put(name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = content
}

func (s *server) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, name)
}

func (s *server) answer(name string, how http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[name] = how
}

// sign signs a release by a key of the mirror's own, as releases are signed, and gives the file of its public key.
func (s *server) sign(version string) (public string) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := cryptoutils.MarshalPrivateKeyToPEM(key)
	if err != nil {
		s.t.Fatal(err)
	}
	signer, err := attest.KeySigner(private, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	bundle, err := signer.Blob(s.t.Context(), s.files["download/v"+version+"/checksums.txt"])
	if err != nil {
		s.t.Fatal(err)
	}
	s.put("download/v"+version+"/checksums.txt.sigstore.json", bundle)
	text, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	public = filepath.Join(s.t.TempDir(), "mirror.pub")
	if err := os.WriteFile(public, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return public
}

// openServer has no TLS.
func openServer(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}
