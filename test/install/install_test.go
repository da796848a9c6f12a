package install

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/test/support/needs"
)

// inBin are the names in the folder of programs, as a listing has them.
func inBin(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Mode().String()+" "+e.Name())
	}
	return names
}

var both = []string{"-rwxr-xr-x localkube", "-rwxr-xr-x plural"}

func TestTheRealProgramVerifiesItselfAndIsInstalledWithinThreeSeconds(t *testing.T) {
	s := newServer(t)
	s.realRelease()
	another, key := s.sign(realVersion), s.sign(realVersion)
	m := s.trusts(newMachine(t))
	began := time.Now()
	cmd := m.command("--from", s.place(), "--key", key)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	printed := string(text)
	bin := filepath.Join(m.home, ".local", "bin")
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "plural"), "version").CombinedOutput()
	took := time.Since(began)
	if err != nil || !strings.HasPrefix(string(out), "plural "+realVersion+" ") {
		t.Errorf("plural version: %v\n%s", err, out)
	}
	if d := cmp.Diff(both, inBin(t, bin)); d != "" {
		t.Errorf("%s (-want +got):\n%s", bin, d)
	}
	for _, want := range []string{
		"plural " + realVersion + ", from " + s.place(), "verified: SHA-256 ", "verified by itself",
		"plural completion", `export PATH="` + bin + `:$PATH"`,
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("does not say %q:\n%s", want, printed)
		}
	}
	// On a machine that does other things too, what it took of a processor is what can be held to.
	busy := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("installed and run in %v, %v of a processor", took, busy)
	if busy > 3*time.Second {
		t.Errorf("took %v of a processor", busy)
	}
	const wrong = "the signature of checksums.txt is not right"
	m.refuses(wrong, "--from", s.place()) // the project's workflow has not signed it
	m.refuses(wrong, "--from", s.place(), "--key", another)
	s.put("download/v"+realVersion+"/checksums.txt", append(s.files["download/v"+realVersion+"/checksums.txt"], "\n"...))
	m.refuses(wrong, "--from", s.place(), "--key", key)
}

