package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace/fleet"
)

func TestANewTokenGoesIntoItsFileAndNowhereElse(t *testing.T) {
	f, out, errOut := person(t, "", nil)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the former one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newCmdToken(f)
	cmd.SetArgs([]string{file})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	expires, ok := fleet.OperatorExpiry(token)
	if !ok || fleet.OperatorDue(token, f.Now()) || !strings.Contains(errOut.String(), "good until "+expires.UTC().Format("2006-01-02")) {
		t.Errorf("%v, %v; said %q", expires, ok, errOut)
	}
	if strings.Contains(out.String()+errOut.String(), token) {
		t.Error("the token is shown")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
