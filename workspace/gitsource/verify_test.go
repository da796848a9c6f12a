package gitsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/test/support/needs"
)

// signer makes git sign with an SSH key, and gives the check that knows it.
func signer(t *testing.T, r *repo) func(context.Context, verify.Object) error {
	t.Helper()
	needs.Program(t, "ssh-keygen", "openssh-client")
	key, public := newKey(t)
	file := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(file, key, 0o600))
	r.git("config", "gpg.format", "ssh")
	r.git("config", "user.signingKey", file)
	keys, err := verify.ParseKeys(ssh.MarshalAuthorizedKey(public))
	must(t, err)
	return func(_ context.Context, o verify.Object) error {
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
		if !errors.Is(err, verify.ErrUnsigned) || len(changed) > 1 {
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
	if !errors.Is(err, verify.ErrUnknownKey) {
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

// signing is a repository whose commits are signed, with one of them, and the options of a source that wants that.
func signing(t *testing.T) (*repo, *front, Options) {
	t.Helper()
	r := newRepo(t)
	f := r.serve()
	o := f.options()
	o.Check = signer(t, r)
	r.git("config", "commit.gpgSign", "true")
	r.git("config", "uploadpack.allowFilter", "true")
	r.commit("a", "1")
	return r, f, o
}

func TestASignedTagCountsUnderItsOwnNameOnly(t *testing.T) {
	r, _, o := signing(t)
	r.git("tag", "-s", "-m", "one", "v1.0.0")
	r.git("tag", "-s", "-m", "outer", "outer", "v1.0.0")
	object := r.git("rev-parse", "v1.0.0")
	for _, ref := range []string{"refs/tags/v2.0.0", "refs/heads/released", "refs/tags/sub/v1.0.0"} {
		r.git("update-ref", "--no-deref", "refs/tags/carrier", object)
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(r.dir, ".git", ref)), 0o755))
		must(t, os.WriteFile(filepath.Join(r.dir, ".git", ref), []byte(object+"\n"), 0o600)) // git itself puts no tag under heads
	}
	m := follow(t, o)
	_, err := m.try("v1.0.0", "refs/tags/v1.0.0", "outer", object, "v2.0.0", "released", "sub/v1.0.0", "carrier")
	m.says(err, `"v2.0.0"`, `signed as the tag "v1.0.0"`, `"released"`, "a tag's object where a branch's commit", `"sub/v1.0.0"`, `"carrier"`)
	for _, ref := range []string{"v1.0.0", "refs/tags/v1.0.0", "outer", object} {
		m.want(ref, "a", "1")
	}
	for _, ref := range []string{"v2.0.0", "released", "sub/v1.0.0", "carrier"} {
		if _, err := m.Snapshot(ref); err == nil {
			t.Errorf("%s is served", ref)
		}
	}
}

func TestABranchPassesForNoTagThatIsNamedInFull(t *testing.T) {
	r, _, o := signing(t)
	r.git("update-ref", "refs/heads/refs/tags/v1.0.0", "HEAD")
	m := follow(t, o)
	_, err := m.try("refs/tags/v1.0.0")
	m.says(err, "no such branch or tag")
	if _, err := m.Snapshot("refs/tags/v1.0.0"); err == nil {
		t.Error("it is served")
	}
}

func TestALightweightTagOfASignedCommitIsNotBelieved(t *testing.T) {
	r, _, o := signing(t)
	r.git("tag", "v1")
	m := follow(t, o)
	_, err := m.try("v1", r.git("rev-parse", "main"))
	m.says(err, `"v1"`, "lightweight", "git tag -s")
	m.want(r.git("rev-parse", "main"), "a", "1")
	if _, err := m.Snapshot("v1"); err == nil {
		t.Error("it is served")
	}
}

