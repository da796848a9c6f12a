package install

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "<!DOCTYPE html><html><body>404 Not Found</body></html>\n"

// html is what some mirrors and proxies say of a file that is not there: a page, as if all were well.
func html(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte(page))
}

// old has a machine with a release installed, which has to stay whatever else comes.
func old(t *testing.T, s *server) *machine {
	t.Helper()
	m := s.trusts(newMachine(t))
	m.write(".local/bin/plural", "#!/bin/sh\necho 'plural 1.0.0 (go1.26, linux/amd64)'\n", 0o755)
	m.write(".local/bin/localkube", "#!/bin/sh\n", 0o755)
	return m
}

func TestWhatIsNotTheReleaseIsRefused(t *testing.T) {
	const (
		at       = "download/v1.2.3/"
		sums     = at + "checksums.txt"
		bundle   = sums + ".sigstore.json"
		newest   = "latest/download/checksums.txt"
		another  = "is not the file that checksums.txt lists"
		unsigned = "the signature of checksums.txt is not right"
		useless  = "no plural and localkube"
	)
	archive := archive("1.2.3")
	programs := func(plural, localkube string) func(s *server) {
		return func(s *server) {
			s.release("1.2.3", pack(s.t, gzip.BestSpeed, member{name: "plural", content: plural}, member{name: "localkube", content: localkube}))
		}
	}
	for name, tc := range map[string]struct {
		change func(s *server)
		why    string
	}{
		"another archive":            {func(s *server) { s.put(at+archive, small(s.t, "6.6.6")) }, another},
		"an archive with one more":   {func(s *server) { s.put(at+archive, append(small(s.t, "1.2.3"), 0)) }, another},
		"half an archive":            {func(s *server) { s.put(at+archive, s.files[at+archive][:200]) }, another},
		"an empty archive":           {func(s *server) { s.put(at+archive, nil) }, another},
		"a page for the archive":     {func(s *server) { s.answer(at+archive, html) }, another},
		"no archive":                 {func(s *server) { s.remove(at + archive) }, "cannot fetch"},
		"an archive that breaks off": {func(s *server) { s.answer(at+archive, breaksOff(s.files[at+archive])) }, "cannot fetch"},
		"an error for the archive":   {func(s *server) { s.answer(at+archive, badGateway) }, "cannot fetch"},
		"a page for the checksums":   {func(s *server) { s.answer(sums, html) }, "does not list " + archive},
		"no checksums":               {func(s *server) { s.remove(sums) }, "does not list " + archive},
		"two archives of one name":   {func(s *server) { s.put(sums, append(named(s, "1.2.3"), named(s, "1.2.3")...)) }, another},
		"a page for the newest":      {func(s *server) { s.answer(newest, html) }, "no release for"},
		"two that are the newest":    {func(s *server) { s.put(newest, append(named(s, "1.2.3"), named(s, "1.2.4")...)) }, "no release for"},
		"a version that is a path":   {func(s *server) { s.put(newest, named(s, "1/../../x")) }, "no release for"},
		"a version that is a word":   {func(s *server) { s.put(newest, named(s, "1$(id)")) }, "no release for"},
		"a page for the signature":   {func(s *server) { s.answer(bundle, html) }, unsigned},
		"an empty signature":         {func(s *server) { s.put(bundle, nil) }, unsigned},
		"no signature":               {func(s *server) { s.remove(bundle) }, "has no signature"},
		"a plural of others":         {programs("\x7fELF", "x"), useless},
		"a program of no bytes":      {programs("#!/bin/sh\n", ""), useless},
		"no plural inside": {func(s *server) {
			s.release("1.2.3", pack(s.t, gzip.BestSpeed, member{name: "localkube", content: "x"}))
		}, useless},
		"an archive that is none": {func(s *server) { s.release("1.2.3", []byte(page)) }, useless},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.release("1.2.3", small(t, "1.2.3"))
			tc.change(s)
			old(t, s).refuses(tc.why, "--from", s.place())
			m := old(t, s)
			m.wget(s)
			m.refuses(tc.why, "--from", s.place())
		})
	}
}

// named is a list whose archive is of a version that is none.
func named(s *server, version string) []byte {
	return []byte(strings.ReplaceAll(string(s.files["latest/download/checksums.txt"]), "1.2.3", version))
}

