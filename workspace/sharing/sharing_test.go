package sharing_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/crypto/vault"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/sharing"
)

// person is somebody with a clone.
type person struct {
	t         *testing.T
	name      string
	identity  *age.X25519Identity
	confirmed trust.Store
	repo      *workspace.Repo
}

func newPerson(t *testing.T, name, dir string) *person {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t, name, id, trust.Store{Dir: t.TempDir()}, repo}
	repo.UseKeys(p.keys())
	return p
}

func (p *person) keys() workspace.Keys {
	return workspace.Keys{Identities: func() ([]age.Identity, error) { return []age.Identity{p.identity}, nil }, Confirmed: p.confirmed}
}

func (p *person) file() []byte {
	return []byte("# " + p.name + "\n" + p.identity.Recipient().String() + "\n")
}

func (p *person) edit() *sharing.Editor {
	p.t.Helper()
	e, err := sharing.Open(p.repo, p.keys(), p.confirmed)
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

func (p *person) apply(plan *sharing.Plan, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := plan.Apply(p.t.Context(), ""); err != nil {
		p.t.Fatal(err)
	}
}

// open is what the person reads of the file that git keeps at HEAD.
func (p *person) open(path string) ([]byte, error) {
	p.t.Helper()
	v, err := p.repo.Vault(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return v.Open(path, p.stored(path))
}

func (p *person) stored(path string) []byte {
	p.t.Helper()
	out, err := exec.Command("git", "-C", p.repo.Root(), "cat-file", "blob", "HEAD:"+path).Output()
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *person) commit(path, text string) {
	p.t.Helper()
	if _, err := p.repo.Commit(p.t.Context(), "Change "+path, map[string][]byte{path: []byte(text)}); err != nil {
		p.t.Fatal(err)
	}
}

const secret = "secrets/db.yaml"

// begun is Alice's repository with sealing begun and one secret in it, in an unlocked clone.
func begun(t *testing.T) *person {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	dir := filepath.Join(t.TempDir(), "fleet")
	if _, err := workspace.Init(t.Context(), workspace.Options{Dir: dir, Name: "fleet"}); err != nil {
		t.Fatal(err)
	}
	alice := newPerson(t, "alice", dir)
	plan, err := sharing.Begin(alice.repo, alice.keys(), alice.confirmed, sharing.Beginning{
		Person: sharing.Person{Name: "alice", Keys: alice.file()}, Group: "fleet", Patterns: []string{"secrets/**"},
	})
	alice.apply(plan, err)
	git(t, dir, "config", "filter.plural.process", "unlocked")
	alice.commit(secret, "password: canary\n")
	return alice
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestCommitSealsAndLeavesPlaintextInTheWorkTree(t *testing.T) {
	alice := begun(t)
	if stored := alice.stored(secret); !seal.IsSealed(stored) || bytes.Contains(stored, []byte("canary")) {
		t.Errorf("git keeps %q", stored)
	}
	disk, err := os.ReadFile(filepath.Join(alice.repo.Root(), secret))
	if err != nil || string(disk) != "password: canary\n" {
		t.Errorf("the work tree holds %q, %v", disk, err)
	}
	if plaintext, err := alice.open(secret); err != nil || string(plaintext) != "password: canary\n" {
		t.Errorf("opened %q, %v", plaintext, err)
	}
	if id, err := alice.repo.Commit(t.Context(), "Again", map[string][]byte{secret: []byte("password: canary\n")}); err != nil || id != "" {
		t.Errorf("the same content again made commit %q, %v", id, err)
	}
}

func TestPushNeverCarriesPlaintext(t *testing.T) {
	alice := begun(t)
	origin := filepath.Join(t.TempDir(), "origin.git")
	git(t, alice.repo.Root(), "init", "-q", "--bare", origin)
	git(t, alice.repo.Root(), "remote", "add", "origin", origin)
	if _, err := alice.repo.Push(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Somebody commits behind every filter and hook, and then takes the file out again: history would still carry it.
	dir := alice.repo.Root()
	git(t, dir, "config", "user.email", "alice@example.com")
	git(t, dir, "config", "user.name", "Alice")
	blob := exec.Command("git", "-C", dir, "hash-object", "-w", "--stdin", "--no-filters")
	blob.Stdin = strings.NewReader("password: canary\n")
	oid, err := blob.Output()
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "update-index", "--add", "--cacheinfo", "100644,"+strings.TrimSpace(string(oid))+",secrets/leak.yaml")
	git(t, dir, "commit", "-q", "--no-verify", "-m", "Oops")
	git(t, dir, "rm", "-q", "--cached", "secrets/leak.yaml")
	git(t, dir, "commit", "-q", "--no-verify", "-m", "Never mind")
	if _, err := alice.repo.Push(t.Context()); err == nil || !strings.Contains(err.Error(), "secrets/leak.yaml") {
		t.Fatalf("pushed: %v", err)
	}
	git(t, dir, "reset", "-q", "--hard", "HEAD~2")
	alice.commit("README.md", "fine\n")
	if _, err := alice.repo.Push(t.Context()); err != nil {
		t.Errorf("a clean branch is refused: %v", err)
	}
}

func TestSharedWithSecondPersonRevokedThird(t *testing.T) {
	alice := begun(t)
	bob, carol := newPerson(t, "bob", alice.repo.Root()), newPerson(t, "carol", alice.repo.Root())
	for _, p := range []*person{bob, carol} {
		if _, err := p.open(secret); !errors.As(err, new(*vault.LockedError)) {
			t.Errorf("%s, who is no member, got %v", p.name, err)
		}
		alice.apply(alice.edit().Share(groups.Member{Kind: groups.Person, Name: p.name}, &sharing.Person{Name: p.name, Keys: p.file()}, []string{"fleet"}))
		if plaintext, err := p.open(secret); err != nil || string(plaintext) != "password: canary\n" {
			t.Errorf("%s, who is a member, opened %q, %v", p.name, plaintext, err)
		}
	}

	before := alice.stored(secret)
	plan, err := alice.edit().Revoke(groups.Member{Kind: groups.Person, Name: "carol"}, nil)
	alice.apply(plan, err)
	if len(plan.Resealed) != 1 || bytes.Equal(before, alice.stored(secret)) {
		t.Error("the file is still sealed for the identity that carol knows")
	}
	if _, err := carol.open(secret); !errors.As(err, new(*vault.LockedError)) {
		t.Errorf("carol, who was revoked, got %v", err)
	}
	for _, p := range []*person{alice, bob} {
		if plaintext, err := p.open(secret); err != nil || string(plaintext) != "password: canary\n" {
			t.Errorf("%s, who stayed, opened %q, %v", p.name, plaintext, err)
		}
		v, err := p.repo.Vault(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Open(secret, before); !errors.As(err, new(*vault.RetiredError)) {
			t.Errorf("the old file gives %s %v", p.name, err)
		}
		if plaintext, _, err := v.Read(secret, before); err != nil || string(plaintext) != "password: canary\n" {
			t.Errorf("%s reads history as %q, %v", p.name, plaintext, err)
		}
	}
	if _, err := os.Stat(filepath.Join(alice.repo.Root(), groups.PersonFile("carol"))); !os.IsNotExist(err) {
		t.Errorf("carol's keys are still there: %v", err)
	}
}

func TestNothingIsSealedForReadersThatNobodyConfirmed(t *testing.T) {
	alice := begun(t)
	bob := newPerson(t, "bob", alice.repo.Root())
	alice.apply(alice.edit().Share(groups.Member{Kind: groups.Person, Name: "bob"}, &sharing.Person{Name: "bob", Keys: bob.file()}, []string{"fleet"}))

	_, err := bob.repo.Commit(t.Context(), "Mine", map[string][]byte{"secrets/b.yaml": []byte("b: 1\n")})
	if !errors.As(err, new(*trust.UnconfirmedError)) {
		t.Fatalf("bob, who has confirmed nothing, got %v", err)
	}
	if _, err := os.Stat(filepath.Join(bob.repo.Root(), "secrets/b.yaml")); !os.IsNotExist(err) {
		t.Errorf("the refused file was written: %v", err)
	}
	if _, err := sharing.Open(bob.repo, bob.keys(), bob.confirmed); !errors.As(err, new(*trust.UnconfirmedError)) {
		t.Errorf("bob may change who can read what: %v", err)
	}
}

func TestClusterJoinsWithOneFileAndLeavesWithARotation(t *testing.T) {
	alice := begun(t)
	agent, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := alice.edit().AddCluster(sharing.Cluster{Name: "edge-1", Tags: map[string]string{"env": "prod"}, Age: agent.Recipient().String()})
	if err != nil || len(plan.Changes) != 1 {
		t.Fatalf("joining writes %d files, %v", len(plan.Changes), err)
	}
	const file = "clusters/edge-1.yaml"
	plan.Changes[file] = []byte("apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\n")
	alice.apply(plan, nil)

	plan, err = alice.edit().RemoveCluster("edge-1", file)
	alice.apply(plan, err)
	if len(plan.Rotated) != 1 || len(plan.Resealed) != 1 {
		t.Errorf("rotated %v, sealed again %v", plan.Rotated, plan.Resealed)
	}
	v, err := alice.repo.Vault(nil)
	if err != nil {
		t.Fatal(err)
	}
	if in := v.Groups().GroupsOf(groups.Member{Kind: groups.Cluster, Name: "edge-1"}); len(in) > 0 {
		t.Errorf("the cluster is still in %v", in)
	}
}

func TestRotationRefusesAClusterKeyThatNobodyConfirmed(t *testing.T) {
	alice := begun(t)
	honest, thief := newKey(t), newKey(t)
	file := func(key string) []byte {
		return []byte("apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\nspec: {agent: {age: " + key + "}}\n")
	}
	plan, err := alice.edit().AddCluster(sharing.Cluster{Name: "edge-1", Age: honest})
	if err != nil {
		t.Fatal(err)
	}
	plan.Changes["clusters/edge-1.yaml"] = file(honest)
	alice.apply(plan, nil)
	if _, err := alice.edit().Rotate([]string{"fleet"}); err != nil {
		t.Fatalf("the key that was confirmed is refused: %v", err)
	}

	alice.commit("clusters/edge-1.yaml", string(file(thief)))
	if _, err := alice.edit().Rotate([]string{"fleet"}); !errors.As(err, new(*trust.UnconfirmedError)) {
		t.Fatalf("a key that somebody pushed gets the group's new identity: %v", err)
	}
	standing, err := sharing.Stand(alice.repo, alice.confirmed)
	if err != nil || len(standing.Changes) != 2 {
		t.Fatalf("to confirm are %v, %v", standing, err)
	}
	if err := standing.Confirm(); err != nil {
		t.Fatal(err)
	}
	alice.apply(alice.edit().Rotate([]string{"fleet"}))
}

func newKey(t *testing.T) string {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String()
}

func TestRotationGoesOnWhereItWasKilled(t *testing.T) {
	alice := begun(t)
	plan, err := alice.edit().Rotate([]string{"fleet"})
	if err != nil {
		t.Fatal(err)
	}
	// A context that has ended stops the commit after the journal and the files on disk: what a kill leaves behind, but for
	// the journal, which a failure takes away.
	name := filepath.Join(alice.repo.Root(), ".git/plural/journal.json")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := plan.Apply(ctx, ""); err == nil {
		t.Fatal("a cancelled change came to its end")
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("a failed change left its journal: %v", err)
	}
}
