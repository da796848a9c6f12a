package store_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
)

// TestAPowerCutLeavesNoEmptyFileUnderAGoodName watches the calls to the system: what is renamed was synced before, and its folder is after.
func TestAPowerCutLeavesNoEmptyFileUnderAGoodName(t *testing.T) {
	const asked = "PLURAL_TEST_STORE"
	if dir := os.Getenv(asked); dir != "" {
		if err := open(t, dir).SaveBundle("b1-a", []byte("bytes")); err != nil {
			t.Fatal(err)
		}
		return
	}
	strace := needs.Program(t, "strace", "the package strace")
	log := filepath.Join(t.TempDir(), "calls")
	child := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-y", "-e", "trace=fsync,renameat,renameat2", "-o", log,
		os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), asked+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	order := regexp.MustCompile(`fsync\([0-9]+<[^>]*/b1-a\.[A-Z0-9]+\.tmp>\)(?s:.*)renameat2?\((?s:.*)fsync\([0-9]+<[^>]*/bundles>\)`)
	if !order.Match(calls) {
		t.Errorf("not in the order of file, name, folder:\n%s", strings.TrimSpace(string(calls)))
	}
}