func badGateway(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }

// breaksOff answers with less than it says it will.
func breaksOff(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:len(content)/2])
		panic(http.ErrAbortHandler)
	}
}

// An archive cannot write but two files, whatever it has: links, names that lead elsewhere, devices. Its digest and signature are
// right here, as those of a mirror are that somebody has taken over.
func TestTricksOfArchivesAreRefused(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	good := []member{{name: "plural", content: "#!/bin/sh\n"}, {name: "localkube", content: "#!/bin/sh\n"}}
	for name, members := range map[string][]member{
		"a link for the program":        {{name: "plural", kind: '2', link: outside}, {name: "plural", content: "#!/bin/sh\n"}, good[1]},
		"a link that is the program":    {{name: "plural", kind: '2', link: "/bin/sh"}, good[1]},
		"a folder that is a link":       {{name: "man", kind: '2', link: filepath.Dir(outside)}, {name: "man/outside"}, good[0], good[1]},
		"a hard link":                   {good[0], good[1], {name: "x", kind: '1', link: "plural"}},
		"a hard link to the outside":    {{name: "plural", kind: '1', link: "/etc/hostname"}, good[1]},
		"an absolute name":              {good[0], good[1], {name: outside, content: "x"}},
		"a name that leads up":          {good[0], good[1], {name: "../../../../../../outside", content: "x"}},
		"a name that leads up and down": {good[0], good[1], {name: "man/../../../outside", content: "x"}},
		"a name with a newline":         {good[0], good[1], {name: "man/x\n/outside", content: "x"}},
		"a name that is a flag":         {good[0], good[1], {name: "--to-command=touch", content: "x"}},
		"a device":                      {good[0], good[1], {name: "null", kind: '3'}},
		"a pipe":                        {good[0], {name: "localkube", kind: '6'}},
	} {
		for shell, make := range map[string]func(*testing.T) *machine{"dash": newMachine, "busybox": newBusybox} {
			t.Run(name+" "+shell, func(t *testing.T) {
				t.Parallel()
				s := newServer(t)
				s.release("1.2.3", pack(t, gzip.BestSpeed, members...))
				m := s.trusts(make(t))
				m.stub("cosign", 0)
				m.refuses("has links, or names that lead elsewhere", "--from", s.place())
				if _, err := os.Lstat(outside); err == nil {
					t.Errorf("%s was written", outside)
				}
			})
		}
	}
}

func TestModesOfAnArchiveAreNotTaken(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", pack(t, gzip.BestSpeed,
		member{name: "plural", content: "#!/bin/sh\n", mode: 0o6777}, member{name: "localkube", content: "x", mode: 0o444}))
	m := s.trusts(newMachine(t))
	m.stub("cosign", 0)
	m.installs("--from", s.place(), "--to", "bin")
	if d := cmp.Diff(both, inBin(t, filepath.Join(m.home, "bin"))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOnlyWhatNobodyCanChangeOnTheWayIsAsked(t *testing.T) {
	s := newServer(t)
	for _, from := range []string{
		"http://example.com/releases", "http://localhost.example.com/releases", "http://127.0.0.1.example.com", "http://127.0.0.10",
		"ftp://127.0.0.1/releases", "file:///releases", "releases", "-o", "http://[::1].example.com",
	} {
		s.trusts(newMachine(t)).refuses("others can change what comes from there", "--from", from)
	}
	for _, from := range []string{"https://ada:hunter2@example.com", "http://localhost:80@example.com", "http://127.0.0.1:1/@example.com"} {
		printed := s.trusts(newMachine(t)).refuses("has a password in it", "--from", from)
		if strings.Contains(printed, "hunter2") {
			t.Errorf("prints the password:\n%s", printed)
		}
	}
}

func TestARedirectionFromHTTPSToHTTPIsNotFollowed(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	asked := false
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = true
		s.ServeHTTP(w, r)
	})
	open := openServer(t, plain)
	s.answer("download/v1.2.3/"+archive("1.2.3"), func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, open+"/stored/download/v1.2.3/"+archive("1.2.3"), http.StatusFound)
	})
	for _, fetcher := range []string{"curl", "wget"} {
		m := s.trusts(newMachine(t))
		if fetcher == "wget" {
			m.wget(s)
		}
		m.refuses("cannot fetch", "--from", s.place())
		if asked {
			t.Errorf("%s went on without TLS", fetcher)
		}
	}
	// Without TLS it asks this machine alone, and there follows nothing that leads away.
	m := newMachine(t)
	m.refuses("no release for", "--from", open+"/releases")
}