// lying says of every commit that it came out of every other.
func lying(w http.ResponseWriter, req *http.Request, git http.Handler) {
	body, _ := io.ReadAll(req.Body)
	if req.Method == http.MethodPost && bytes.Contains(body, []byte("shallow ")) && bytes.Contains(body, []byte("multi_ack_detailed side-band-64k")) {
		_, id, _ := bytes.Cut(body, []byte("have "))
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = io.WriteString(w, packet("ACK "+string(id[:40])+" common\n", "ACK "+string(id[:40])+" ready\n"))
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	git.ServeHTTP(w, req)
}

func TestAVerifiedBranchDoesNotGoBack(t *testing.T) {
	ways := map[string]func(f *front, o *Options){
		"http":                 func(*front, *Options) {},
		"first protocol":       func(f *front, _ *Options) { f.behave(old) },
		"a server that lies":   func(f *front, _ *Options) { f.behave(lying) },
		"file":                 nil,
		"rewinds are followed": func(_ *front, o *Options) { o.Rewinds = RewindsFollow },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			r, f, o := signing(t)
			if way == nil {
				o.URL, o.AllowFile = "file://"+r.dir, true
			} else {
				way(f, &o)
			}
			first := r.git("rev-parse", "HEAD")
			r.commit("a", "2")
			second := r.git("rev-parse", "HEAD")
			dir := t.TempDir()
			followInto(t, o, dir).fetch("main", "")
			for what, at := range map[string]string{"an older commit": first, "another history": elsewhere(r, first)} {
				r.git("update-ref", "refs/heads/main", at)
				m := followInto(t, o, dir)
				var err error
				for range lagTurns + 1 { // at first a server may lag
					_, err = m.try("main", "")
				}
				if o.Rewinds == RewindsFollow {
					must(t, err)
					if got := m.Tips()["main"].Commit; got != at {
						t.Errorf("%s: at %s", what, got)
					}
					continue
				}
				m.says(err, "cannot be shown that this came out of it", second[:12])
				m.want("main", "a", "2")
				m.want("", "a", "2")
			}
			r.git("update-ref", "refs/heads/main", second)
			r.git("reset", "-q", "--hard", "main")
			r.commit("a", "3")
			m := followInto(t, o, dir)
			m.fetch("main", "")
			m.want("main", "a", "3")
		})
	}
}

// elsewhere is a signed commit beside what came out of another.
func elsewhere(r *repo, from string) string {
	r.git("checkout", "-q", "-b", "elsewhere", from)
	defer r.git("checkout", "-q", "main")
	return r.commit("a", "elsewhere")
}

func TestABranchHasToComeOutOfItsFloor(t *testing.T) {
	for name, behave := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"http": nil, "first protocol": old, "a server that lies": lying,
	} {
		t.Run(name, func(t *testing.T) {
			r, f, o := signing(t)
			f.behave(behave)
			first := r.git("rev-parse", "HEAD")
			o.DescendsFrom = r.commit("a", "2")
			r.git("branch", "old", first)
			r.git("branch", "floor")
			elsewhere(r, first)
			for i := range 5 {
				r.git("checkout", "-q", "-b", fmt.Sprint("side", i))
				r.commit(fmt.Sprint("side", i), "x")
				r.git("checkout", "-q", "main")
				r.commit("a", fmt.Sprint(i+3))
				r.git("merge", "-q", "-m", "merge", fmt.Sprint("side", i))
			}
			dir := t.TempDir()
			m := followInto(t, o, dir)
			_, err := m.try("main", "floor", "old", "elsewhere", "")
			m.says(err, `"old"`, `"elsewhere"`, "floor "+o.DescendsFrom[:12])
			m.want("main", "a", "7")
			m.want("", "a", "7")
			m.want("floor", "a", "2")
			for _, ref := range []string{"old", "elsewhere"} {
				if _, err := m.Snapshot(ref); err == nil {
					t.Errorf("%s is served", ref)
				}
			}
			before := m.src.Traffic()
			_, err = m.try("main", "floor", "old", "elsewhere", "")
			m.says(err, `"old"`, `"elsewhere"`)
			if after := m.src.Traffic(); after.Requests-before.Requests > 2 {
				t.Errorf("%d requests for what was judged before", after.Requests-before.Requests)
			}
			r.commit("a", "8")
			m.fetch("main")
			m.want("main", "a", "8")

			o.DescendsFrom = r.git("rev-parse", "elsewhere")
			_, err = followInto(t, o, dir).try("main")
			m.says(err, "floor "+o.DescendsFrom[:12]) // a floor that comes later is said of what is served
			m.want("main", "a", "8")
		})
	}
}

func TestHistoryFromBeforeTheKeysHoldsNothingUp(t *testing.T) {
	r := newRepo(t)
	o := r.serve().options()
	first := r.commit("a", "1")
	r.commit("a", "2")
	dir := t.TempDir()
	followInto(t, o, dir).fetch("main")
	o.Check = signer(t, r)
	r.git("config", "commit.gpgSign", "true")
	r.git("reset", "-q", "--hard", first)
	r.commit("a", "3")
	m := followInto(t, o, dir)
	m.fetch("main")
	m.want("main", "a", "3")
}
