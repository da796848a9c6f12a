package rekey_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
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

func (p *person) edit() *rekey.Editor {
	p.t.Helper()
	e, err := rekey.Open(p.repo, p.keys(), p.confirmed)
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

func (p *person) apply(plan *rekey.Plan, err error) {
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
	plan, err := rekey.Begin(t.Context(), alice.repo, alice.keys(), alice.confirmed, rekey.Beginning{
		Person: rekey.Person{Name: "alice", Keys: alice.file()}, Group: "fleet", Patterns: []string{"secrets/**"},
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
	_, err = alice.repo.Push(t.Context())
	if err == nil || !strings.Contains(err.Error(), "secrets/leak.yaml") {
		t.Fatalf("pushed: %v", err)
	}
	var refused *workspace.Error
	if !errors.As(err, &refused) || refused.Error() != err.Error() || !strings.HasPrefix(err.Error(), "commit ") {
		t.Errorf("the refusal is not what is said first: %v", err)
	}
	git(t, dir, "reset", "-q", "--hard", "HEAD~2")
	alice.commit("README.md", "fine\n")
	if _, err := alice.repo.Push(t.Context()); err != nil {
		t.Errorf("a clean branch is refused: %v", err)
	}
}

func TestPushDoesNotJudgeWhatTheRemoteHasAlready(t *testing.T) {
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	dir := filepath.Join(t.TempDir(), "fleet")
	if _, err := workspace.Init(t.Context(), workspace.Options{Dir: dir, Name: "fleet"}); err != nil {
		t.Fatal(err)
	}
	alice := newPerson(t, "alice", dir)
	alice.commit(secret, "password: known since long\n")
	plan, err := rekey.Begin(t.Context(), alice.repo, alice.keys(), alice.confirmed, rekey.Beginning{
		Person: rekey.Person{Name: "alice", Keys: alice.file()}, Group: "fleet", Patterns: []string{"secrets/**"},
	})
	alice.apply(plan, err)
	origin := filepath.Join(t.TempDir(), "origin.git")
	git(t, dir, "init", "-q", "--bare", origin)
	git(t, dir, "remote", "add", "origin", origin)
	git(t, dir, "push", "-q", "origin", "HEAD:main")

	// Both sides go on, and Alice has fetched: neither tip is an ancestor of the other.
	other := filepath.Join(t.TempDir(), "other")
	git(t, dir, "clone", "-q", "-b", "main", origin, other)
	git(t, other, "-c", "user.name=Bob", "-c", "user.email=bob@example.com", "commit", "-q", "--allow-empty", "-m", "Theirs")
	git(t, other, "push", "-q")
	git(t, dir, "fetch", "-q", "origin")
	alice.commit("README.md", "mine\n")
	if _, err := alice.repo.Push(t.Context()); err != nil {
		t.Errorf("plaintext that the remote has since long keeps a push away: %v", err)
	}
}

func TestSharedWithSecondPersonRevokedThird(t *testing.T) {
	alice := begun(t)
	bob, carol := newPerson(t, "bob", alice.repo.Root()), newPerson(t, "carol", alice.repo.Root())
	for _, p := range []*person{bob, carol} {
		if _, err := p.open(secret); !errors.As(err, new(*sealer.LockedError)) {
			t.Errorf("%s, who is no member, got %v", p.name, err)
		}
		alice.apply(alice.edit().Share(groups.Member{Kind: groups.Person, Name: p.name}, &rekey.Person{Name: p.name, Keys: p.file()}, []string{"fleet"}))
		if plaintext, err := p.open(secret); err != nil || string(plaintext) != "password: canary\n" {
			t.Errorf("%s, who is a member, opened %q, %v", p.name, plaintext, err)
		}
	}

	before := alice.stored(secret)
	plan, err := alice.edit().Revoke(t.Context(), groups.Member{Kind: groups.Person, Name: "carol"}, nil)
	alice.apply(plan, err)
	if len(plan.Resealed) != 1 || bytes.Equal(before, alice.stored(secret)) {
		t.Error("the file is still sealed for the identity that carol knows")
	}
	if _, err := carol.open(secret); !errors.As(err, new(*sealer.LockedError)) {
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
		if _, err := v.Open(secret, before); !errors.As(err, new(*sealer.RetiredError)) {
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
	alice.apply(alice.edit().Share(groups.Member{Kind: groups.Person, Name: "bob"}, &rekey.Person{Name: "bob", Keys: bob.file()}, []string{"fleet"}))

	_, err := bob.repo.Commit(t.Context(), "Mine", map[string][]byte{"secrets/b.yaml": []byte("b: 1\n")})
	if !errors.As(err, new(*trust.UnconfirmedError)) {
		t.Fatalf("bob, who has confirmed nothing, got %v", err)
	}
	if _, err := os.Stat(filepath.Join(bob.repo.Root(), "secrets/b.yaml")); !os.IsNotExist(err) {
		t.Errorf("the refused file was written: %v", err)
	}
	if _, err := rekey.Open(bob.repo, bob.keys(), bob.confirmed); !errors.As(err, new(*trust.UnconfirmedError)) {
		t.Errorf("bob may change who can read what: %v", err)
	}
}

func TestClusterJoinsWithOneFileAndLeavesWithARotation(t *testing.T) {
	alice := begun(t)
	agent, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := alice.edit().AddCluster(rekey.Cluster{Name: "edge-1", Tags: map[string]string{"env": "prod"}, Age: agent.Recipient().String()})
	if err != nil || len(plan.Changes) != 1 {
		t.Fatalf("joining writes %d files, %v", len(plan.Changes), err)
	}
	const file = "clusters/edge-1.yaml"
	plan.Changes[file] = []byte("apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\n")
	alice.apply(plan, nil)

	plan, err = alice.edit().RemoveCluster(t.Context(), "edge-1", file)
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
	plan, err := alice.edit().AddCluster(rekey.Cluster{Name: "edge-1", Age: honest})
	if err != nil {
		t.Fatal(err)
	}
	plan.Changes["clusters/edge-1.yaml"] = file(honest)
	alice.apply(plan, nil)
	if _, err := alice.edit().Rotate(t.Context(), []string{"fleet"}); err != nil {
		t.Fatalf("the key that was confirmed is refused: %v", err)
	}

	alice.commit("clusters/edge-1.yaml", string(file(thief)))
	if _, err := alice.edit().Rotate(t.Context(), []string{"fleet"}); !errors.As(err, new(*trust.UnconfirmedError)) {
		t.Fatalf("a key that somebody pushed gets the group's new identity: %v", err)
	}
	standing, err := rekey.Stand(alice.repo, nil, alice.confirmed)
	if err != nil || len(standing.Changes) != 2 {
		t.Fatalf("to confirm are %v, %v", standing, err)
	}
	if err := standing.Confirm(); err != nil {
		t.Fatal(err)
	}
	alice.apply(alice.edit().Rotate(t.Context(), []string{"fleet"}))
}

func newKey(t *testing.T) string {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String()
}

// killed is a plan whose Apply was killed when nothing but the journal was written.
func killed(t *testing.T, p *person, plan *rekey.Plan, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	head, err := p.repo.Head()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"message": plan.Message, "after": plan.After, "changes": plan.Changes, "head": head,
		"repository": p.edit().Vault().Policy().Repository,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(p.journal()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.journal(), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *person) journal() string { return filepath.Join(p.repo.Root(), ".git/plural/journal.json") }

func TestRotationGoesOnWhereItWasKilled(t *testing.T) {
	for name, done := range map[string]func(t *testing.T, alice *person, plan *rekey.Plan){
		"before the first file": func(*testing.T, *person, *rekey.Plan) {},
		"after a file": func(t *testing.T, alice *person, plan *rekey.Plan) {
			file := groups.RecipientFile("fleet")
			if err := os.WriteFile(filepath.Join(alice.repo.Root(), file), plan.Changes[file], 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"after the commit": func(t *testing.T, alice *person, plan *rekey.Plan) {
			if _, err := alice.repo.Commit(t.Context(), plan.Message, plan.Changes); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			alice := begun(t)
			plan, err := alice.edit().Rotate(t.Context(), []string{"fleet"})
			killed(t, alice, plan, err)
			done(t, alice, plan)
			if resumed, err := rekey.Resume(t.Context(), alice.repo, alice.confirmed); err != nil || resumed == nil {
				t.Fatalf("resumed %v, %v", resumed, err)
			}
			if plaintext, err := alice.open(secret); err != nil || string(plaintext) != "password: canary\n" {
				t.Errorf("opened %q, %v", plaintext, err)
			}
			if group, _ := alice.edit().Vault().Groups().Group("fleet"); group.Epoch != 2 {
				t.Errorf("the group is at epoch %d", group.Epoch)
			}
			if _, err := os.Stat(alice.journal()); !os.IsNotExist(err) {
				t.Errorf("the journal stays: %v", err)
			}
		})
	}
}

func TestFailedChangeChangesNothing(t *testing.T) {
	alice := begun(t)
	for name, spoil := range map[string]func() (context.Context, func()){
		"cancelled": func() (context.Context, func()) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, func() {}
		},
		"git is at work": func() (context.Context, func()) {
			lock := filepath.Join(alice.repo.Root(), ".git/index.lock")
			if err := os.WriteFile(lock, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			return t.Context(), func() { _ = os.Remove(lock) }
		},
	} {
		plan, err := alice.edit().Rotate(t.Context(), []string{"fleet"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, restore := spoil()
		if _, err := plan.Apply(ctx, ""); err == nil {
			t.Fatalf("%s: it came to its end", name)
		}
		restore()
		if out, err := exec.Command("git", "-C", alice.repo.Root(), "status", "--porcelain", ".plural").Output(); err != nil || len(out) > 0 {
			t.Errorf("%s: git sees %s, %v", name, out, err)
		}
		if _, err := os.Stat(alice.journal()); !os.IsNotExist(err) {
			t.Errorf("%s: the journal stays: %v", name, err)
		}
		alice.edit() // confirmed as it was
	}
}

// While Alice looks at a change, or after hers was killed, somebody else's arrives. Hers was made for what was there
// before, and would take the other back.
func TestChangeIsNotMadeOnWhatOthersChangedMeanwhile(t *testing.T) {
	alice := begun(t)
	plan, err := alice.edit().Rotate(t.Context(), []string{"fleet"})
	if err != nil {
		t.Fatal(err)
	}
	alice.apply(alice.edit().Rotate(t.Context(), []string{"fleet"}))
	alice.commit(secret, "password: newer\n")
	if _, err := plan.Apply(t.Context(), ""); !errors.Is(err, workspace.ErrMoved) {
		t.Errorf("applied: %v", err)
	}

	plan, err = alice.edit().Rotate(t.Context(), []string{"fleet"})
	killed(t, alice, plan, err)
	alice.commit(secret, "password: newest\n")
	var stale *rekey.StaleError
	if _, err := rekey.Resume(t.Context(), alice.repo, alice.confirmed); !errors.As(err, &stale) || !strings.Contains(stale.Fix(), alice.journal()) {
		t.Errorf("resumed: %v", err)
	}
	if plaintext, err := alice.open(secret); err != nil || string(plaintext) != "password: newest\n" {
		t.Errorf("the secret is %q, %v", plaintext, err)
	}
}

func TestNobodyResumesWhatAnotherRunIsAt(t *testing.T) {
	alice := begun(t)
	plan, err := alice.edit().Rotate(t.Context(), []string{"fleet"})
	killed(t, alice, plan, err)
	held, err := os.Open(alice.journal())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if _, err := rekey.Resume(t.Context(), alice.repo, alice.confirmed); !errors.Is(err, rekey.ErrBusy) {
		t.Errorf("resumed: %v", err)
	}
	if _, err := plan.Apply(t.Context(), ""); !errors.Is(err, rekey.ErrUnderWay) {
		t.Errorf("applied: %v", err)
	}
}

// A link under the name of the file that is about to take the secret's place would carry the plaintext to where git adds
// it as it is.
func TestCommitWritesPlaintextThroughNoLink(t *testing.T) {
	alice := begun(t)
	dir := alice.repo.Root()
	for name, text := range map[string]string{"public.yaml": "public\n"} {
		alice.commit(name, text)
	}
	if err := os.Symlink("../public.yaml", filepath.Join(dir, "secrets/.plural-new-db.yaml")); err != nil {
		t.Fatal(err)
	}
	alice.commit(secret, "password: second canary\n")
	if text, err := os.ReadFile(filepath.Join(dir, "public.yaml")); err != nil || string(text) != "public\n" {
		t.Errorf("the public file holds %q, %v", text, err)
	}
	if info, err := os.Lstat(filepath.Join(dir, secret)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the secret is %v, %v", info, err)
	}
}

// plant makes somebody else's commit: content at path, past every filter and hook.
func (p *person) plant(message string, files map[string][]byte) {
	p.t.Helper()
	dir := p.repo.Root()
	for path, content := range files {
		blob := exec.Command("git", "-C", dir, "hash-object", "-w", "--stdin", "--no-filters")
		blob.Stdin = bytes.NewReader(content)
		oid, err := blob.Output()
		if err != nil {
			p.t.Fatal(err)
		}
		git(p.t, dir, "update-index", "--add", "--cacheinfo", "100644,"+strings.TrimSpace(string(oid))+","+path)
	}
	git(p.t, dir, "-c", "user.email=eve@example.com", "-c", "user.name=Eve", "commit", "-q", "--no-verify", "-m", message)
}

// Who can push, and reads the group dev only, puts a file of prod where dev's files are, and waits for a rotation.
func TestRotationNeverSealsAnothersFileForNewReaders(t *testing.T) {
	alice := begun(t)
	alice.apply(alice.edit().CreateGroup(t.Context(), rekey.NewGroup{
		Name: "dev", Members: []groups.Member{{Kind: groups.Person, Name: "alice"}}, Patterns: []string{"dev/**"},
	}))
	const planted = "dev/planted.yaml"
	alice.plant("Add dev's settings", map[string][]byte{planted: alice.stored(secret)})
	for name, plan := range map[string]func() (*rekey.Plan, error){
		"rotate": func() (*rekey.Plan, error) { return alice.edit().Rotate(t.Context(), []string{"dev"}) },
		"create group": func() (*rekey.Plan, error) {
			return alice.edit().CreateGroup(t.Context(), rekey.NewGroup{
				Name: "ops", Members: []groups.Member{{Kind: groups.Person, Name: "alice"}}, Patterns: []string{"dev/p*"},
			})
		},
	} {
		got, err := plan()
		if !errors.As(err, new(*seal.BindingError)) {
			t.Errorf("%s: %v", name, err)
		}
		if got != nil && got.Changes[planted] != nil {
			t.Errorf("%s sealed it for others", name)
		}
	}
}

func TestRotationSealsAnewWhatIsLargeTogether(t *testing.T) {
	alice := begun(t)
	const files = 33
	large, planted := bytes.Repeat([]byte("x"), 2<<20), map[string][]byte{}
	for i := range files {
		planted[fmt.Sprintf("secrets/%02d.bin", i)] = large
	}
	alice.plant("Add large files", planted)
	plan, err := alice.edit().Rotate(t.Context(), []string{"fleet"})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Resealed) != files+1 || !slices.IsSorted(plan.Resealed) {
		t.Errorf("sealed again %v", plan.Resealed)
	}
}

func TestRotationSealsAnewAndPushesALargeFile(t *testing.T) {
	const path = "secrets/large.bin"
	alice := begun(t)
	laptop := alice.elsewhere()
	large := strings.Repeat("x", 4<<20)
	alice.commit(path, large)
	alice.apply(alice.edit().Rotate(t.Context(), []string{"fleet"}))
	if _, err := alice.repo.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	git(t, laptop.repo.Root(), "fetch", "-q")
	git(t, laptop.repo.Root(), "reset", "-q", "--hard", "@{u}")
	if got, err := laptop.open(path); err != nil || string(got) != large {
		t.Errorf("elsewhere it has %d bytes, %v", len(got), err)
	}
}

func TestRotationNamesTheFileThatIsTooLargeToSeal(t *testing.T) {
	alice := begun(t)
	alice.plant("Add a file that is too large", map[string][]byte{"secrets/huge.bin": make([]byte, seal.MaxFile+1)})
	_, err := alice.edit().Rotate(t.Context(), []string{"fleet"})
	var refused *workspace.Error
	if !errors.As(err, &refused) || refused.Message != `"secrets/huge.bin" is larger than 32 MiB` || refused.Fix == "" {
		t.Errorf("error is %v", err)
	}
}

func TestRotationThatNobodyWaitsForEnds(t *testing.T) {
	alice := begun(t)
	late := errors.New("the answer is no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if _, err := alice.edit().Rotate(ctx, []string{"fleet"}); !errors.Is(err, late) {
		t.Errorf("error is %v", err)
	}
}

// elsewhere is a second clone of the person's, unlocked, with the same origin.
func (p *person) elsewhere() *person {
	p.t.Helper()
	base := p.t.TempDir()
	origin, dir := filepath.Join(base, "origin.git"), filepath.Join(base, "clone")
	git(p.t, p.repo.Root(), "clone", "-q", "--bare", ".", origin)
	git(p.t, p.repo.Root(), "remote", "add", "origin", origin)
	git(p.t, p.repo.Root(), "fetch", "-q", "origin")
	git(p.t, base, "clone", "-q", origin, dir)
	git(p.t, dir, "config", "filter.plural.process", "unlocked")
	repo, err := workspace.Find(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	repo.UseKeys(p.keys())
	return &person{p.t, p.name, p.identity, trust.Store{Dir: p.t.TempDir()}, repo}
}

// trusts confirms what stands in the clone.
func (p *person) trusts() {
	p.t.Helper()
	now, err := rekey.Stand(p.repo, nil, p.confirmed)
	if err == nil {
		err = now.Confirm()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.repo.UseKeys(p.keys())
}

// A rotation is pushed while a file is still being sealed for the identity that it retires: on top of the rotation, that
// file would be open to whoever was just taken out.
func TestPushRefusesWhatIsSealedForARetiredIdentity(t *testing.T) {
	alice := begun(t)
	laptop := alice.elsewhere()
	laptop.trusts()
	laptop.commit("secrets/new.yaml", "token: canary\n")
	alice.apply(alice.edit().Rotate(t.Context(), []string{"fleet"}))
	if _, err := alice.repo.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := laptop.repo.Push(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"secrets/new.yaml" is sealed for epoch 1`) {
		t.Errorf("pushed: %v", err)
	}

	// The other way round: the rotation comes second, and has not seen the file.
	alice = begun(t)
	laptop = alice.elsewhere()
	laptop.trusts()
	laptop.commit("secrets/new.yaml", "token: canary\n")
	if _, err := laptop.repo.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	alice.apply(alice.edit().Rotate(t.Context(), []string{"fleet"}))
	if _, err := alice.repo.Push(t.Context()); err == nil || !strings.Contains(err.Error(), `"secrets/new.yaml" is sealed for epoch 1`) {
		t.Errorf("pushed: %v", err)
	}
}

// What others put in another file's place stays sealed when Push catches up with it: in clear it would be sealed for
// whoever reads that place.
func TestPushOpensNothingThatWasPutInAnothersPlace(t *testing.T) {
	alice := begun(t)
	alice.apply(alice.edit().CreateGroup(t.Context(), rekey.NewGroup{
		Name: "dev", Members: []groups.Member{{Kind: groups.Person, Name: "alice"}}, Patterns: []string{"dev/**"},
	}))
	laptop := alice.elsewhere()
	laptop.trusts()
	laptop.plant("Tune dev", map[string][]byte{"dev/planted.yaml": laptop.stored(secret)})
	git(t, laptop.repo.Root(), "push", "-q", "origin", "HEAD")
	alice.commit("README.md", "mine\n")
	if _, err := alice.repo.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	disk, err := os.ReadFile(filepath.Join(alice.repo.Root(), "dev/planted.yaml"))
	if err != nil || !seal.IsSealed(disk) {
		t.Errorf("the work tree holds %q, %v", disk, err)
	}
}

// A policy that somebody else has changed does not let this program put a sealed file into git in clear.
func TestCommitKeepsSealedWhatAnUnconfirmedPolicyGivesUp(t *testing.T) {
	alice := begun(t)
	policyFile := filepath.Join(alice.repo.Root(), policy.File)
	text, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err = policy.WithPattern(text, "secrets/**", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func() error{
		"pattern": func() error { return os.WriteFile(policyFile, text, 0o644) },
		"policy":  func() error { return os.Remove(policyFile) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		git(t, alice.repo.Root(), "checkout", "-q", "HEAD", "--", secret) // as git keeps it: there is no filter here
		id, err := alice.repo.Commit(t.Context(), "Edit", map[string][]byte{secret: []byte("password: canary2\n")})
		if err == nil || !strings.Contains(err.Error(), "sealed") {
			t.Errorf("without the %s: commit %q, %v", name, id, err)
		}
	}
}
