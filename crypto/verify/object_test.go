package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/crypto/verify"
)

const publicLine = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDkbNSyjuG95n38m5X5EBxtbDxu05QQTpDdAa9zIYZu0"

func TestLinesThatAreNoKeysSayWhichAndRepeatNothing(t *testing.T) {
	t.Parallel()
	for line, words := range map[string]string{
		"ada " + strings.Replace(publicLine, "Zu0", "Zu", 1):      "line 2: not an SSH public key",
		"ada bad-option " + publicLine:                            `line 2: unknown option "bad-option"`,
		"ada cert-authority " + publicLine:                        "line 2: certificates are not supported",
		`ada valid-after="soon" ` + publicLine:                    "line 2: bad time",
		`command="x y" ` + publicLine:                             "line 2: options before an SSH key",
		"ssh-dss AAAAB3NzaC1kc3MAAAAA":                            "line 2: not an SSH public key",
		"ssh-rsa" + strings.TrimPrefix(publicLine, "ssh-ed25519"): "line 2: not an SSH public key", // of another type than it says
		"no-pty" + strings.TrimPrefix(publicLine, "ssh-ed25519"):  "line 2: not an SSH public key",
		"ada \xff":     "not a file of public keys",
		certificate(t): "line 2: certificates are not supported",
		dsaLine():      "line 2: the SSH key is too weak to count: \"ssh-dss\"",
	} {
		_, err := verify.ParseKeys([]byte(publicLine), []byte("# a comment\n"+line+"\n"))
		if err == nil || !strings.Contains(err.Error(), "key file 2 of 2: "+words) || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%s: got %v, want %q", line, err, words)
		}
	}
}

// A key that counted until some time must not count again by an object that does not say, or not in numbers, when it was made.
func TestAnObjectWithoutATimeIsMadeNow(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer := must(verify.ParseSigner(pem.EncodeToMemory(must(ssh.MarshalPrivateKey(private, ""))(t))))(t)
	keys := must(verify.ParseKeys([]byte(`ada valid-before="20200101" ` + string(signer.Public()))))(t)
	const people = "tree x\ncommitter A <a@b>"
	for payload, want := range map[string]error{
		people + " 1500000000 +0000\n\nx": nil,
		people + " 1600000000 +0000\n\nx": verify.ErrExpired,
		"tree x\n\nx":                     verify.ErrExpired,
		people + "\n\nx":                  verify.ErrExpired,
		people + " soon +0000\n\nx":       verify.ErrExpired,
		people + " -5 +0000\n\nx":         verify.ErrExpired,
		people + " 1500000000 +0000\ncommitter A <a@b> 1500000000 +0000\n\nx": verify.ErrExpired,
	} {
		o := verify.Object{Kind: "commit", Payload: []byte(payload), Signature: must(signer.Git([]byte(payload)))(t)}
		if _, err := keys.Git(o); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", payload, err, want)
		}
	}
}

func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat(publicLine+"\n", 999)
	if _, err := verify.ParseKeys([]byte(lines), []byte(publicLine)); err != nil {
		t.Errorf("a thousand: %v", err)
	}
	if _, err := verify.ParseKeys([]byte(lines), []byte(publicLine+"\n"+publicLine)); err == nil || err.Error() != "more than 1000 keys" {
		t.Errorf("one more: %v", err)
	}
	long := []byte(publicLine + "\n" + strings.Repeat("# a comment\n", 100_000))
	if _, err := verify.ParseKeys(long); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := verify.ParseSigner(long); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file of a private key: %v", err)
	}
}

// certificate is the line of a key that somebody certified.
func certificate(t *testing.T) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	authority := must(ssh.NewSignerFromKey(private))(t)
	cert := &ssh.Certificate{Key: authority.PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(cert))
}

// dsaLine is a key as ssh-keygen made it long ago.
func dsaLine() string {
	one := big.NewInt(1)
	key := ssh.Marshal(struct {
		Type       string
		P, Q, G, Y *big.Int
	}{"ssh-dss", new(big.Int).SetBit(one, 1023, 1), new(big.Int).SetBit(one, 159, 1), big.NewInt(2), big.NewInt(3)})
	return "ssh-dss " + base64.StdEncoding.EncodeToString(key)
}

func TestQuotesHoldWhatHasABlankTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := w.sshKey("ada")
	for allowed, who := range map[string]string{
		`"ada lovelace" ` + line:                     "ada lovelace (SSH",
		`ada namespaces="file of notes,git" ` + line: "ada (SSH",
	} {
		w.signWith("ada", "ada "+line)
		o := must(verify.Split("commit", w.raw("commit", w.commit("-S"))))(t)
		if by, err := w.keys(allowed).Git(o); err != nil || !strings.HasPrefix(by, who) {
			t.Errorf("%s: by %q, %v", allowed, by, err)
		}
	}
}

// FuzzSplit holds that nothing of a body is lost: what is not signed is the signature.
func FuzzSplit(f *testing.F) {
	const armored = "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"
	header := "gpgsig " + strings.ReplaceAll(strings.TrimSuffix(armored, "\n"), "\n", "\n ") + "\n"
	const people = "author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n"
	f.Add("commit", []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"+people+header+"\nmessage\n"))
	f.Add("commit", []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"+people+"mergetag object 00\n type commit\n\nmessage\n"))
	f.Add("tag", []byte("object 00\ntype commit\ntag v1\ntagger A <a@b> 1 +0000\n\nmessage\n"+armored))
	f.Add("commit", []byte("tree\n \n\n"))
	f.Add("tag", []byte("object \ngpgsig-sha256\n \n"))
	keys := must(verify.ParseKeys([]byte(publicLine)))(f)
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		before := bytes.Clone(body)
		o, err := verify.Split(kind, body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			return
		}
		if len(o.Payload)+len(o.Signature) > len(body) {
			t.Errorf("%d bytes became %d and %d", len(body), len(o.Payload), len(o.Signature))
		}
		again, err := verify.Split(kind, o.Payload)
		if err != nil || kind == "commit" && (len(again.Signature) > 0 || !bytes.Equal(again.Payload, o.Payload)) {
			t.Errorf("what was signed is signed itself: %q, %v", again.Signature, err)
		}
		if by, err := keys.Git(o); err == nil {
			t.Errorf("signed by %s", by)
		}
	})
}
