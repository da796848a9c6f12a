package seal_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/seal"

	"github.com/pluralsh/plural/test/support/needs"
)

// program is the standard age program.
func program(t *testing.T) string {
	t.Helper()
	return needs.Program(t, "age", "the package age")
}

func run(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, stderr.Bytes())
	}
	return out
}

func TestTheAgeProgramOpensWhatIsSealedHere(t *testing.T) {
	program := program(t)
	id := must(age.GenerateX25519Identity())(t)
	identity := filepath.Join(t.TempDir(), "group.txt")
	if err := os.WriteFile(identity, []byte("# group prod epoch 2\n"+id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 10, 64 << 10, 200_000} {
		want := random(t, size)
		sealed := must(seal.Seal(want, home(), x25519(t).Recipient, id.Recipient(), sshRSA(t).Recipient))(t)
		for _, file := range [][]byte{sealed, armour(t, sealed)} {
			if got := run(t, file, program, "-d", "-i", identity); !bytes.Equal(got, want) {
				t.Errorf("%d bytes: the program read %d others", size, len(got))
			}
		}
	}
}

func TestWhatTheAgeProgramMadeOpensBoundToNothing(t *testing.T) {
	program := program(t)
	id := must(age.GenerateX25519Identity())(t)
	for _, args := range [][]string{{"-r", id.Recipient().String()}, {"-a", "-r", id.Recipient().String()}} {
		want := random(t, 100_000)
		got, binding, err := seal.Open(run(t, want, program, args...), id)
		if err != nil || !bytes.Equal(got, want) || binding != nil {
			t.Errorf("%v: Open = %d bytes, %v, %v", args, len(got), binding, err)
		}
		if binding.Check(repository, "secrets/db.yaml") == nil {
			t.Error("what is bound to nothing is at home")
		}
	}
}
