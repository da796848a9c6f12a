package groups

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/seal"

	"github.com/pluralsh/plural/test/support/needs"
)

func TestThePlainAgeToolOpensEnvelopesAndThenFiles(t *testing.T) {
	tool := needs.Program(t, "age", "the package age")
	w := newWorld(t, "alice")
	w.create("prod", "alice")
	w.rotate("alice", []string{"prod"})
	dir := t.TempDir()
	put := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	open := func(name, identity string, sealed []byte) []byte {
		var complaints bytes.Buffer
		cmd := exec.Command(tool, "-d", "-i", identity, put(name+".age", sealed))
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, complaints.String())
		}
		return out
	}
	me := put("me.txt", []byte(w.people["alice"].(*age.X25519Identity).String()+"\n"))
	second := put("second.txt", open("envelope", me, w.files[EnvelopeFile("prod", Member{Person, "alice"})].Data))
	first := put("first.txt", open("retired", second, w.files[retiredFile("prod", 1)].Data))

	ring := w.ring("alice")
	for epoch, identity := range map[int]string{1: first, 2: second} {
		to, err := keys.ParseRecipient(publicOf(mustIdentity(t, ring, "prod", epoch)))
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := seal.Seal([]byte("hello"), seal.Binding{Repository: repository, Path: "a", Groups: []seal.Epoch{{Group: "prod", Number: epoch}}}, to)
		if err != nil {
			t.Fatal(err)
		}
		if got := open("file", identity, sealed); string(got) != "hello" {
			t.Errorf("epoch %d: got %q", epoch, got)
		}
	}
}
