package gitsource

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/crypto/signed"
	"github.com/pluralsh/plural/internal/needs"
)

// signer makes git sign with an SSH key, and gives the check that knows it.
func signer(t *testing.T, r *repo) func(signed.Object) error {
	t.Helper()
	needs.Program(t, "ssh-keygen", "openssh-client")
	key, public := newKey(t)
	file := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(file, key, 0o600))
	r.git("config", "gpg.format", "ssh")
	r.git("config", "user.signingKey", file)
	keys, err := signed.ParseKeys(ssh.MarshalAuthorizedKey(public))
	must(t, err)
	return func(o signed.Object) error {
		_, err := keys.Git(o)
		return err
	}
}

func TestAnUnsignedCommitIsNotFollowedAndTheReasonIsSaid(t *testing.T) {
	r := newRepo(t)
	o := r.serve().options()
	o.Check = signer(t, r)
	r.git("config", "commit.gpgSign", "true")
	r.commit("a", "1")
	m := follow(t, o)
	m.fetch("main", "")
	r.git("config", "commit.gpgSign", "false")
	r.commit("a", "2")
	r.git("branch", "other", "HEAD~1")
	for range 2 {
		changed, err := m.try("main", "", "other")
		m.says(err, `"main"`, "is not verified", "not signed")
		if !errors.Is(err, signed.ErrUnsigned) || len(changed) > 1 {
			t.Errorf("changed = %q, %v", changed, err)
		}
		m.want("main", "a", "1")
		m.want("other", "a", "1")
	}
	before := m.src.Traffic()
	_, err := m.try("main")
	m.says(err, "not signed")
	if after := m.src.Traffic(); after.Requests-before.Requests != 1 {
		t.Errorf("%d requests for what was refused before", after.Requests-before.Requests)
	}
	r.git("config", "commit.gpgSign", "true")
	r.commit("a", "3")
	m.fetch("main")
	m.want("main", "a", "3")
}

func TestACommitByAStrangerIsNotFollowed(t *testing.T) {
	r := newRepo(t)
	o := r.file()
	o.Check = signer(t, r)
	r.git("config", "commit.gpgSign", "true")
	r.commit("a", "1")
	m := follow(t, o)
	m.fetch("main")
	signer(t, r)
	r.commit("a", "2")
	_, err := m.try("main")
	if !errors.Is(err, signed.ErrUnknownKey) {
		t.Errorf("Fetch: %v", err)
	}
	m.want("main", "a", "1")
}

func TestATagIsJudgedByItsOwnSignature(t *testing.T) {
	r := newRepo(t)
	o := r.serve().options()
	o.Check = signer(t, r)
	r.commit("a", "1")
	r.git("tag", "-s", "-m", "one", "signed")
	r.git("tag", "-a", "-m", "one", "unsigned")
	r.git("tag", "light")
	dir := t.TempDir()
	m := followInto(t, o, dir)
	_, err := m.try("signed", "unsigned", "light")
	m.says(err, `"unsigned"`, "tag", `"light"`, "commit", "is not verified")
	m.want("signed", "a", "1")
	if _, err := m.Snapshot("light"); err == nil {
		t.Error("a lightweight tag of an unsigned commit is taken")
	}
	m = followInto(t, o, dir)
	m.fetch("signed")
	m.want("signed", "a", "1")
}

func TestACheckThatComesLaterIsSaidOfWhatIsServed(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	dir := t.TempDir()
	followInto(t, r.file(), dir).fetch("main")
	o := r.file()
	o.Check = signer(t, r)
	m := followInto(t, o, dir)
	_, err := m.try("main")
	m.says(err, "not signed")
	m.want("main", "a", "1")
}
