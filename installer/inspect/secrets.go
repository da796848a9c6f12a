package inspect

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sops"
)

// readable warns of a Secret whose values stand in a file of the installation repo that is not sealed: whoever reads the repo reads
// them. What a chart or a template makes of values is not looked into, nor are the repositories of others.
func (i *inspector) readable(at *place) {
	d, file := at.locate.deployment, at.origin.File
	if at.object.GetKind() != "Secret" || at.object.GetAPIVersion() != "v1" || !d.OwnRepository ||
		d.Helm != nil || file == "" || path.Ext(file) == ".tmpl" {
		return
	}
	for _, field := range []string{"data", "stringData"} {
		if !at.locate.holds(at.origin, field) {
			continue
		}
		if text, err := fs.ReadFile(d.Snapshot.FS(), file); err == nil && sops.IsSOPS(file, text) {
			return
		}
		sealed := strings.TrimSuffix(file, path.Ext(file)) + ".secret.yaml" // which the first policy seals
		before, after := "", ""
		switch p, err := policy.Load(d.Snapshot.FS()); {
		case err != nil: // no policy, or one of which others tell what is wrong
			before = "plural crypto init, then "
		default:
			if _, is, _ := p.Match(file); is {
				return
			}
			if _, will, _ := p.Match(sealed); !will {
				before = "add a pattern for it to " + policy.File + ", then "
			}
		}
		if d.Renderer == render.Kustomize {
			after = ", once the kustomization names it so"
		}
		i.tell(&i.report.Warnings, at.finding([]string{field}, field+": everybody who can read the repo can read it",
			fmt.Sprintf("%sgit mv %s %s && git add --renormalize %s seals it%s; git's history keeps what was committed, so change the values too",
				before, file, sealed, sealed, after)))
		return
	}
}

// holds says whether an object's field, a map, has a text in it as its file is written.
func (l *locator) holds(origin render.Origin, field string) bool {
	for _, d := range l.documents(origin.File) {
		if d.Line != origin.Line {
			continue
		}
		_, values := child(d, field)
		if values == nil || values.Kind != yaml.MappingNode {
			return false
		}
		for n := 1; n < len(values.Content); n += 2 {
			if values.Content[n].Value != "" {
				return true
			}
		}
	}
	return false
}
