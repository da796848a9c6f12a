package verify_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/test/support/needs"
)

// world is a repository whose objects real programs sign.
type world struct {
	testing.TB
	dir, gnupg string
	env        []string
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	needs.Program(tb, "git", "git")
	w := &world{TB: tb, dir: tb.TempDir()}
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
	}
	w.git("init", "-q", "-b", "main")
	return w
}

func (w *world) try(stdin []byte, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(w.Context(), name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = w.dir, w.env, bytes.NewReader(stdin)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

func (w *world) run(name string, args ...string) string {
	w.Helper()
	out, err := w.try(nil, name, args...)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

func (w *world) git(args ...string) string {
	w.Helper()
	return strings.TrimSuffix(w.run("git", args...), "\n")
}

func (w *world) write(name, text string) string {
	w.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return file
}

func (w *world) read(name string) string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

// raw is an object's body.
func (w *world) raw(kind, name string) []byte {
	w.Helper()
	return []byte(w.run("git", "cat-file", kind, name))
}

// store puts a body into the repository as it is.
func (w *world) store(kind string, body []byte) string {
	w.Helper()
	id, err := w.try(body, "git", "hash-object", "-t", kind, "-w", "--stdin", "--literally")
	if err != nil {
		w.Fatal(err)
	}
	return strings.TrimSpace(id)
}

// sshKey makes a key whose comment is its name, and gives its public line.
func (w *world) sshKey(name string, args ...string) string {
	w.Helper()
	needs.Program(w, "ssh-keygen", "openssh-client")
	if len(args) == 0 {
		args = []string{"-t", "ed25519"}
	}
	w.run("ssh-keygen", append([]string{"-q", "-N", "", "-C", name, "-f", name}, args...)...)
	return strings.TrimSpace(w.read(name + ".pub"))
}

// signWith has git sign with an SSH key, and trust the lines of allowed_signers.
func (w *world) signWith(key, allowed string) {
	w.Helper()
	w.git("config", "gpg.format", "ssh")
	w.git("config", "user.signingkey", filepath.Join(w.dir, key))
	w.git("config", "gpg.ssh.allowedSignersFile", w.write("allowed_signers", allowed))
}

// gpgKey makes a key in a keyring of this world, and has git sign with it.
func (w *world) gpgKey(name string, args ...string) (armored string) {
	w.Helper()
	needs.Program(w, "gpg", "gnupg")
	home, err := os.MkdirTemp("", "gpg") // a short path: the agent's socket stands in it
	if err != nil {
		w.Fatal(err)
	}
	w.gnupg, w.env = home, append(w.env, "GNUPGHOME="+home)
	w.Cleanup(func() {
		kill := exec.Command("gpgconf", "--kill", "all")
		kill.Env = w.env
		_ = kill.Run()
		_ = os.RemoveAll(home)
	})
	if len(args) == 0 {
		args = []string{"ed25519", "sign", "never"}
	}
	options, what := args[:len(args)-3], args[len(args)-3:]
	w.run("gpg", append(append([]string{"--batch", "--passphrase", ""}, options...), append([]string{"--quick-gen-key", name}, what...)...)...)
	w.git("config", "gpg.format", "openpgp")
	w.git("config", "user.signingkey", name)
	return w.run("gpg", "--export", "--armor", name)
}

func (w *world) commit(args ...string) string {
	w.Helper()
	w.git(append([]string{"commit", "-q", "--allow-empty", "-m", "A change\n\nwith more lines\n"}, args...)...)
	return w.git("rev-parse", "HEAD")
}

func (w *world) keys(files ...string) *verify.Keys {
	w.Helper()
	var all [][]byte
	for _, file := range files {
		all = append(all, []byte(file))
	}
	keys, err := verify.ParseKeys(all...)
	if err != nil {
		w.Fatal(err)
	}
	return keys
}

// verdict is what we say of an object; git's own has to be the same.
func (w *world) verdict(keys *verify.Keys, kind, id string) (string, error) {
	w.Helper()
	o, err := verify.Split(kind, w.raw(kind, id))
	if err != nil {
		return "", err
	}
	by, err := keys.Git(o)
	_, theirs := w.try(nil, "git", "verify-"+kind, id)
	if (err == nil) != (theirs == nil) {
		w.Errorf("of %s %s git says %v, and we say %v", kind, id, theirs, err)
	}
	return by, err
}

func (w *world) good(keys *verify.Keys, kind, id, who string) {
	w.Helper()
	if by, err := w.verdict(keys, kind, id); err != nil || !strings.Contains(by, who) {
		w.Errorf("%s %s: got %q, %v; want it signed by %q", kind, id, by, err, who)
	}
}

func (w *world) bad(keys *verify.Keys, kind, id string, want error, words string) {
	w.Helper()
	if by, err := w.verdict(keys, kind, id); !errors.Is(err, want) || by != "" || !strings.Contains(err.Error(), words) {
		w.Errorf("%s %s: got %q, %v; want %v with %q", kind, id, by, err, want, words)
	}
}

func TestWhatSSHSignedIsVerifiedAsGitDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.sshKey("ada"), w.sshKey("eve")
	w.signWith("ada", "ada@example.com "+ada+"\n")
	keys := w.keys("# who may\n\nada@example.com " + ada + "\n")
	w.good(keys, "commit", w.commit("-S"), "ada@example.com (SSH SHA256:")
	w.git("tag", "-s", "-m", "A release\n\n-----BEGIN nothing\n", "v1")
	w.good(keys, "tag", "v1", "ada@example.com")
	w.good(w.keys(ada), "commit", "HEAD", "ada (SSH SHA256:")

	w.bad(keys, "commit", w.commit(), verify.ErrUnsigned, "the commit is not signed")
	w.git("tag", "-a", "-m", "No signature", "v2")
	w.bad(keys, "tag", "v2", verify.ErrUnsigned, "the tag is not signed")

	fingerprint := strings.Fields(w.run("ssh-keygen", "-l", "-f", "eve.pub"))[1]
	w.git("config", "user.signingkey", filepath.Join(w.dir, "eve"))
	w.bad(keys, "commit", w.commit("-S"), verify.ErrUnknownKey, fingerprint)
	w.signWith("eve", "eve@example.com "+eve+"\n")
	w.good(w.keys(ada+"\n"+eve), "commit", "HEAD", "eve")
}

func TestWhatGnuPGSignedIsVerifiedAsGitDoes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"rsa2048", "sign", "never"}, {"nistp256", "sign", "never"}} {
		w := newWorld(t)
		key := w.gpgKey("Ada <ada@example.com>", args...)
		keys := w.keys(key)
		w.good(keys, "commit", w.commit("-S"), "Ada <ada@example.com> (OpenPGP ")
		w.git("tag", "-s", "-m", "A release", "v1")
		w.good(keys, "tag", "v1", "Ada <ada@example.com>")
		w.good(w.keys(w.run("gpg", "--export")), "commit", "HEAD", "Ada")

		other := newWorld(t)
		strangers := other.keys(other.gpgKey("Eve <eve@example.com>"))
		o, err := verify.Split("commit", w.raw("commit", "HEAD"))
		if err != nil {
			t.Fatal(err)
		}
		fingerprint := w.fingerprint()
		if _, err := strangers.Git(o); !errors.Is(err, verify.ErrUnknownKey) || !strings.Contains(err.Error(), fingerprint) {
			t.Errorf("got %v, want an unknown key %s", err, fingerprint)
		}
	}
}

