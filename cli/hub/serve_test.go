package hub

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/ui"
)

// The Secret of an earlier release has no such key, and the pod then no such file.
func TestAHubWithoutTheSigningKeyThatItIsToldOfSaysWhatMakesOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	o := serveOptions{edits: true, signingKey: file}
	said := new(ui.Err)
	if err := o.readFiles(); !errors.As(err, &said) || said.Msg != "no signing key in "+file ||
		!strings.Contains(said.Fix, "plural up --context") {
		t.Errorf("%v; fix: %s", err, said.Fix)
	}
}
