package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/groups"
)

const repository = "0123456789abcdef0123456789abcdef"

func TestStoreKeepsWhatWasConfirmedForEachRepository(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "state", "confirmed")}
	other := strings.Repeat("f", 32)
	if got, err := s.Confirmed(repository); got != "" || err != nil {
		t.Fatalf("before anything was confirmed: %q, %v", got, err)
	}
	for _, statement := range []groups.Statement{"person alice age1a\n", "person bob age1b\n", ""} {
		if err := s.Confirm(repository, statement); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Confirmed(repository); got != statement || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, statement)
		}
		if got, err := s.Confirmed(other); got != "" || err != nil {
			t.Errorf("another repository: %q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("got %v, %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(s.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v, %v", info.Mode(), err)
	}
}

func TestStoreRefusesIDsThatAreNoIDs(t *testing.T) {
	s := Store{t.TempDir()}
	for _, id := range []string{"", "../" + repository, repository + "0", strings.ToUpper(repository)} {
		if _, err := s.Confirmed(id); err == nil {
			t.Errorf("%q was read", id)
		}
		if err := s.Confirm(id, "x"); err == nil {
			t.Errorf("%q was written", id)
		}
	}
}

func TestStoreRefusesFilesThatOthersCouldHaveWritten(t *testing.T) {
	s := Store{t.TempDir()}
	file := filepath.Join(s.Dir, fileOf(repository))
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for name, prepare := range map[string]func() error{
		"group-writable": func() error { return errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o620)) },
		"a symlink":      func() error { return errors.Join(os.WriteFile(elsewhere, nil, 0o600), os.Symlink(elsewhere, file)) },
		"a folder":       func() error { return os.Mkdir(file, 0o700) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Confirmed(repository); err == nil {
			t.Errorf("%s: read %q", name, got)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// Nothing confirmed and something that cannot be read are two things: the one asks a person for the first time.
func TestStoreTellsWhatItCannotReadFromNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (Store{file}).Confirmed(repository); err == nil {
		t.Errorf("a file for a folder: read %q", got)
	}
	s := Store{t.TempDir()}
	large := filepath.Join(s.Dir, fileOf(repository))
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, maxStatement+1)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Confirmed(repository); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("a statement without end: read %d bytes, %v", len(got), err)
	}
}

func TestConfirmSaysWhatItDidNotKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Store{filepath.Join(file, "beneath")}).Confirm(repository, "x"); err == nil {
		t.Error("confirmed beneath a file")
	}
	s := Store{t.TempDir()}
	if err := os.MkdirAll(filepath.Join(s.Dir, fileOf(repository), "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Confirm(repository, "x"); err == nil {
		t.Error("confirmed in place of a folder")
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) != 1 {
		t.Errorf("it left %v, %v", entries, err)
	}
}

func TestConfirmIsWholeOrNothing(t *testing.T) {
	s := Store{t.TempDir()}
	long := groups.Statement(strings.Repeat("group fleet member cluster/a\n", 5_000))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				got, err := s.Confirmed(repository)
				if err != nil || got != "" && got != long {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
			}
		})
	}
	for range 10 {
		if err := s.Confirm(repository, long); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

func TestDiffSaysInWordsWhatChanged(t *testing.T) {
	old := groups.Statement("group prod clusters matchLabels env=prod\ngroup prod member alice\ngroup prod recipient age1old epoch 1\npath a b\npath secrets/** prod\nperson alice age1a\n")
	now := groups.Statement("group prod member alice\ngroup prod member cluster/edge-1\ngroup prod recipient age1new epoch 2\npath \"a b\" dev,prod\npath secrets/** prod\nperson alice age1a\nperson eve ssh-ed25519 AAAA\n")
	var got []string
	for _, c := range Diff(old, now) {
		got = append(got, c.String())
	}
	want := []string{
		"new clusters no longer join the group prod when they are picked by: matchLabels env=prod",
		"cluster/edge-1 is a member of the group prod",
		"the group prod has the key age1new of epoch 2",
		"the group prod no longer has the key age1old of epoch 1",
		`"a b" is sealed for dev,prod`,
		"a is no longer sealed for b",
		"eve has the key ssh-ed25519 AAAA",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for line, want := range map[string]string{
		"cluster edge-1 age1edge":   "the cluster edge-1 has the key age1edge",
		"what a later version says": "added: what a later version says",
		"two words":                 "added: two words",
		"path x":                    "added: path x", // for nobody
		"group prod note x":         "added: group prod note x",
	} {
		if got := (Change{true, line}).String(); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	if got := (Change{false, "cluster edge-1 age1edge"}).String(); got != "the cluster edge-1 no longer has the key age1edge" {
		t.Errorf("got %q", got)
	}
	long := Change{true, "person alice age1pq1" + strings.Repeat("x", 2000)}
	if got := long.String(); !strings.HasPrefix(got, "alice has the key age1pq1xxxxxxxxxxxxx... (sha256:") || len(got) > 100 {
		t.Errorf("got %q", got)
	}
}

func TestCheckNamesTheFirstChanges(t *testing.T) {
	if err := Check("a\nb\n", "b\na"); err != nil {
		t.Errorf("the same lines: %v", err)
	}
	if err := Check("", ""); err != nil {
		t.Errorf("nothing at all: %v", err)
	}
	var unconfirmed *UnconfirmedError
	err := Check("", "person a k\nperson b k\nperson c k\nperson d k\nperson e k\n")
	if !errors.As(err, &unconfirmed) || !unconfirmed.First || len(unconfirmed.Changes) != 5 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"not confirmed yet", "a has the key k", "and 2 more"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	err = Check("person a k\n", "person a other\n")
	if !errors.As(err, &unconfirmed) || unconfirmed.First || !strings.Contains(err.Error(), "has changed since you confirmed it: a no longer has the key k; a has the key other") || !strings.Contains(unconfirmed.Fix(), "plural crypto groups confirm") {
		t.Errorf("got %v", err)
	}
}