func TestAnObjectThatWasDoctoredAfterItWasSignedIsRefused(t *testing.T) {
	t.Parallel()
	ssh, gpg := newWorld(t), newWorld(t)
	line := ssh.sshKey("ada")
	ssh.signWith("ada", "ada "+line)
	for w, keys := range map[*world]*verify.Keys{ssh: ssh.keys(line), gpg: gpg.keys(gpg.gpgKey("Ada <ada@example.com>"))} {
		body := w.raw("commit", w.commit("-S"))
		w.git("tag", "-s", "-m", "A change", "v1")
		doctored := w.store("commit", bytes.Replace(body, []byte("A change"), []byte("B change"), 1))
		w.bad(keys, "commit", doctored, verify.ErrBad, "changed after it was signed")
		another := w.store("commit", bytes.Replace(body, []byte("\nauthor Ada"), []byte("\nauthor Eve"), 1))
		w.bad(keys, "commit", another, verify.ErrBad, "changed")
		tag := w.store("tag", bytes.Replace(w.raw("tag", "v1"), []byte("A change"), []byte("B change"), 1))
		w.bad(keys, "tag", tag, verify.ErrBad, "changed")
	}
}

func TestASignatureOverAnotherObjectIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := w.sshKey("ada")
	w.signWith("ada", "ada "+line)
	first := w.raw("commit", w.commit("-S"))
	unsigned := w.raw("commit", w.commit())
	o, err := verify.Split("commit", first)
	if err != nil {
		t.Fatal(err)
	}
	head, message, _ := bytes.Cut(unsigned, []byte("\n\n"))
	header := "\ngpgsig " + strings.ReplaceAll(strings.TrimSuffix(string(o.Signature), "\n"), "\n", "\n ")
	moved := w.store("commit", bytes.Join([][]byte{append(head, header...), message}, []byte("\n\n")))
	w.bad(w.keys(line), "commit", moved, verify.ErrBad, "not over this content")
}