func TestEveryShellAndEveryFetcherInstalls(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	for name, make := range map[string]func(*testing.T) *machine{
		"dash": newMachine,
		"bash": func(t *testing.T) *machine {
			m := newMachine(t)
			m.shell = []string{needs.Program(t, "bash", "bash"), "--posix"}
			return m
		},
		"busybox": newBusybox,
	} {
		for _, fetcher := range []string{"curl", "wget"} {
			t.Run(name+" "+fetcher, func(t *testing.T) {
				t.Parallel()
				m := s.trusts(make(t))
				if fetcher == "wget" {
					m.wget(s)
				}
				m.installs("--from", s.place())
				if d := cmp.Diff(both, inBin(t, filepath.Join(m.home, ".local", "bin"))); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		}
	}
}

func TestAnyProgramThatComputesDigestsDoes(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	for _, name := range []string{"shasum", "openssl"} {
		t.Run(name, func(t *testing.T) {
			m := s.trusts(newMachine(t))
			m.lacks("sha256sum")
			m.has(name)
			if name == "shasum" {
				m.has("perl") // which it is written in
			}
			m.installs("--from", s.place())
			s.put("download/v1.2.3/"+archive("1.2.3"), small(t, "6.6.6"))
			defer s.release("1.2.3", small(t, "1.2.3"))
			m.refuses("is not the file that checksums.txt lists", "--from", s.place())
		})
	}
	m := s.trusts(newMachine(t))
	m.lacks("sha256sum")
	asked := len(s.asked)
	m.refuses("nothing here computes SHA-256", "--from", s.place())
	if len(s.asked) != asked {
		t.Errorf("asked for %v all the same", s.asked[asked:])
	}
}

func TestWithNothingThatFetchesItSaysSo(t *testing.T) {
	m := newMachine(t)
	m.lacks("curl")
	m.refuses("nothing here can fetch", "--from", "https://127.0.0.1:1")
	m = newBusybox(t)
	m.lacks("curl")
	if err := os.Symlink(m.shell[0], filepath.Join(m.bin, "wget")); err != nil { // it does not look at certificates
		t.Fatal(err)
	}
	m.refuses("nothing here can fetch", "--from", "https://127.0.0.1:1")
}

func TestAFolderIsAMirror(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	m := newMachine(t)
	m.lacks("curl")
	mirror := t.TempDir()
	for name, content := range s.files {
		file := filepath.Join(mirror, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.installs("--from", mirror)
}

func TestPathsWithSpacesAndQuotesAreTakenAsTheyAre(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	key := s.sign("1.2.3")
	s.put("download/v1.2.3/checksums.txt.sigstore.json", []byte("right\n"))
	for _, name := range []string{"my home", `it's "$(touch x)" *`} {
		for _, shell := range []func(*testing.T) *machine{newMachine, newBusybox} {
			m := s.trusts(shell(t))
			odd := filepath.Join(filepath.Dir(m.home), name)
			if err := os.Rename(m.bin, odd); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(m.bin, 0o755); err != nil { // where the plural of small writes what it was asked
				t.Fatal(err)
			}
			itsKey := m.write(name+"/key.pub", "key", 0o600)
			if text, err := os.ReadFile(key); err != nil || os.WriteFile(itsKey, text, 0o600) != nil {
				t.Fatal(err)
			}
			to := filepath.Join(m.home, name, "bin")
			m.env = append(m.env, "PATH="+odd+":"+to)
			printed := m.installs("--from", s.place(), "--to", to, "--key", itsKey)
			if d := cmp.Diff(both, inBin(t, to)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if strings.Contains(printed, "export PATH") {
				t.Errorf("%s is in PATH:\n%s", to, printed)
			}
			m.installs("--from", s.place(), "--to", filepath.Join(name, "other")) // from where it is
			inBin(t, filepath.Join(m.home, name, "other"))
		}
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	m := s.trusts(newMachine(t))
	for _, args := range [][]string{{}, {"--version", "v1.2.3"}} {
		printed := m.installs(append([]string{"--dry-run", "--from", s.place()}, args...)...)
		if !strings.Contains(printed, "plural 1.2.3, from "+s.place()+"/download/v1.2.3/"+archive("1.2.3")+", SHA-256 ") {
			t.Errorf("it says\n%s", printed)
		}
	}
	entries, err := os.ReadDir(m.home)
	if err != nil || len(entries) != 0 {
		t.Errorf("home has %v, %v", entries, err)
	}
	m.refuses("does not list "+archive("1.2.4"), "--dry-run", "--from", s.place(), "--version", "1.2.4")
}

// What a part of the script does is what a download does that breaks off, where it goes to a shell at once.
func TestAPartOfTheScriptDoesNothing(t *testing.T) {
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	end := strings.TrimSuffix(string(text), "\n") // without it, it is whole
	lines := strings.SplitAfter(end, "\n")
	var parts []string
	for i := range lines {
		parts = append(parts, strings.Join(lines[:i], ""))
	}
	for i := len(end) - 300; i < len(end); i++ {
		parts = append(parts, end[:i])
	}
	for _, shell := range []func(*testing.T) *machine{newMachine, newBusybox} {
		m := shell(t)
		m.lacks("curl")
		m.stub("curl", 1)
		pipe := func(part string) string {
			cmd := exec.CommandContext(t.Context(), m.shell[0], m.shell[1:]...)
			cmd.Env, cmd.Dir, cmd.Stdin = m.env, m.home, strings.NewReader(part)
			out, _ := cmd.CombinedOutput() // half a function is a mistake
			return string(out)
		}
		for _, part := range parts {
			out := pipe(part)
			if said := m.said("curl"); said != nil {
				t.Fatalf("%d bytes fetch: %v\n%s", len(part), said, out)
			}
		}
		if entries, err := os.ReadDir(m.home); err != nil || len(entries) != 0 {
			t.Errorf("home has %v, %v", entries, err)
		}
		if out := pipe(string(text)); m.said("curl") == nil {
			t.Errorf("the whole of it does not fetch: did the parts run?\n%s", out)
		}
	}
}

// proxy is one for HTTP. What is asked of it for a host goes to the server.
func proxy(t *testing.T, to string) (url string, passed *atomic.Int32) {
	t.Helper()
	passed = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "example.com:443" {
			http.Error(w, "not by me", http.StatusForbidden)
			return
		}
		passed.Add(1)
		there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		w.WriteHeader(http.StatusOK)
		here, rest, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		go func() { _, _ = io.Copy(there, rest); _ = there.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(here, there)
	}))
	t.Cleanup(server.Close)
	return server.URL, passed
}

func TestAProxyOfTheEnvironmentIsTaken(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	for _, fetcher := range []string{"curl", "wget"} {
		t.Run(fetcher, func(t *testing.T) {
			m := s.trusts(newMachine(t))
			if fetcher == "wget" {
				m.wget(s)
			}
			url, passed := proxy(t, s.Listener.Addr().String())
			m.env = append(m.env, "https_proxy="+url)
			m.installs("--from", "https://example.com/releases") // which is nowhere but behind the proxy
			if passed.Load() == 0 {
				t.Error("nothing went by the proxy")
			}
		})
	}
}

func TestAFolderThatCannotBeWrittenIsSaidToBeThat(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	m := s.trusts(newMachine(t))
	disk := needs.SmallDisk(t, "size=1m")
	m.env = append(m.env, "HOME="+disk)
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	printed := m.refuses("cannot write to "+disk+"/.local/bin", "--from", s.place())
	if !strings.Contains(printed, "--to DIR") {
		t.Errorf("it says\n%s", printed)
	}
	m.installs("--from", s.place(), "--to", filepath.Join(m.home, "bin"))
}

func TestAFullDiskKeepsWhatWasInstalled(t *testing.T) {
	s := newServer(t)
	s.release("1.2.2", small(t, "1.2.2"))
	m := s.trusts(newMachine(t))
	disk := needs.SmallDisk(t, "size=256k")
	to := filepath.Join(disk, "bin")
	m.installs("--from", s.place(), "--to", to)
	s.release("1.2.3", small(t, "1.2.3", member{name: "large", content: strings.Repeat("0123456789", 40<<10)}))
	m.refuses("has no plural and localkube that run here", "--from", s.place(), "--to", to)
	if d := cmp.Diff(both, inBin(t, to)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(to, "plural"), "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "plural 1.2.2 ") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAnInterruptLeavesNothingBehind(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	reached, done := make(chan struct{}), make(chan struct{})
	s.answer("download/v1.2.3/"+archive("1.2.3"), func(w http.ResponseWriter, r *http.Request) {
		close(reached)
		select {
		case <-r.Context().Done():
		case <-done:
		}
	})
	defer close(done)
	m := s.trusts(newMachine(t))
	to := filepath.Join(m.home, "bin")
	cmd := m.command("--from", s.place(), "--to", to)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reached:
	case <-t.Context().Done():
		t.Fatal("it never asks for the archive")
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil { // as a terminal does
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well")
	}
	if names := inBin(t, to); names != nil {
		t.Errorf("left behind: %v", names)
	}
}

func TestTheNewestReplacesNoNewerOne(t *testing.T) {
	for _, tc := range []struct {
		installed, newest string
		refused           bool
	}{
		{"1.3.0", "1.2.9", true},
		{"1.10.0", "1.9.9", true},
		{"2.0.0", "1.99.99", true},
		{"1.2.10", "1.2.9", true},
		{"1.3.0-rc.1", "1.2.9", true},
		{"1.3.0", "1.3.0-rc.1", true},
		{"1.3.0-rc.1", "1.3.0", false},
		{"1.3.0", "1.3.0", false},
		{"1.9.9", "1.10.0", false},
		{"dev", "1.0.0", false},
	} {
		t.Run(tc.installed+" "+tc.newest, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.release(tc.installed, small(t, tc.installed))
			s.release(tc.newest, small(t, tc.newest))
			m := s.trusts(newMachine(t))
			to := filepath.Join(m.home, "bin")
			m.write("bin/plural", "#!/bin/sh\necho 'plural "+tc.installed+" (go1.26, linux/amd64)'\n", 0o755)
			if !tc.refused {
				m.installs("--from", s.place(), "--to", to)
				return
			}
			m.refuses("older than the installed "+tc.installed, "--from", s.place(), "--to", to)
			m.installs("--from", s.place(), "--to", to, "--version", tc.newest)
		})
	}
}

func TestTheScriptIsShortAndHasNothingThatShellcheckFinds(t *testing.T) {
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) > 120 {
		t.Errorf("%d lines are more than anybody looks at before they run it: want 120", len(lines))
	}
	out, err := exec.CommandContext(t.Context(), needs.Program(t, "shellcheck", "shellcheck"), "--severity=style", script).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAMachineThatNoReleaseIsForIsNamed(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	m := s.trusts(newMachine(t))
	m.lacks("uname")
	const solaris = "#!/bin/sh\n[ \"$1\" = -s ] && echo SunOS || echo sparc\n"
	if err := os.WriteFile(filepath.Join(m.bin, "uname"), []byte(solaris), 0o755); err != nil {
		t.Fatal(err)
	}
	m.refuses("no release for sunos/sparc at "+s.place(), "--from", s.place())
}
