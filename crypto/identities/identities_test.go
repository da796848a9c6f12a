package identities

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"
	"github.com/zalando/go-keyring"

	"github.com/pluralsh/plural/crypto/keys"
)

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// source is one with an empty folder of its own and no environment.
func source(t *testing.T) Source {
	t.Helper()
	return Source{Dir: filepath.Join(t.TempDir(), "identities")}
}

func create(t *testing.T, s Source, name string, o Options) (recipient, place string) {
	t.Helper()
	recipient, place, err := s.Create(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return recipient, place
}

// recipients are the public halves of what s loads.
func recipients(t *testing.T, s Source) []string {
	t.Helper()
	ids, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, id := range ids {
		text, ok := keys.RecipientOf(id)
		if !ok {
			t.Fatalf("%T has no public half", id)
		}
		all = append(all, text)
	}
	return all
}

func wantOnly(t *testing.T, s Source, want string) {
	t.Helper()
	if got := recipients(t, s); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q alone", got, want)
	}
}

func TestCreatedIdentityIsFoundAndItsOwnersAlone(t *testing.T) {
	for _, o := range []Options{{}, {PostQuantum: true}} {
		s := source(t)
		recipient, place := create(t, s, "me", o)
		wantOnly(t, s, recipient)
		for path, mode := range map[string]fs.FileMode{s.Dir: 0o700, place: 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v, want mode %o", path, info.Mode(), err, mode)
			}
		}
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	s := source(t)
	recipient, _ := create(t, s, "me", Options{})
	for _, o := range []Options{{}, {Passphrase: "other"}} {
		if _, _, err := s.Create("me", o); !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v", err)
		}
	}
	wantOnly(t, s, recipient)
}

func TestNamesCannotLeaveTheFolder(t *testing.T) {
	for _, name := range []string{"", "../me", "a/b", ".hidden", "a b", strings.Repeat("a", 64)} {
		if _, _, err := source(t).Create(name, Options{}); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

func TestPassphraseProtectsTheFile(t *testing.T) {
	s := source(t)
	recipient, place := create(t, s, "me", Options{Passphrase: "correct horse"})
	if text, err := os.ReadFile(place); err != nil || bytes.Contains(text, []byte("AGE-SECRET-KEY")) {
		t.Fatalf("the key lies open, or %v", err)
	}
	if _, err := s.Load(); err == nil {
		t.Error("opened without a passphrase")
	}
	s.Ask = func(string) (string, error) { return "wrong", nil }
	if _, err := s.Own(); err == nil || !strings.Contains(err.Error(), "passphrase is wrong") {
		t.Errorf("with a wrong passphrase: %v", err)
	}
	s.Ask = func(string) (string, error) { return "correct horse", nil }
	own, err := s.Own()
	if err != nil || len(own) != 1 {
		t.Fatalf("got %d, %v", len(own), err)
	}
	if text, _ := keys.RecipientOf(own[0]); text != recipient {
		t.Errorf("got %q, want %q", text, recipient)
	}
}

func TestPassphraseIsAskedForWhenSomethingIsToBeOpened(t *testing.T) {
	s := source(t)
	recipient, _ := create(t, s, "me", Options{Passphrase: "correct horse"})
	asked := 0
	s.Ask = func(string) (string, error) { asked++; return "correct horse", nil }
	ids, err := s.Load()
	if err != nil || asked != 0 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		t.Fatal(err)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := age.Decrypt(&sealed, ids...); err != nil || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

func TestKeyringHoldsTheKeyAndTheFolderSaysSo(t *testing.T) {
	keyring.MockInit()
	s := source(t)
	s.Keyring = true
	recipient, _ := create(t, s, "me", Options{Keyring: true})
	wantOnly(t, s, recipient)
	marker, err := os.ReadFile(filepath.Join(s.Dir, "me.keyring"))
	if err != nil || bytes.Contains(marker, []byte("AGE-SECRET-KEY")) {
		t.Errorf("marker %q, %v", marker, err)
	}
	other := source(t)
	other.Keyring = true
	if _, _, err := other.Create("me", Options{Keyring: true}); err == nil {
		t.Error("the keyring's entry was overwritten")
	}
	wantOnly(t, s, recipient)
}

func TestEnvironmentStandsAlone(t *testing.T) {
	s := source(t)
	create(t, s, "me", Options{})
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ci.txt")
	if err := os.WriteFile(file, []byte(id.String()+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write.WriteString(id.String()); err != nil {
		t.Fatal(err)
	}
	write.Close()
	handed, err := syscall.Dup(int(read.Fd())) // who is handed a descriptor closes it, and so does each os.File: one of each
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	for name, value := range map[string]string{EnvText: id.String(), EnvFile: file, EnvFD: strconv.Itoa(handed)} {
		t.Run(name, func(t *testing.T) {
			s.Getenv = environment(map[string]string{name: value})
			wantOnly(t, s, id.Recipient().String())
		})
	}
}

func TestMalformedEnvironmentIsNotShown(t *testing.T) {
	const canary = "AGE-SECRET-KEY-1CANARY"
	for _, name := range []string{EnvText, EnvFD} {
		s := Source{Getenv: environment(map[string]string{name: canary})}
		if _, err := s.Load(); err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatOthersCanReachIsRefused(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, dir, file string)
		fix   string
	}{
		{"file for the group", func(t *testing.T, _, file string) { chmod(t, file, 0o640) }, "chmod 600 "},
		{"file for the world", func(t *testing.T, _, file string) { chmod(t, file, 0o604) }, "chmod 600 "},
		{"folder for the group", func(t *testing.T, dir, _ string) { chmod(t, dir, 0o750) }, "chmod 700 "},
		{"symbolic link", func(t *testing.T, dir, file string) { link(t, file, filepath.Join(dir, "link.txt")) }, "put the file itself"},
		{"folder in the place of a file", func(t *testing.T, dir, _ string) { mkdir(t, filepath.Join(dir, "odd.txt")) }, "move it away"},
		{"git work tree", func(t *testing.T, dir, _ string) { mkdir(t, filepath.Join(filepath.Dir(dir), ".git")) }, "keep identities elsewhere"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := source(t)
			_, place := create(t, s, "me", Options{})
			tt.spoil(t, s.Dir, place)
			_, err := s.Load()
			var loose *LooseError
			if !errors.As(err, &loose) || !strings.HasPrefix(loose.Fix(), tt.fix) {
				t.Fatalf("got %v", err)
			}
			if loose.Mode == 0 {
				return
			}
			if err := loose.Mend(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Load(); err != nil {
				t.Errorf("after mending: %v", err)
			}
		})
	}
}

func TestIdentityFileInAGitWorkTreeIsRefused(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, ".git"))
	file := filepath.Join(dir, "me.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Source{Getenv: environment(map[string]string{EnvFile: file})}
	var loose *LooseError
	if _, err := s.Load(); !errors.As(err, &loose) {
		t.Errorf("got %v", err)
	}
}

func TestNothingAnywhereIsNoIdentity(t *testing.T) {
	for _, s := range []Source{{}, source(t), {Home: t.TempDir()}} {
		if ids, err := s.Load(); err != nil || len(ids) != 0 {
			t.Errorf("got %d, %v", len(ids), err)
		}
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}
