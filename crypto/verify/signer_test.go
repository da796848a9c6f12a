package verify_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/test/support/needs"
)

func TestASignerIsAnEd25519KeyWithoutAPassphrase(t *testing.T) {
	needs.Program(t, "ssh-keygen", "openssh-client")
	dir := t.TempDir()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"good":       {[]string{"-t", "ed25519", "-N", ""}, ""},
		"passphrase": {[]string{"-t", "ed25519", "-N", "hunter2"}, "passphrase"},
		"rsa":        {[]string{"-t", "rsa", "-b", "3072", "-N", ""}, "want Ed25519"},
	} {
		file := filepath.Join(dir, name)
		if out, err := exec.Command("ssh-keygen", append(test.args, "-q", "-f", file)...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
		key, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verify.ParseSigner(key); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := verify.ParseSigner([]byte("hunter2")); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("no key: %v", err)
	}
}