func TestACertificateOfOthersIsRefused(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	newMachine(t).refuses("no release for", "--from", s.place())
	m := newMachine(t)
	m.lacks("curl")
	m.has("wget")
	m.refuses("no release for", "--from", s.place())
}

func TestWithoutASignatureNothingIsInstalledUnlessAskedFor(t *testing.T) {
	for _, by := range []string{"cosign", "itself"} {
		s := newServer(t)
		s.release("1.2.3", small(t, "1.2.3"))
		m := old(t, s)
		if by == "cosign" {
			m.stub("cosign", 1)
		}
		s.put("download/v1.2.3/checksums.txt.sigstore.json", []byte("wrong\n"))
		m.refuses("the signature of checksums.txt is not right", "--from", s.place(), "--unsigned") // it has one
		s.remove("download/v1.2.3/checksums.txt.sigstore.json")
		m.refuses("--unsigned", "--from", s.place())
		if printed := m.installs("--from", s.place(), "--unsigned"); !strings.Contains(printed, "verified by nobody") {
			t.Errorf("it says\n%s", printed)
		}
	}
}

// A stub stands for cosign, which would fetch the roots of sigstore from the internet: what it is asked is what matters. The real one, and
// the key of a mirror, are in cosign_test.go.
func TestCosignIsAskedForTheWorkflowOfTheProjectAtThisVersion(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	for _, tc := range []struct{ args, want []string }{
		{nil, []string{
			"--certificate-identity", "https://github.com/pluralsh/plural/.github/workflows/release.yaml@refs/tags/v1.2.3",
			"--certificate-oidc-issuer", "https://token.actions.githubusercontent.com",
		}},
		{[]string{"--key", s.authority}, []string{"--key", s.authority, "--insecure-ignore-tlog"}},
	} {
		m := s.trusts(newMachine(t))
		m.stub("cosign", 0)
		m.installs(append([]string{"--from", s.place(), "--to", "bin"}, tc.args...)...)
		said := m.said("cosign")
		for i, word := range said {
			if strings.Contains(word, "/.plural-install.") {
				said[i] = filepath.Base(word)
			}
		}
		want := append(append([]string{"verify-blob", "--bundle", "checksums.txt.sigstore.json"}, tc.want...), "checksums.txt")
		if d := cmp.Diff(want, said); d != "" {
			t.Errorf("cosign was asked (-want +got):\n%s", d)
		}
	}
	m := s.trusts(newMachine(t))
	m.stub("cosign", 1)
	before := len(s.asked)
	m.refuses("the signature of checksums.txt is not right", "--from", s.place())
	for _, name := range s.asked[before:] {
		if strings.HasSuffix(name, ".tar.gz") {
			t.Error("fetches the archive of a list that nobody signed")
		}
	}
}

// The plural here is a script, which tells what it was asked; install_test.go has the real one.
func TestWithoutCosignThePluralThatCameVerifiesItselfAndSaysWhatThatIsWorth(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	m := s.trusts(newMachine(t))
	key := m.write("mirror.pub", "key", 0o600)
	for _, args := range [][]string{nil, {"--key", key}} {
		printed := m.installs(append([]string{"--from", s.place(), "--to", "bin"}, args...)...)
		if !strings.Contains(printed, "verified by itself: that is as good as the place it came from") {
			t.Errorf("it says\n%s", printed)
		}
		said := strings.Fields(strings.Join(m.said("plural"), " "))
		if len(said) < 4 || !strings.HasPrefix(said[3], filepath.Join(m.home, "bin")+"/.plural-install.") {
			t.Fatalf("it was asked %q", said)
		}
		said[3] = "DIR"
		if d := cmp.Diff(append([]string{"version", "--verify", "--from", "DIR"}, args...), said); d != "" {
			t.Errorf("it was asked (-want +got):\n%s", d)
		}
	}
}
