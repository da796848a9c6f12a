package render_test

import (
	"testing"

	"github.com/pluralsh/plural/agent/render"
)

func TestTemplatesSeeSecretsByteForByte(t *testing.T) {
	binary := "\x00\xff\xfe"
	in := input(render.Raw, tree(`
-- app/cm.yaml.tmpl --
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {url: "postgres://{{ .secrets.db.user }}:{{ index .secrets "db" "pass-word" }}@db", raw: {{ .secrets.bin.raw | b64enc }}}
`))
	in.Secrets = map[string]map[string]string{"db": {"user": "admin", "pass-word": "ünï<&>"}, "bin": {"raw": binary}}
	want := "apiVersion: v1\ndata:\n  raw: AP/+\n  url: postgres://admin:ünï<&>@db\nkind: ConfigMap\nmetadata:\n  name: web\n"
	if got := text(t, mustRender(t, newRenderer(t), in)); got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestAMissingSecretIsAnErrorAtItsLine(t *testing.T) {
	for _, name := range []string{"nope.key", "db.nope"} {
		in := input(render.Raw, tree("-- app/x.yaml.tmpl --\na: b\nc: {{ .secrets."+name+" }}\n"))
		in.Secrets = map[string]map[string]string{"db": {"user": "admin"}}
		if e := failure(t, newRenderer(t), in); e.Line != 2 || e.File != "app/x.yaml.tmpl" {
			t.Errorf("%s: %v", name, e)
		}
	}
}
