//go:build release

package install

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
)

// What is here runs in make release-check, which builds cosign and a release.

// cosign puts the real one into PATH.
func (m *machine) cosign() {
	m.t.Helper()
	built, err := filepath.Abs(filepath.Join("..", "..", ".tools", "cosign"))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(needs.Program(m.t, built, "make .tools/cosign"), filepath.Join(m.bin, "cosign")); err != nil {
		m.t.Fatal(err)
	}
}

func TestTheRealCosignChecksTheKeyOfAMirror(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	another := s.sign("1.2.3")
	key := s.sign("1.2.3")
	m := s.trusts(newMachine(t))
	m.cosign()
	const wrong = "the signature of checksums.txt is not right"
	m.refuses(wrong, "--from", s.place(), "--key", another)
	m.refuses("cannot be read", "--from", s.place(), "--key", another+"s")
	m.installs("--from", s.place(), "--key", key)
	s.put("download/v1.2.3/checksums.txt", append(s.files["download/v1.2.3/checksums.txt"], "\n"...))
	m.refuses(wrong, "--from", s.place(), "--key", key)
}

func TestAReleaseIsInstalledFromAFolderOfItsFiles(t *testing.T) {
	dist, key := os.Getenv("PLURAL_RELEASE"), os.Getenv("PLURAL_RELEASE_KEY")
	if dist == "" || key == "" {
		t.Fatal("no release to install: run make release-check")
	}
	key = strings.TrimSuffix(key, ".key") + ".pub"
	text, err := os.ReadFile(filepath.Join(dist, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct{ Version string }
	if err := json.Unmarshal(text, &metadata); err != nil {
		t.Fatal(err)
	}
	mirror := t.TempDir()
	for _, name := range []string{"download/v" + metadata.Version, "latest/download"} {
		at := filepath.Join(mirror, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dist, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range []string{"cosign", "itself"} {
		m := newMachine(t)
		if by == "cosign" {
			m.cosign()
		}
		began := time.Now()
		if printed := m.installs("--from", mirror, "--to", "bin", "--key", key); !strings.Contains(printed, "verified by "+by) {
			t.Errorf("it says\n%s", printed)
		}
		if names := inBin(t, filepath.Join(m.home, "bin")); len(names) != len(both) {
			t.Errorf("installed %v", names)
		}
		if out, err := exec.CommandContext(t.Context(), filepath.Join(m.home, "bin", "plural"), "version").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if by == "itself" {
			t.Logf("bench install_sh_s %.1f s", time.Since(began).Seconds())
		}
		verify := exec.CommandContext(t.Context(), filepath.Join(m.home, "bin", "plural"), "version", "--verify", "--from", dist, "--key", key)
		if out, err := verify.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
