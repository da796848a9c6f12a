package vault_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/crypto/vault"
	"github.com/pluralsh/plural/internal/overlay"
)

// confirmed confirms one statement.
type confirmed groups.Statement

func (c confirmed) Confirmed(string) (groups.Statement, error) { return groups.Statement(c), nil }

// repository is one with the groups prod and dev, and who is in them.
type repository struct {
	t     *testing.T
	files fs.FS
	alice *age.X25519Identity
}

const sealYAML = `apiVersion: plural.sh/v1alpha1
kind: Seal
metadata: {name: seal}
spec:
  repository: 0123456789abcdef0123456789abcdef
  paths:
  - pattern: secrets/**
    groups: [prod]
  - pattern: secrets/both/**
    groups: [dev, prod]
`

func newRepository(t *testing.T) *repository {
	t.Helper()
	alice := identity(t)
	r := &repository{t, fstest.MapFS{
		policy.File:                {Data: []byte(sealYAML)},
		groups.PersonFile("alice"): {Data: []byte(alice.Recipient().String() + "\n")},
	}, alice}
	for _, name := range []string{"prod", "dev"} {
		r.change(r.set().Create(r.id(), name, []groups.Member{{Kind: groups.Person, Name: "alice"}}, groups.CreateOptions{}))
	}
	return r
}

func (r *repository) id() string { return "0123456789abcdef0123456789abcdef" }

func (r *repository) set() *groups.Set {
	r.t.Helper()
	set, err := groups.Load(r.files)
	if err != nil {
		r.t.Fatal(err)
	}
	return set
}

func (r *repository) change(c groups.Changes, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	r.files = overlay.New(r.files, c)
}

func (r *repository) rotate(names ...string) {
	r.t.Helper()
	ring, err := r.vault(r.alice).Keyring()
	if err != nil {
		r.t.Fatal(err)
	}
	changes, _, err := r.set().Rotate(r.id(), ring, names, nil, nil)
	r.change(changes, err)
}

// vault is what ids open, for somebody who has confirmed everything.
func (r *repository) vault(ids ...age.Identity) *vault.Vault {
	r.t.Helper()
	p, err := policy.Load(r.files)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.open(vault.Config{Confirmed: confirmed(r.set().Statement(p))}, ids...)
}

