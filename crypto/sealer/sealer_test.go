package sealer_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/trust"
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
func (r *repository) vault(ids ...age.Identity) *sealer.Vault {
	r.t.Helper()
	p, err := policy.Load(r.files)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.open(sealer.Config{Confirmed: confirmed(r.set().Statement(p))}, ids...)
}

func (r *repository) open(c sealer.Config, ids ...age.Identity) *sealer.Vault {
	r.t.Helper()
	c.Files, c.Identities = r.files, func() ([]age.Identity, error) { return ids, nil }
	v, err := sealer.Open(c)
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

func sealed(t *testing.T, v *sealer.Vault, path, text string) []byte {
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
	keep := func(v *sealer.Vault, path, text string) (same bool, moved error) {
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

func TestReadRefusesWhatIsNoSealedFile(t *testing.T) {
	v := newRepository(t).vault()
	for text, want := range map[string]error{"in clear": seal.ErrNotSealed, "age-encryption.org/v1\n": seal.ErrDamaged} {
		if plaintext, _, err := v.Read("secrets/a", []byte(text)); plaintext != nil || !errors.Is(err, want) {
			t.Errorf("%q is read as %q, %v", text, plaintext, err)
		}
	}
}

func TestKeepSealsAnewWhatIsNotOfThisPlace(t *testing.T) {
	r := newRepository(t)
	v := r.vault(r.alice)
	prod, _ := r.set().Group("prod")
	unbound := new(bytes.Buffer)
	w, err := age.Encrypt(unbound, prod.Recipient.Recipient)
	if err == nil {
		_, err = w.Write([]byte("one"))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	abroad := seal.Binding{Repository: strings.Repeat("f", 32), Path: "secrets/a", Groups: []seal.Epoch{{Group: "prod", Number: 1}}}
	foreign, err := seal.Seal([]byte("one"), abroad, prod.Recipient.Recipient)
	if err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string][]byte{
		"bound to nothing": unbound.Bytes(), "of another repository": foreign,
		"in clear": []byte("one"),
	} {
		got, moved, err := v.Keep("secrets/a", []byte("one"), stored)
		if err != nil || moved != nil || bytes.Equal(got, stored) {
			t.Fatalf("%s: kept %v, %v, %v", name, bytes.Equal(got, stored), moved, err)
		}
		if plaintext, err := v.Open("secrets/a", got); err != nil || string(plaintext) != "one" {
			t.Errorf("%s: sealed anew, it opens as %q, %v", name, plaintext, err)
		}
	}
}

// A passphrase that is not given, a token that is not plugged in: nothing is known then, and nothing may be made up.
func TestIdentitiesThatCannotBeHadAreAnErrorToWhoeverNeedsThem(t *testing.T) {
	r := newRepository(t)
	stored := sealed(t, r.vault(r.alice), "secrets/a", "one")
	absent := errors.New("the token is not plugged in")
	v, err := sealer.Open(sealer.Config{
		Files: r.files, Identities: func() ([]age.Identity, error) { return nil, absent }, Confirmed: confirmed(r.vault().Statement()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if ring, err := v.Keyring(); ring != nil || !errors.Is(err, absent) {
		t.Errorf("a keyring: %v, %v", ring, err)
	}
	if plaintext, err := v.Open("secrets/a", stored); plaintext != nil || !errors.Is(err, absent) {
		t.Errorf("opened: %q, %v", plaintext, err)
	}
	if kept, _, err := v.Keep("secrets/a", []byte("one"), stored); kept != nil || !errors.Is(err, absent) {
		t.Errorf("kept: %d bytes, %v", len(kept), err)
	}
}

func TestAVaultWantsAPolicyAndGroupsThatRead(t *testing.T) {
	if v, err := sealer.Open(sealer.Config{Files: fstest.MapFS{}}); v != nil || !errors.Is(err, policy.ErrNone) {
		t.Errorf("without a policy: %v, %v", v, err)
	}
	r := newRepository(t)
	r.change(groups.Changes{groups.RecipientFile("prod"): []byte("age1nonsense\n")}, nil)
	if v, err := sealer.Open(sealer.Config{Files: r.files}); v != nil || err == nil ||
		!strings.Contains(err.Error(), groups.RecipientFile("prod")) {
		t.Errorf("with a group that does not read: %v, %v", v, err)
	}
}

func TestEpochsAreThoseAPathIsSealedForNow(t *testing.T) {
	r := newRepository(t)
	r.rotate("prod")
	v := r.vault()
	for path, want := range map[string][]seal.Epoch{
		"secrets/a": {{Group: "prod", Number: 2}}, "secrets/both/a": {{Group: "dev", Number: 1}, {Group: "prod", Number: 2}}, "elsewhere/a": nil,
	} {
		if got, err := v.Epochs(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	r.change(groups.Changes{policy.File: []byte(sealYAML + "  - pattern: lost/**\n    groups: [gone]\n")}, nil)
	v = r.vault()
	for path, want := range map[string]string{"/secrets/a": "not relative", "lost/a": `the group "gone", which does not exist`} {
		if got, err := v.Epochs(path); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
}

func TestRetiredIdentitiesReadHistoryAndNothingElse(t *testing.T) {
	r := newRepository(t)
	old := sealed(t, r.vault(r.alice), "secrets/a", "one")
	r.rotate("prod")
	r.rotate("prod")
	v := r.vault(r.alice)
	if _, err := v.Open("secrets/a", old); !errors.As(err, new(*sealer.RetiredError)) {
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
	if _, _, err := r.vault(r.alice).Read("secrets/a", stored); !errors.As(err, new(*sealer.LockedError)) {
		t.Fatalf("without the newer envelopes: %v", err)
	}
	v := r.open(sealer.Config{Elsewhere: func() []fs.FS { return []fs.FS{fstest.MapFS{}, newer} }}, r.alice)
	if plaintext, _, err := v.Read("secrets/a", stored); err != nil || string(plaintext) != "one" {
		t.Errorf("read as %q, %v", plaintext, err)
	}
}

func TestErrorsSayWhatIsWrongAndWhatToDo(t *testing.T) {
	type advises interface {
		error
		Fix() string
	}
	for _, tt := range []struct {
		err       advises
		says, fix string
	}{
		{
			&sealer.LockedError{Path: "a"}, `"a" is sealed for nobody known here, and no identity here opens it`,
			"let a member run: plural crypto share YOUR-PUBLIC-KEY --group GROUP",
		},
		{
			&sealer.LockedError{Path: "a", Groups: []string{"dev", "prod"}, Readers: []string{"alice", "bob"}, NoIdentity: true},
			`"a" is sealed for dev, prod, and there is no identity here; alice, bob can read it`,
			"restore yours: plural crypto import; or let a member run: plural crypto share YOUR-PUBLIC-KEY --group dev",
		},
		{
			&sealer.RetiredError{Path: "a", Group: "prod", Epoch: 2, Exists: true},
			`"a" is sealed for epoch 2 of the group "prod", which has been rotated since`, "plural crypto encrypt a",
		},
		{
			&sealer.RetiredError{Path: "a", Group: "prod", Epoch: 2}, `"a" is sealed for the group "prod", which does not exist`,
			"name another group in .plural/seal.yaml, then: plural crypto encrypt a",
		},
	} {
		if tt.err.Error() != tt.says || tt.err.Fix() != tt.fix {
			t.Errorf("got %q, %q; want %q, %q", tt.err.Error(), tt.err.Fix(), tt.says, tt.fix)
		}
	}
}

func TestLockedNamesEachPersonOnceAndNoCluster(t *testing.T) {
	r := newRepository(t)
	edge := func(string) (string, error) { return identity(t).Recipient().String(), nil }
	ring, err := r.vault(r.alice).Keyring()
	if err != nil {
		t.Fatal(err)
	}
	r.change(r.set().Add(r.id(), ring, "prod", groups.Member{Kind: groups.Cluster, Name: "edge-1"}, edge))
	var locked *sealer.LockedError
	if _, err := r.vault().Open("secrets/both/a", sealed(t, r.vault(r.alice), "secrets/both/a", "one")); !errors.As(err, &locked) {
		t.Fatal(err)
	}
	if !slices.Equal(locked.Readers, []string{"alice"}) || !slices.Equal(locked.Groups, []string{"dev", "prod"}) {
		t.Errorf("got %+v", locked)
	}
}

func TestLockedNamesWhoCanReadAndHowToBeAdded(t *testing.T) {
	r := newRepository(t)
	stored := sealed(t, r.vault(r.alice), "secrets/a", "one")
	for name, ids := range map[string][]age.Identity{"a stranger": {identity(t)}, "nobody": nil} {
		var locked *sealer.LockedError
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
	for name, c := range map[string]sealer.Config{
		"nobody remembers":  {},
		"nothing confirmed": {Confirmed: confirmed("")},
		"another confirmed": {Confirmed: confirmed("group prod recipient age1other epoch 1\n")},
	} {
		if _, err := r.open(c, r.alice).Seal("secrets/a", nil); !errors.As(err, new(*trust.UnconfirmedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	withKeys := statement.WithKeys(map[string]string{"edge-1": "age1edge"})
	if _, err := r.open(sealer.Config{Confirmed: confirmed(withKeys)}, r.alice).Seal("secrets/a", nil); err != nil {
		t.Errorf("clusters' keys count when a file is sealed: %v", err)
	}
	if _, err := v.Seal("elsewhere/a", nil); err == nil {
		t.Error("a path that no pattern covers was sealed")
	}
	if want := map[string]string{"edge-1": "age1edge"}; !maps.Equal(withKeys.Keys(), want) {
		t.Errorf("keys are %v", withKeys.Keys())
	}
}

// unread is what was confirmed by somebody whose word cannot be read now.
type unread struct{ error }

func (u unread) Confirmed(string) (groups.Statement, error) { return "", u.error }

func TestNothingIsSealedWhileWhatWasConfirmedCannotBeRead(t *testing.T) {
	r := newRepository(t)
	broken := errors.New("others may write to it")
	v := r.open(sealer.Config{Confirmed: unread{broken}}, r.alice)
	if err := v.Confirm(); !errors.Is(err, broken) {
		t.Errorf("confirmed: %v", err)
	}
	if out, err := v.Seal("secrets/a", []byte("one")); out != nil || !errors.Is(err, broken) {
		t.Errorf("sealed %d bytes, %v", len(out), err)
	}
}

func TestSealGivesNothingBesideAnError(t *testing.T) {
	r := newRepository(t)
	if out, err := r.vault(r.alice).Seal("secrets/a\n", []byte("one")); out != nil || err == nil ||
		!strings.Contains(err.Error(), "without control characters") {
		t.Errorf("at a path that no binding takes: %d bytes, %v", len(out), err)
	}
	r.change(groups.Changes{policy.File: []byte(sealYAML + "  - pattern: lost/**\n    groups: [gone]\n")}, nil)
	if out, err := r.vault(r.alice).Seal("secrets/a", []byte("one")); out != nil || err == nil ||
		!strings.Contains(err.Error(), `the group "gone", which does not exist`) {
		t.Errorf("under a policy that cannot be kept: %d bytes, %v", len(out), err)
	}
}

// Marks are made under a group's identity. Where there is none, one under no key at all must not pass.
func TestMemoryBelievesNoMarkThatAnybodyCanMake(t *testing.T) {
	r := newRepository(t)
	stored := sealed(t, r.vault(r.alice), "secrets/a", "one")
	digest := sha256.Sum256(stored)
	mac := hmac.New(sha256.New, make([]byte, sha256.Size))
	mac.Write(digest[:])
	mac.Write([]byte("two"))
	name := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(name, mac.Sum(nil)[:16], 0o600); err != nil {
		t.Fatal(err)
	}
	for who, identities := range map[string]func() ([]age.Identity, error){
		"a stranger":                        func() ([]age.Identity, error) { return []age.Identity{identity(t)}, nil },
		"one whose identity cannot be read": func() ([]age.Identity, error) { return nil, errors.New("no passphrase") },
	} {
		v, err := sealer.Open(sealer.Config{
			Files: r.files, Identities: identities, Confirmed: confirmed(r.vault().Statement()), Memory: sealer.Remember(name),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := v.Keep("secrets/a", []byte("two"), stored); bytes.Equal(got, stored) {
			t.Errorf("%s keeps what holds something else: %v", who, err)
		}
	}
}

func TestMemoryThatCannotBeWrittenSaysSo(t *testing.T) {
	r := newRepository(t)
	stored := sealed(t, r.vault(r.alice), "secrets/a", "one")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, name := range map[string]string{"beneath a file": filepath.Join(file, "known"), "in place of a folder": t.TempDir()} {
		m := sealer.Remember(name)
		if _, err := r.open(sealer.Config{Memory: m}, r.alice).Open("secrets/a", stored); err != nil {
			t.Fatal(err)
		}
		if err := m.Save(); err == nil {
			t.Errorf("%s: saved", what)
		}
	}
}

func TestMemoryKnowsWhatWasOpenedAndNothingElse(t *testing.T) {
	r := newRepository(t)
	name := filepath.Join(t.TempDir(), "git", "known")
	p, err := policy.Load(r.files)
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*sealer.Vault, *sealer.Memory) {
		m := sealer.Remember(name)
		return r.open(sealer.Config{Confirmed: confirmed(r.set().Statement(p)), Memory: m}, r.alice), m
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

func TestAViewShowsNoFileInAnothersPlace(t *testing.T) {
	r := newRepository(t)
	moved := sealed(t, r.vault(r.alice), "secrets/a", "one")
	view := r.vault(r.alice).FS(fstest.MapFS{"secrets/b": {Data: moved}})
	if text, err := fs.ReadFile(view, "secrets/b"); text != nil || !errors.As(err, new(*seal.BindingError)) {
		t.Errorf("read: %q %v", text, err)
	}
	if f, err := view.Open("secrets/b"); f != nil || !errors.As(err, new(*seal.BindingError)) {
		t.Errorf("opened: %v %v", f, err)
	}
	if text, err := fs.ReadFile(view, "secrets/none"); text != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %q %v", text, err)
	}
}

func TestAViewLeavesFoldersAndWhatNoPatternCoversAsTheyAre(t *testing.T) {
	r := newRepository(t)
	plain := sealed(t, r.vault(r.alice), "secrets/a", "one")
	view := r.vault(r.alice).FS(fstest.MapFS{"backup/a": {Data: plain}, "secrets/both/a": {Data: []byte("in clear")}})
	f, err := view.Open("backup/a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("a sealed file that no pattern covers: %d bytes, %v", len(got), err)
	}
	folder, err := view.Open("secrets/both") // which secrets/** covers
	if err != nil {
		t.Fatal(err)
	}
	if info, err := folder.Stat(); err != nil || !info.IsDir() {
		t.Errorf("a folder: %v, %v", info, err)
	}
	file, err := view.Open("secrets/both/a")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := file.Stat(); err != nil || info.IsDir() || info.Name() != "a" || info.Size() != int64(len("in clear")) {
		t.Errorf("a file: %v, %v", info, err)
	}
}
