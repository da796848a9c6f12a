package keys_test

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/plugin"

	"github.com/pluralsh/plural/crypto/keys"

	"github.com/pluralsh/plural/test/support/needs"
)

// TestMain makes the test's own program a plugin when it is called by a plugin's name.
func TestMain(m *testing.M) {
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "age-plugin-"); ok {
		os.Exit(servePlugin(name))
	}
	os.Exit(m.Run())
}

// open is a recipient and an identity that hide nothing.
type open struct{ p *plugin.Plugin }

func (open) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: "open", Body: fileKey}}, nil
}

func (o open) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type != "open" {
			continue
		}
		pin, err := o.p.RequestValue("PIN", true)
		if err != nil || pin != "1234" {
			return nil, errors.Join(err, errors.New("wrong PIN"))
		}
		return s.Body, nil
	}
	return nil, age.ErrIncorrectIdentity
}

func servePlugin(name string) int {
	p, err := plugin.New(name)
	if err != nil {
		return 1
	}
	p.HandleRecipient(func([]byte) (age.Recipient, error) { return open{p}, nil })
	p.HandleIdentity(func([]byte) (age.Identity, error) { return open{p}, nil })
	p.RegisterFlags(nil)
	flag.Parse()
	return p.Main()
}

func TestPluginKeysWorkThroughTheirProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(must(os.Executable())(t), filepath.Join(dir, "age-plugin-test")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	to := must(keys.ParseRecipient(plugin.EncodeRecipient("test", []byte("x"))))(t)
	if to.Kind != keys.Plugin {
		t.Errorf("kind %q", to.Kind)
	}
	text := []byte("# a token\n" + plugin.EncodeIdentity("test", []byte("x")) + "\n")
	asked := 0
	ids := must(keys.ParseIdentities("me.txt", text, answer("1234", &asked)))(t)
	if _, ok := keys.RecipientOf(ids[0]); ok {
		t.Error("the public half of a plugin's identity is known")
	}
	if err := sealAndOpen(to, ids...); err != nil || asked != 1 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	mute := must(keys.ParseIdentities("me.txt", text, nil))(t)
	if err := sealAndOpen(to, mute...); err == nil || errors.Is(err, age.ErrIncorrectIdentity) {
		t.Errorf("nobody to ask for the PIN: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := sealAndOpen(to, ids...); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("without the program: %v", err)
	}
}

func TestKeysOfSSHKeygenAreRead(t *testing.T) {
	program := needs.Program(t, "ssh-keygen", "the OpenSSH client")
	for _, c := range []struct{ kind, format, passphrase string }{
		{"ed25519", "RFC4716", ""}, {"ed25519", "RFC4716", "correct horse"}, {"rsa", "RFC4716", "correct horse"}, {"rsa", "PEM", ""},
	} {
		path := filepath.Join(t.TempDir(), "id")
		cmd := exec.CommandContext(t.Context(), program, "-q", "-a", "4", "-t", c.kind, "-b", "2048", "-m", c.format, "-N", c.passphrase, "-C", "alice@laptop", "-f", path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		to := must(keys.ParseRecipients("id.pub", must(os.ReadFile(path+".pub"))(t)))(t)
		asked := 0
		ids := must(keys.ParseIdentities("id", must(os.ReadFile(path))(t), answer(c.passphrase, &asked)))(t)
		if err := sealAndOpen(to[0], ids...); err != nil || (asked == 1) != (c.passphrase != "") || to[0].Comment != "alice@laptop" {
			t.Errorf("%+v: %v, asked %d times, comment %q", c, err, asked, to[0].Comment)
		}
	}
}
