package render_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/render"
)

// The child's command is wrapped, so that what the system shows of the process is kept.
func TestSecretsAreInNoArgumentAndNoEnvironment(t *testing.T) {
	const canary = "canary-55aa-correct"
	shown := filepath.Join(t.TempDir(), "shown")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := `cat /proc/$$/cmdline /proc/$$/environ >"$1"; exec "$2" render-child`
	r := &render.Renderer{Command: []string{"/bin/sh", "-c", script, "sh", shown, program}}
	in := input(render.Raw, tree("-- app/cm.yaml.tmpl --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .secrets.db.password }}}\n"))
	in.Secrets = map[string]map[string]string{"db": {"password": canary}}
	if got := text(t, mustRender(t, r, in)); !strings.Contains(got, canary) {
		t.Fatalf("got:\n%s", got)
	}
	said, err := os.ReadFile(shown)
	if err != nil || len(said) == 0 {
		t.Fatalf("nothing was seen of the child: %v", err)
	}
	if bytes.Contains(said, []byte(canary)) {
		t.Errorf("the child shows %q", said)
	}
}