func (r *repository) open(c vault.Config, ids ...age.Identity) *vault.Vault {
	r.t.Helper()
	c.Files, c.Identities = r.files, func() ([]age.Identity, error) { return ids, nil }
	v, err := vault.Open(c)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func sealed(t *testing.T, v *vault.Vault, path, text string) []byte {
	t.Helper()
	out, err := v.Seal(path, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestKeepReturnsWhatIsStoredWhileNothingChanged(t *testing.T) {
	r := newRepository(t)
	v := r.vault(r.alice)
	stored := sealed(t, v, "secrets/a", "one")
	keep := func(v *vault.Vault, path, text string) (same bool, moved error) {
		t.Helper()
		got, moved, err := v.Keep(path, []byte(text), stored)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Equal(got, stored), moved
	}
	if same, moved := keep(v, "secrets/a", "one"); !same || moved != nil {
		t.Errorf("unchanged: kept %v, moved %v", same, moved)
	}
	if same, _ := keep(v, "secrets/a", "two"); same {
		t.Error("other content was not sealed")
	}
	if same, moved := keep(v, "secrets/b", "one"); !same || !errors.As(moved, new(*seal.BindingError)) {
		t.Errorf("renamed: kept %v, moved %v", same, moved)
	}
	if same, _ := keep(v, "secrets/both/a", "one"); same {
		t.Error("a path of other groups kept what is sealed for these")
	}
	r.rotate("prod")
	if same, _ := keep(r.vault(r.alice), "secrets/a", "one"); same {
		t.Error("a rotated group kept what is sealed for its old identity")
	}
}

func TestKeepNeverSealsTwice(t *testing.T) {
	r := newRepository(t)
	v := r.vault(r.alice)
	once := sealed(t, v, "secrets/a", "one")
	if again, _, err := v.Keep("secrets/a", once, nil); err != nil || !bytes.Equal(again, once) {
		t.Errorf("got %d bytes, %v", len(again), err)
	}
	pretender := []byte("age-encryption.org/v1\nis how my notes begin\n")
	got, _, err := v.Keep("secrets/a", pretender, nil)
	if err != nil || bytes.Equal(got, pretender) {
		t.Errorf("what only begins like a sealed file was taken for one: %v", err)
	}
}

func TestOpenRefusesWhatWasSealedForAnotherPlace(t *testing.T) {
	r := newRepository(t)
	v := r.vault(r.alice)
	stored := sealed(t, v, "secrets/a", "one")
	if _, err := v.Open("secrets/b", stored); !errors.As(err, new(*seal.BindingError)) {
		t.Errorf("another path: %v", err)
	}
	prod, _ := r.set().Group("prod")
	unbound := new(bytes.Buffer)
	w, err := age.Encrypt(unbound, prod.Recipient.Recipient)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Open("secrets/a", unbound.Bytes()); !errors.As(err, new(*seal.BindingError)) {
		t.Errorf("bound to nothing: %v", err)
	}
	if plaintext, binding, err := v.Read("secrets/a", unbound.Bytes()); err != nil || binding != nil || string(plaintext) != "one" {
		t.Errorf("read as %q, %v, %v", plaintext, binding, err)
	}
}

func TestRetiredIdentitiesReadHistoryAndNothingElse(t *testing.T) {
	r := newRepository(t)
	old := sealed(t, r.vault(r.alice), "secrets/a", "one")
	r.rotate("prod")
	r.rotate("prod")
	v := r.vault(r.alice)
	if _, err := v.Open("secrets/a", old); !errors.As(err, new(*vault.RetiredError)) {
		t.Errorf("opened strictly: %v", err)
	}
	if plaintext, _, err := v.Read("secrets/a", old); err != nil || string(plaintext) != "one" {
		t.Errorf("read as %q, %v", plaintext, err)
	}
}

func TestEnvelopesAreFoundInOtherStatesOfTheRepository(t *testing.T) {
	r := newRepository(t)
	before := r.files
	r.rotate("prod")
	newer, stored := r.files, sealed(t, r.vault(r.alice), "secrets/a", "one")
	r.files = before // an older commit is checked out, and the file is of the newer
	if _, _, err := r.vault(r.alice).Read("secrets/a", stored); !errors.As(err, new(*vault.LockedError)) {
		t.Fatalf("without the newer envelopes: %v", err)
	}
	v := r.open(vault.Config{Elsewhere: func() []fs.FS { return []fs.FS{fstest.MapFS{}, newer} }}, r.alice)
	if plaintext, _, err := v.Read("secrets/a", stored); err != nil || string(plaintext) != "one" {
		t.Errorf("read as %q, %v", plaintext, err)
	}
}

func TestLockedNamesWhoCanReadAndHowToBeAdded(t *testing.T) {
	r := newRepository(t)
	stored := sealed(t, r.vault(r.alice), "secrets/a", "one")
	for name, ids := range map[string][]age.Identity{"a stranger": {identity(t)}, "nobody": nil} {
		var locked *vault.LockedError
		if _, err := r.vault(ids...).Open("secrets/a", stored); !errors.As(err, &locked) {
			t.Fatalf("%s got %v", name, err)
		}
		if locked.NoIdentity != (ids == nil) || len(locked.Readers) != 1 || locked.Readers[0] != "alice" || locked.Fix() == "" {
			t.Errorf("%s got %+v", name, locked)
		}
	}
	damaged := bytes.Clone(stored)
	damaged[len(damaged)-1] ^= 1
	if _, err := r.vault(r.alice).Open("secrets/a", damaged); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("a damaged file gives %v", err)
	}
}

func TestNothingIsSealedUnconfirmed(t *testing.T) {
	r := newRepository(t)
	v := r.vault(r.alice)
	statement := v.Statement()
	for name, c := range map[string]vault.Config{
		"nobody remembers":  {},
		"nothing confirmed": {Confirmed: confirmed("")},
		"another confirmed": {Confirmed: confirmed("group prod recipient age1other epoch 1\n")},
	} {
		if _, err := r.open(c, r.alice).Seal("secrets/a", nil); !errors.As(err, new(*trust.UnconfirmedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	withKeys := statement.WithKeys(map[string]string{"edge-1": "age1edge"})
	if _, err := r.open(vault.Config{Confirmed: confirmed(withKeys)}, r.alice).Seal("secrets/a", nil); err != nil {
		t.Errorf("clusters' keys count when a file is sealed: %v", err)
	}
	if _, err := v.Seal("elsewhere/a", nil); err == nil {
		t.Error("a path that no pattern covers was sealed")
	}
	if want := map[string]string{"edge-1": "age1edge"}; !maps.Equal(withKeys.Keys(), want) {
		t.Errorf("keys are %v", withKeys.Keys())
	}
}

func TestMemoryKnowsWhatWasOpenedAndNothingElse(t *testing.T) {
	r := newRepository(t)
	name := filepath.Join(t.TempDir(), "git", "known")
	p, err := policy.Load(r.files)
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*vault.Vault, *vault.Memory) {
		m := vault.Remember(name)
		return r.open(vault.Config{Confirmed: confirmed(r.set().Statement(p)), Memory: m}, r.alice), m
	}
	v, m := open()
	stored := sealed(t, v, "secrets/a", "one")
	if _, err := v.Open("secrets/a", stored); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	marks, err := os.ReadFile(name)
	if err != nil || len(marks) != 16 || bytes.Contains(marks, []byte("one")) {
		t.Fatalf("the memory is %q, %v", marks, err)
	}

	v, _ = open()
	damaged := bytes.Clone(stored)
	damaged[len(damaged)-1] ^= 1
	for _, tt := range []struct {
		name, content string
		stored        []byte
		kept          bool
	}{{"what was opened", "one", stored, true}, {"other content", "two", stored, false}, {"a damaged file", "one", damaged, false}} {
		got, _, err := v.Keep("secrets/a", []byte(tt.content), tt.stored)
		if err != nil || bytes.Equal(got, tt.stored) != tt.kept {
			t.Errorf("%s: kept %v, %v", tt.name, bytes.Equal(got, tt.stored), err)
		}
	}
	if err := os.WriteFile(name, []byte("no memory at all, but some other text"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, _ = open()
	if got, _, err := v.Keep("secrets/a", []byte("one"), stored); err != nil || !bytes.Equal(got, stored) {
		t.Errorf("with a spoilt memory: %v", err)
	}
}

func TestAViewOpensWhatThePersonCanOpen(t *testing.T) {
	r := newRepository(t)
	files := fstest.MapFS{
		"secrets/a": {Data: sealed(t, r.vault(r.alice), "secrets/a", "one")},
		"secrets/b": {Data: []byte("in clear")}, // as it is in a work tree
		"plain":     {Data: []byte("plain")},
	}
	opened, closed := r.vault(r.alice).FS(files), r.vault(identity(t)).FS(files)
	for name, want := range map[string]string{"secrets/a": "one", "secrets/b": "in clear", "plain": "plain"} {
		for how, read := range map[string]func() ([]byte, error){
			"read": func() ([]byte, error) { return fs.ReadFile(opened, name) },
			"opened": func() ([]byte, error) {
				f, err := opened.Open(name)
				if err != nil {
					return nil, err
				}
				return io.ReadAll(f)
			},
		} {
			if got, err := read(); err != nil || string(got) != want {
				t.Errorf("%s %s: %q %v", name, how, got, err)
			}
		}
	}
	if got, err := fs.ReadFile(closed, "secrets/a"); err != nil || !seal.IsSealed(got) {
		t.Errorf("a stranger reads %q %v", got, err)
	}
	if entries, err := fs.ReadDir(opened, "secrets"); err != nil || len(entries) != 2 {
		t.Errorf("%v %v", entries, err)
	}
}
