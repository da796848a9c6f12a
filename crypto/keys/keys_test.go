package keys_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"filippo.io/age/plugin"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/crypto/keys"
)

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func ed25519Key(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

// rsaKey is one of few bits, which Go makes only when told that this is a test.
func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	return must(rsa.GenerateKey(rand.Reader, bits))(t)
}

// authorized is a key's line in authorized_keys, without a comment.
func authorized(t testing.TB, key crypto.Signer) string {
	t.Helper()
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(must(ssh.NewPublicKey(key.Public()))(t))))
}

// private is a key as ssh-keygen writes it.
func private(t testing.TB, key crypto.Signer, passphrase string) []byte {
	t.Helper()
	if passphrase == "" {
		return pem.EncodeToMemory(must(ssh.MarshalPrivateKey(key, "a comment"))(t))
	}
	return pem.EncodeToMemory(must(ssh.MarshalPrivateKeyWithPassphrase(key, "a comment", []byte(passphrase)))(t))
}

// underPassphrase is text as `age -p` seals it, with less work.
func underPassphrase(t testing.TB, text, passphrase string, work int, armored bool) []byte {
	t.Helper()
	to := must(age.NewScryptRecipient(passphrase))(t)
	to.SetWorkFactor(work)
	var out bytes.Buffer
	var dst io.WriteCloser = nopCloser{&out}
	if armored {
		dst = armor.NewWriter(&out)
	}
	w := must(age.Encrypt(dst, to))(t)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), dst.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// sealAndOpen says whether identities open what is sealed to a recipient.
func sealAndOpen(to age.Recipient, with ...age.Identity) error {
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "v"); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	r, err := age.Decrypt(&sealed, with...)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if string(got) != "v" {
		return errors.Join(err, fmt.Errorf("opened %q", got))
	}
	return err
}

// answer is a person who says the same each time, and counts.
func answer(text string, asked *int) keys.Passphrase {
	return func(string) (string, error) {
		*asked++
		return text, nil
	}
}