func TestHeadersThatProgramsReadDifferentlyAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := w.sshKey("ada")
	w.signWith("ada", "ada "+line)
	body := w.raw("commit", w.commit("-S"))
	tree, rest, _ := bytes.Cut(body, []byte("\n"))
	before := func(text string) []byte {
		return bytes.Join([][]byte{tree, append([]byte(text), rest...)}, []byte("\n"))
	}
	for name, doctored := range map[string][]byte{
		"two signatures":             before("gpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n"),
		"a header no one signs":      before("gpgsig-plural evil\n"),
		"another tree behind":        append(append([]byte{}, tree...), append([]byte("\n"), append(tree, append([]byte("\n"), rest...)...)...)...),
		"a tree that is not first":   append([]byte("author x\n"), body...),
		"nothing":                    nil,
		"a line that continues none": append([]byte(" x\n"), body...),
	} {
		if o, err := verify.Split("commit", doctored); !errors.Is(err, verify.ErrMalformed) {
			t.Errorf("%s: got %+v, %v", name, o, err)
		}
	}
	// The one that git lets through and everybody drops alike: the signature under the other hash.
	id := w.store("commit", before("gpgsig-sha256 something\n else\n"))
	w.good(w.keys(line), "commit", id, "ada")
}

func TestTagsThatProgramsReadDifferentlyAreRefused(t *testing.T) {
	t.Parallel()
	const id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	const rest = "type commit\ntag v1\ntagger A <a@b> 1 +0000\n\nmessage\n"
	if o, err := verify.Split("tag", []byte("object "+id+"\n"+rest)); err != nil || len(o.Signature) > 0 {
		t.Fatalf("got %+v, %v", o, err)
	}
	for name, body := range map[string]string{
		"two objects": "object " + id + "\nobject " + id + "\n" + rest,
		"no object":   rest, "nothing": "", "one that is not first": "type commit\nobject " + id + "\n" + rest,
		"a header no one signs": "object " + id + "\ngpgsig-plural evil\n" + rest,
		"two signatures":        "object " + id + "\ngpgsig a\ngpgsig b\n" + rest,
	} {
		if o, err := verify.Split("tag", []byte(body)); !errors.Is(err, verify.ErrMalformed) {
			t.Errorf("%s: got %+v, %v", name, o, err)
		}
	}
	for _, kind := range []string{"", "tree", "blob", "Commit"} {
		if o, err := verify.Split(kind, []byte("tree "+id+"\n\nmessage\n")); !errors.Is(err, verify.ErrMalformed) {
			t.Errorf("a %q: got %+v, %v", kind, o, err)
		}
	}
}

func TestAMergedTagIsPartOfWhatIsSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := w.sshKey("ada")
	w.signWith("ada", "ada "+line)
	w.commit()
	w.git("checkout", "-q", "-b", "side")
	w.commit("-m", "of the side")
	w.git("tag", "-s", "-m", "From the side", "side-1")
	w.git("checkout", "-q", "main")
	w.commit("-m", "of the main line")
	w.git("merge", "-q", "-S", "--no-edit", "side-1")
	body := w.raw("commit", "HEAD")
	if !bytes.Contains(body, []byte("\nmergetag object ")) {
		t.Fatal("git made no mergetag header")
	}
	keys := w.keys(line)
	w.good(keys, "commit", "HEAD", "ada")
	w.bad(keys, "commit", w.store("commit", bytes.Replace(body, []byte("From the side"), []byte("From the hide"), 1)), verify.ErrBad, "")
}

func TestARepositoryOfSHA256SignsUnderAnotherHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir = t.TempDir()
	w.git("init", "-q", "-b", "main", "--object-format=sha256")
	line := w.sshKey("ada")
	w.signWith("ada", "ada "+line)
	w.good(w.keys(line), "commit", w.commit("-S"), "ada")
	if body := w.raw("commit", "HEAD"); !bytes.Contains(body, []byte("\ngpgsig-sha256 ")) {
		t.Fatalf("git signed elsewhere: %s", body)
	}
	w.git("tag", "-s", "-m", "A release", "v1")
	w.good(w.keys(line), "tag", "v1", "ada")
}

func TestASignatureForAnotherPurposeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := w.sshKey("ada")
	o := verify.Object{Kind: "commit", Payload: []byte("tree x\n")}
	w.write("payload", string(o.Payload))
	w.run("ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", "ada", "payload")
	o.Signature = []byte(w.read("payload.sig"))
	if _, err := w.keys(line).Git(o); !errors.Is(err, verify.ErrNamespace) || !strings.Contains(err.Error(), `"file"`) {
		t.Errorf("got %v", err)
	}
}

func TestTheOptionsOfAllowedSignersAreHonoured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := w.sshKey("ada")
	w.env = append(w.env, "GIT_COMMITTER_DATE=2024-06-01T12:00:00Z", "TZ=UTC")
	for _, c := range []struct {
		options string
		want    error
	}{
		{`namespaces="git"`, nil},
		{`namespaces="file,git"`, nil},
		{`namespaces="g*"`, nil},
		{`namespaces="file"`, verify.ErrNamespace},
		{`namespaces="!git,*"`, verify.ErrNamespace},
		{`valid-after="20240101",valid-before="20241231"`, nil},
		{`valid-before="20240601115959Z"`, verify.ErrExpired},
		{`valid-before="202406011201Z",namespaces="git"`, nil},
		{`valid-after="20240602"`, verify.ErrExpired},
	} {
		allowed := "ada@example.com,*@example.org " + c.options + " " + line + "\n"
		w.signWith("ada", allowed)
		id := w.commit("-S")
		if c.want == nil {
			w.good(w.keys(allowed), "commit", id, "ada@example.com")
		} else {
			w.bad(w.keys(allowed), "commit", id, c.want, "")
		}
	}
	// A later line of the same key may allow what an earlier one does not.
	both := "ada " + `valid-before="20200101" ` + line + "\nada " + `valid-after="20200101" ` + line + "\n"
	w.signWith("ada", both)
	w.good(w.keys(both), "commit", w.commit("-S"), "ada")
}

func TestWeakSSHKeysAndDigestsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	strong := w.sshKey("strong", "-t", "rsa", "-b", "2048")
	weak := w.sshKey("weak", "-t", "rsa", "-b", "1024")
	if _, err := verify.ParseKeys([]byte(weak)); !errors.Is(err, verify.ErrWeak) {
		t.Errorf("a weak key among the keys: got %v", err)
	}
	w.signWith("strong", "ada "+strong)
	w.good(w.keys(strong), "commit", w.commit("-S"), "strong")
	w.git("config", "user.signingkey", filepath.Join(w.dir, "weak"))
	id := w.commit("-S")
	w.bad(w.keys(strong), "commit", id, verify.ErrWeak, "less than 2048 bits")
}

func TestOpenPGPSignaturesOverSHA1AreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := w.keys(w.gpgKey("Ada <ada@example.com>", "rsa2048", "sign", "never"))
	for digest, want := range map[string]error{"SHA1": verify.ErrWeak, "SHA512": nil} {
		payload := w.write("payload", "tree x\n")
		w.run("gpg", "--batch", "--yes", "--armor", "--digest-algo", digest, "--detach-sign", payload)
		_, err := keys.Git(verify.Object{Kind: "commit", Payload: []byte("tree x\n"), Signature: []byte(w.read("payload.asc"))})
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", digest, err, want)
		}
	}
	if _, err := verify.ParseKeys([]byte(w.run("gpg", "--export-secret-keys", "--armor"))); err == nil ||
		!strings.Contains(err.Error(), "private key") {
		t.Errorf("a private key among the keys: got %v", err)
	}
}

// at has git run a gpg whose clock stands still; git itself is told the same time.
func (w *world) at(stamp string) {
	w.Helper()
	script := w.write("gpg-then", "#!/bin/sh\nexec gpg --faked-system-time "+stamp+" \"$@\"\n")
	if err := os.Chmod(script, 0o700); err != nil {
		w.Fatal(err)
	}
	w.git("config", "gpg.program", script)
}

func TestAnExpiredOpenPGPKeyNoLongerCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.gpgKey("Ada <ada@example.com>", "--faked-system-time", "20200101T000000", "ed25519", "sign", "2d")
	w.at("20200102T000000")
	id := w.commit("-S")
	w.git("config", "--unset", "gpg.program")
	w.bad(w.keys(key), "commit", id, verify.ErrExpired, "the key is not valid at this time: it has expired")

	fingerprint := w.fingerprint()
	w.run("gpg", "--batch", "--quick-set-expire", fingerprint, "0")
	prolonged := w.run("gpg", "--export", "--armor")
	w.good(w.keys(prolonged), "commit", id, fingerprint)
	w.good(w.keys(key, prolonged), "commit", id, fingerprint)
}

func TestARevokedOpenPGPKeyNoLongerCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.gpgKey("Ada <ada@example.com>")
	id := w.commit("-S")
	w.good(w.keys(before), "commit", id, "Ada")
	revocation, err := os.ReadFile(filepath.Join(w.gnupg, "openpgp-revocs.d", w.fingerprint()+".rev"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("revoke", strings.Replace(string(revocation), ":-----BEGIN", "-----BEGIN", 1))
	w.run("gpg", "--batch", "--import", "revoke")
	revoked := w.run("gpg", "--export", "--armor")
	w.bad(w.keys(revoked), "commit", id, verify.ErrRevoked, w.fingerprint())
	w.bad(w.keys(before, revoked), "commit", id, verify.ErrRevoked, "revoked") // an older copy does not help
}

func (w *world) fingerprint() string {
	w.Helper()
	return strings.Split(w.run("gpg", "--list-keys", "--with-colons"), "fpr:::::::::")[1][:40]
}
