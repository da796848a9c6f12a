package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTokenIsFoundHoweverTheAddressIsTyped(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "plural"))
	if err := s.Save("https://Hub.example.com:443/", "one"); err != nil {
		t.Fatal(err)
	}
	if err := s.Save("http://127.0.0.1:8080", "two"); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"https://hub.example.com": "one", "HTTPS://hub.example.com/": "one",
		"http://127.0.0.1:8080/": "two", "http://127.0.0.1:8081": "",
	} {
		if got, err := s.Token(address); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", address, got, err, want)
		}
	}
}

func TestSaveLeavesAFileForItsOwnerOnly(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "plural"))
	if err := s.Save("https://hub", "x"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(s.Path()), "hosts-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSaveOfNothingForgets(t *testing.T) {
	s := New(t.TempDir())
	if err := s.Save("https://hub", "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.Save("https://hub", ""); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Token("https://hub"); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestBrokenFileIsAnErrorThatTellsNoToken(t *testing.T) {
	s := New(t.TempDir())
	if err := os.WriteFile(s.Path(), []byte("hosts: {a: {token: s3cret, extra: 1}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Token("https://hub")
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), s.Path()) {
		t.Errorf("got %v", err)
	}
}
