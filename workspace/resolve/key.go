package resolve

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
)

// keyPrefix starts every deployment key; it changes with the encoding below.
const keyPrefix = "d2-"

// rendererVersion changes when a renderer makes other objects of the same input, so that every cluster renders again.
func rendererVersion(renderer string) string {
	versions := map[string]string{rendererRaw: "1", rendererKustomize: "1", rendererHelm: "2"}
	return versions[renderer] // a plugin's is known to the agent alone
}

// deploymentKey hashes all that a render sees. It leaves out how the result is applied.
func deploymentKey(d *Deployment) string {
	e := encoder{sha256.New()}
	e.text(d.Bundle, d.Renderer, rendererVersion(d.Renderer), d.Service, d.Path, d.Namespace)
	e.dictionary(d.Parameters)
	e.flag(d.Helm != nil)
	if d.Helm != nil {
		e.text(d.Helm.Release, string(d.Helm.ValuesJSON))
		e.list(d.Helm.ValuesFiles)
	}
	e.flag(d.OwnRepository)
	e.text(d.SecretsBundle)
	e.size(len(d.Secrets))
	for _, s := range d.Secrets {
		e.text(s.Name, s.Path, s.Type)
		e.flag(s.TemplateOnly)
	}
	if len(d.Mounts) > 0 { // nothing is written for none, so that a service keeps its key from before there were any
		e.size(len(d.Mounts))
	}
	for _, m := range d.Mounts {
		e.text(m.At, m.Bundle)
		e.flag(m.OwnRepository)
	}
	e.chart(d)
	return keyPrefix + hex.EncodeToString(e.sum.Sum(nil))
}

// chart writes what a chart's render does beyond its values. Nothing is written for a chart that asks for none of it, so
// that it keeps its key from before it could.
func (e encoder) chart(d *Deployment) {
	if d.Helm == nil || !d.Helm.Lookup && !d.Helm.Record && !d.Helm.SkipCRDs {
		return
	}
	if len(d.Mounts) == 0 { // what comes next would read as the count of mounts
		e.size(0)
	}
	e.flag(d.Helm.Lookup)
	e.flag(d.Helm.Record)
	e.flag(d.Helm.SkipCRDs)
	if d.Helm.Lookup { // it sees what the account may read
		e.text(d.ServiceAccount)
	}
}

// encoder writes values so that no two different sequences of values give the same bytes: each text after its length,
// each list after its count.
type encoder struct{ sum hash.Hash }

func (e encoder) text(values ...string) {
	for _, v := range values {
		e.size(len(v))
		e.sum.Write([]byte(v))
	}
}

func (e encoder) list(values []string) {
	e.size(len(values))
	e.text(values...)
}

func (e encoder) dictionary(m map[string]string) {
	e.size(len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		e.text(k, m[k])
	}
}

func (e encoder) flag(on bool) {
	if on {
		e.size(1)
		return
	}
	e.size(0)
}

func (e encoder) size(n int) {
	e.sum.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}