func TestPublicKeysOfAllKindsSealForTheirPrivateOnes(t *testing.T) {
	classic, strong := must(age.GenerateX25519Identity())(t), must(age.GenerateHybridIdentity())(t)
	short, long := ed25519Key(t), rsaKey(t, 2048)
	for _, c := range []struct {
		line, private string
		want          keys.Recipient
	}{
		{classic.Recipient().String(), classic.String(), keys.Recipient{Kind: keys.Age, Text: classic.Recipient().String()}},
		{" " + strong.Recipient().String() + "\r\n", strong.String(), keys.Recipient{Kind: keys.AgePQ, Text: strong.Recipient().String()}},
		{authorized(t, short) + " alice@laptop", string(private(t, short, "")), keys.Recipient{Kind: keys.SSHEd25519, Text: authorized(t, short), Comment: "alice@laptop"}},
		{authorized(t, long), string(private(t, long, "")), keys.Recipient{Kind: keys.SSHRSA, Text: authorized(t, long)}},
	} {
		t.Run(string(c.want.Kind), func(t *testing.T) {
			got := must(keys.ParseRecipient(c.line))(t)
			ids := must(keys.ParseIdentities("me.txt", []byte(c.private), nil))(t)
			if len(ids) != 1 {
				t.Fatalf("%d identities", len(ids))
			}
			if err := sealAndOpen(got, ids...); err != nil {
				t.Error(err)
			}
			if text, ok := keys.RecipientOf(ids[0]); !ok || text != c.want.Text {
				t.Errorf("RecipientOf = %q, %v; want %q", text, ok, c.want.Text)
			}
			got.Recipient = nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPostQuantumRecipientKeepsItsLabels(t *testing.T) {
	strong := must(keys.ParseRecipient(must(age.GenerateHybridIdentity())(t).Recipient().String()))(t)
	classic := must(keys.ParseRecipient(must(age.GenerateX25519Identity())(t).Recipient().String()))(t)
	if _, err := age.Encrypt(io.Discard, strong, classic); err == nil {
		t.Error("a classic key stands beside a post-quantum one")
	}
}

func TestC13UnusableKeysAreRefused(t *testing.T) {
	signing := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	for name, c := range map[string]struct{ line, says string }{
		"empty":           {"", "not a public key"},
		"a name":          {"alice", "not a public key"},
		"cut off":         {must(age.GenerateX25519Identity())(t).Recipient().String()[:40], "is it complete?"},
		"letter changed":  {"age1pq1qqqq", "is it complete?"},
		"plugin path":     {plugin.EncodeRecipient("yubikey", []byte("x"))[:8] + "/../x1qqqq", "is it complete?"},
		"plugin dots":     {plugin.EncodeRecipient("..", []byte("x")), "is it complete?"},
		"small RSA":       {authorized(t, rsaKey(t, 1024)), "RSA of 1024 bits"},
		"ECDSA":           {authorized(t, signing), "only signs"},
		"hardware":        {"sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIMMRqWlcxSpeI6lXP8vd1ZSGEYnpeWWl0Xj5yI3UEmJhAAAABHNzaDo=", "only signs"},
		"options":         {`command="x" ` + authorized(t, ed25519Key(t)), "options"},
		"two in one line": {authorized(t, ed25519Key(t))[:40] + " x", "not a public key"},
		"too long":        {strings.Repeat("a", keys.MaxText+1), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keys.ParseRecipient(c.line)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("ParseRecipient = %v, want %q", err, c.says)
			}
			if unsuitable := strings.Contains(c.says, "RSA") || c.says == "only signs"; unsuitable != errors.Is(err, keys.ErrUnsuitable) {
				t.Errorf("unsuitable: %v, want %v", err, unsuitable)
			}
		})
	}
}

func TestPrivateKeysAreNeverRepeated(t *testing.T) {
	secret := must(age.GenerateX25519Identity())(t).String()
	pluginKey := plugin.EncodeIdentity("test", []byte("0123456789abcdef"))
	for _, text := range []string{secret, strings.ToLower(secret), secret[:40], pluginKey, string(private(t, ed25519Key(t), ""))} {
		_, single := keys.ParseRecipient(text)
		_, list := keys.ParseRecipients("bob.txt", []byte("# bob\n"+text))
		for _, err := range []error{single, list} {
			if err == nil || !strings.Contains(err.Error(), "private key") || strings.Contains(err.Error(), text[len(text)-20:]) {
				t.Errorf("said: %v", err)
			}
		}
	}
	for _, text := range []string{secret[:60], secret + "A", "x" + secret, strings.Replace(pluginKey, "TEST", "../X", 1)} {
		_, err := keys.ParseIdentities("me.txt", []byte("\n"+text), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "me.txt:2: ") || strings.Contains(err.Error(), text[10:30]) {
			t.Errorf("said: %v", err)
		}
	}
}

func TestMemberFileNamesTheLineThatIsWrong(t *testing.T) {
	a, b := must(age.GenerateX25519Identity())(t).Recipient().String(), authorized(t, ed25519Key(t))
	got := must(keys.ParseRecipients("alice.txt", []byte("# Alice\r\n\r\n"+a+"\r\n  # laptop\n"+b+" alice@laptop")))(t)
	if len(got) != 2 || got[0].Text != a || got[1].Text != b || got[1].Comment != "alice@laptop" {
		t.Fatalf("read %+v", got)
	}
	many := ""
	for range keys.MaxKeys + 1 {
		many += authorized(t, ed25519Key(t)) + "\n"
	}
	for name, c := range map[string]struct{ text, says string }{
		"empty":         {"", "alice.txt: holds no public key"},
		"only comments": {"# Alice\n", "alice.txt: holds no public key"},
		"bad line":      {"# Alice\n" + a + "\nhello\n", "alice.txt:3: not a public key"},
		"again":         {b + "\n" + a + "\n" + b + " other comment\n", "alice.txt:3: the key of line 1 again"},
		"too many":      {many, fmt.Sprintf("alice.txt:%d: more than", keys.MaxKeys+1)},
		"binary":        {"\xff\xfe", "alice.txt: not a text"},
		"too large":     {strings.Repeat("#\n", keys.MaxText), "alice.txt: larger than"},
	} {
		if _, err := keys.ParseRecipients("alice.txt", []byte(c.text)); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestFingerprintIsOfTheKeyAlone(t *testing.T) {
	line := authorized(t, ed25519Key(t))
	if a, b := keys.Fingerprint(line), keys.Fingerprint("  "+line+" alice@laptop\n"); a != b || len(a) != len("sha256:")+16 {
		t.Errorf("%q and %q", a, b)
	}
	if keys.Fingerprint(line) == keys.Fingerprint(authorized(t, ed25519Key(t))) {
		t.Error("two keys have one fingerprint")
	}
	const known = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
	if got := keys.Fingerprint(known); got != "sha256:6a804773982840fa" {
		t.Errorf("Fingerprint = %q", got)
	}
}

func TestC11IdentityFilesOfAllShapesAreRead(t *testing.T) {
	a, b := must(age.GenerateX25519Identity())(t), must(age.GenerateHybridIdentity())(t)
	text := "# created: today\r\n# public key: x\r\n\r\n" + a.String() + "  \r\n" + b.String()
	ids := must(keys.ParseIdentities("me.txt", []byte(text), nil))(t)
	if len(ids) != 2 {
		t.Fatalf("%d identities, want 2", len(ids))
	}
	for i, want := range []string{a.Recipient().String(), b.Recipient().String()} {
		if got, ok := keys.RecipientOf(ids[i]); !ok || got != want {
			t.Errorf("identity %d is of %q", i, got)
		}
	}
	key := ed25519Key(t)
	crlf := bytes.ReplaceAll(private(t, key, ""), []byte("\n"), []byte("\r\n"))
	if err := sealAndOpen(must(keys.ParseRecipient(authorized(t, key)))(t), must(keys.ParseIdentities("id", crlf, nil))(t)...); err != nil {
		t.Errorf("an SSH key with CRLF: %v", err)
	}
	for name, c := range map[string]struct{ text, says string }{
		"empty":       {"", "me.txt: holds no private key"},
		"public":      {a.Recipient().String(), "me.txt:1: this is a public key"},
		"public SSH":  {authorized(t, key), "me.txt:1: this is a public key"},
		"certificate": {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "me.txt: not a private SSH key"},
		"ECDSA":       {string(private(t, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), "")), "me.txt: " + keys.ErrUnsuitable.Error()},
		"small RSA":   {string(private(t, rsaKey(t, 1024), "")), "me.txt: " + keys.ErrUnsuitable.Error()},
		"binary":      {"\xff\xfe\x00", "me.txt: not a text"},
		"too large":   {strings.Repeat("#\n", keys.MaxText), "me.txt: larger than"},
		"too many":    {strings.Repeat(a.String()+"\n", keys.MaxKeys+1), "me.txt:33: more than 32"},
	} {
		if _, err := keys.ParseIdentities("me.txt", []byte(c.text), nil); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestSSHKeyUnderPassphraseAsksOnceAndOnlyForItsOwn(t *testing.T) {
	for _, key := range []crypto.Signer{ed25519Key(t), rsaKey(t, 2048)} {
		text, own := private(t, key, "correct horse"), must(keys.ParseRecipient(authorized(t, key)))(t)
		asked := 0
		ids := must(keys.ParseIdentities("id", text, answer("correct horse", &asked)))(t)
		if public, ok := keys.RecipientOf(ids[0]); !ok || public != own.Text {
			t.Errorf("RecipientOf = %q, %v", public, ok)
		}
		other := must(keys.ParseRecipient(authorized(t, ed25519Key(t))))(t)
		if err := sealAndOpen(other, ids...); !errors.Is(err, age.ErrIncorrectIdentity) || asked != 0 {
			t.Errorf("another's: %v, asked %d times", err, asked)
		}
		for range 2 {
			if err := sealAndOpen(own, ids...); err != nil || asked != 1 {
				t.Errorf("its own: %v, asked %d times", err, asked)
			}
		}
		wrong := must(keys.ParseIdentities("id", text, answer("wrong", &asked)))(t)
		if err := sealAndOpen(own, wrong...); err == nil || errors.Is(err, age.ErrIncorrectIdentity) {
			t.Errorf("wrong passphrase: %v", err)
		}
		if _, err := keys.ParseIdentities("id", text, nil); !errors.Is(err, keys.ErrPassphrase) {
			t.Errorf("nobody to ask: %v", err)
		}
	}
}

func TestFileUnderPassphraseAsksOnceWhenFirstUsed(t *testing.T) {
	id := must(age.GenerateX25519Identity())(t)
	for _, armored := range []bool{false, true} {
		text := underPassphrase(t, "# me\n"+id.String()+"\n", "correct horse", 10, armored)
		asked := 0
		ids := must(keys.ParseIdentities("me.age", text, answer("correct horse", &asked)))(t)
		if _, ok := keys.RecipientOf(ids[0]); ok || asked != 0 {
			t.Errorf("its public half is known before it was asked for; asked %d times", asked)
		}
		for range 2 {
			if err := sealAndOpen(id.Recipient(), ids...); err != nil || asked != 1 {
				t.Errorf("%v, asked %d times", err, asked)
			}
		}
		if err := sealAndOpen(must(age.GenerateX25519Identity())(t).Recipient(), ids...); !errors.Is(err, age.ErrIncorrectIdentity) {
			t.Errorf("another's: %v", err)
		}
		if printed := fmt.Sprintf("%v %+v %#v", ids[0], ids[0], ids[0]); strings.Contains(printed, "SECRET") || !strings.Contains(printed, "[redacted]") {
			t.Errorf("printed %q", printed)
		}
		wrong := must(keys.ParseIdentities("me.age", text, answer("wrong", &asked)))(t)
		if err := sealAndOpen(id.Recipient(), wrong...); err == nil || errors.Is(err, age.ErrIncorrectIdentity) || !strings.Contains(err.Error(), "me.age: the passphrase is wrong") {
			t.Errorf("wrong passphrase: %v", err)
		}
		if _, err := keys.ParseIdentities("me.age", text, nil); !errors.Is(err, keys.ErrPassphrase) {
			t.Errorf("nobody to ask: %v", err)
		}
	}
}

func TestPassphraseThatWasNotGivenIsSaidSo(t *testing.T) {
	id := must(age.GenerateX25519Identity())(t)
	stopped := errors.New("interrupted")
	ids := must(keys.ParseIdentities("me.age", underPassphrase(t, id.String(), "x", 10, false), func(string) (string, error) { return "", stopped }))(t)
	if err := sealAndOpen(id.Recipient(), ids...); !errors.Is(err, stopped) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestC13DearPassphraseIsRefusedBeforeTheWork(t *testing.T) {
	id := must(age.GenerateX25519Identity())(t)
	cheap := underPassphrase(t, id.String(), "x", 10, false)
	dear := bytes.Replace(cheap, []byte(" 10\n"), []byte(" 23\n"), 1)
	asked := 0
	ids := must(keys.ParseIdentities("me.age", dear, answer("x", &asked)))(t)
	if err := sealAndOpen(id.Recipient(), ids...); err == nil || !strings.Contains(err.Error(), "2^18") {
		t.Errorf("said: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	id := must(age.GenerateX25519Identity())(f)
	key := ed25519Key(f)
	for _, seed := range [][]byte{
		[]byte(id.String()), []byte("# x\r\n" + id.Recipient().String()), []byte(authorized(f, key) + " c"), private(f, key, ""),
		[]byte(plugin.EncodeRecipient("test", []byte("x"))), []byte(plugin.EncodeIdentity("test", []byte("x"))), []byte("-----BEGIN"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if list, err := keys.ParseRecipients("f", text); err == nil {
			for _, r := range list {
				again, err := keys.ParseRecipient(r.Text)
				if err != nil || again.Text != r.Text || again.Kind != r.Kind {
					t.Errorf("%q reads back as %+v, %v", r.Text, again, err)
				}
			}
		}
		if ids, err := keys.ParseIdentities("f", text, nil); err == nil && len(ids) == 0 {
			t.Error("no identity and no error")
		}
	})
}
