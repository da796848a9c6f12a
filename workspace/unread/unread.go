// Package unread owns the check for parameters and Helm values that nothing reads.
//
// It refuses to know what templates do. What looks as if it reads a name counts as reading it, also in a comment, and where a template
// takes all parameters or values at once, or cannot be read here, nothing is said.
package unread

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Name is a parameter or a value that nothing reads.
type Name struct {
	// Field is where it is set, such as spec.parameters.replcas.
	Field string
	// Nearest is what was probably meant; empty: nothing is near.
	Nearest string
	// Value says that it is a parameter, and that the chart has a value of this name.
	Value bool
}

const (
	templateSuffix = ".tmpl"
	// maxFile bounds one file that is looked into, in bytes: a longer one may read anything.
	maxFile = 1 << 20
)

// Of lists what nothing reads of what the service sets, sorted. The deployment is the service's on any cluster, and has no Hold.
func Of(d *resolve.Deployment, s *fleet.Service) []Name {
	list := parameters(d, s)
	if d.Renderer == "helm" && s.Spec.Helm != nil {
		list = append(list, values(d, s)...)
	}
	return list
}

// ClusterParameter is a parameter of clusters that no service reads.
type ClusterParameter struct {
	Name
	Clusters []string
}

// OfClusters lists those of a fleet, sorted. Packages may read any.
func OfClusters(f *fleet.Fleet) []ClusterParameter {
	if len(f.Installations) > 0 {
		return nil
	}
	read := reads{word: "cluster.parameters"}
	for i := range f.Services {
		read.take(texts(f.Services[i].Spec))
	}
	clusters := map[string][]string{}
	for i := range f.Clusters {
		for name := range f.Clusters[i].Spec.Parameters {
			clusters[name] = append(clusters[name], f.Clusters[i].Metadata.Name)
		}
	}
	var list []ClusterParameter
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		for _, unread := range read.missing("spec.parameters.", []string{name}) {
			list = append(list, ClusterParameter{unread, clusters[name]})
		}
	}
	return list
}

// parameters are those that neither a *.tmpl file nor the service's own file reads.
func parameters(d *resolve.Deployment, s *fleet.Service) []Name {
	if len(s.Spec.Parameters) == 0 || !slices.Contains([]string{"raw", "kustomize", "helm"}, d.Renderer) { // plugins see all
		return nil
	}
	read := reads{word: "parameters"}
	spec := s.Spec
	spec.Parameters = nil
	read.take(texts(spec))
	isTemplate := func(name string) bool { return path.Ext(name) == templateSuffix }
	read.files(d.Snapshot.FS(), d.Inputs, isTemplate)
	for _, m := range d.Mounts {
		read.files(m.Snapshot.FS(), m.Inputs, isTemplate)
	}
	list := read.missing("spec.parameters.", slices.Sorted(maps.Keys(s.Spec.Parameters)))
	if len(list) > 0 && d.Renderer == "helm" && len(d.Mounts) == 0 {
		known := readBy(d)
		for i := range list {
			list[i].Value = known.has(strings.Split(strings.TrimPrefix(list[i].Field, "spec.parameters."), "."))
		}
	}
	return list
}

// texts is all that a service's file says.
func texts(spec fleet.ServiceSpec) []byte {
	text, err := yaml.Marshal(spec)
	if err != nil { // it was YAML
		return nil
	}
	return text
}

// chart is which values a chart has and reads.
type chart struct {
	defaults map[string]any
	read     reads
}

func readBy(d *resolve.Deployment) *chart {
	files := d.Snapshot.FS()
	c := &chart{defaults: object(files, path.Join(d.Path, "values.yaml")), read: reads{word: "Values"}}
	c.read.files(files, d.Inputs, func(string) bool { return true })
	return c
}

// has says whether a value of this path is known to be one.
func (c *chart) has(key []string) bool {
	depth, _ := departs(c.defaults, key)
	return depth < 0 || slices.ContainsFunc(c.read.paths, func(chain []string) bool {
		return len(chain) >= len(key) && slices.Equal(chain[:len(key)], key)
	})
}

// values are those that neither the chart's own values and schema have, nor one of its templates reads.
func values(d *resolve.Deployment, s *fleet.Service) []Name {
	if len(d.Mounts) > 0 { // charts may lie in them
		return nil
	}
	files, known := d.Snapshot.FS(), readBy(d)
	read, defaults := &known.read, known.defaults
	free := subcharts(files, d.Path)
	schema, _ := object(files, path.Join(d.Path, "values.schema.json"))["properties"].(map[string]any)
	for name := range schema {
		free = append(free, name)
	}
	var list []Name
	for _, key := range leaves(nil, s.Spec.Helm.Values) {
		if slices.Contains(free, key[0]) || read.reads(key) {
			continue
		}
		depth, names := departs(defaults, key)
		if depth < 0 {
			continue
		}
		for depth < len(key)-1 && len(read.under(key[:depth+1])) > 0 {
			depth, names = depth+1, nil
		}
		nearest, _ := yamlstrict.Nearest(key[depth], append(names, read.under(key[:depth])...))
		name := Name{Field: "spec.helm.values." + strings.Join(key[:depth+1], "."), Nearest: nearest}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// subcharts are the names under which values are another chart's.
func subcharts(files fs.FS, chart string) []string {
	names := []string{"global"}
	dependencies, _ := object(files, path.Join(chart, "Chart.yaml"))["dependencies"].([]any)
	for _, item := range dependencies {
		dependency, _ := item.(map[string]any)
		name, _ := dependency["name"].(string)
		alias, _ := dependency["alias"].(string)
		names = append(names, cmp.Or(alias, name))
	}
	entries, err := fs.ReadDir(files, path.Join(chart, "charts"))
	if err != nil {
		return names
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// object is a file of YAML or JSON; empty where it cannot be read.
func object(files fs.FS, name string) map[string]any {
	var out map[string]any
	text, err := read(files, name)
	if err == nil && json.Unmarshal(text, &out) != nil {
		err = yaml.Unmarshal(text, &out)
	}
	if err != nil {
		return nil
	}
	return out
}

// leaves are the paths of all that is set.
func leaves(at []string, value any) [][]string {
	inner, ok := value.(map[string]any)
	if !ok || len(inner) == 0 {
		if len(at) == 0 {
			return nil
		}
		return [][]string{at}
	}
	var list [][]string
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		list = append(list, leaves(append(slices.Clip(at), name), inner[name])...)
	}
	return list
}

// departs is the step at which a path leaves the chart's own values, with the names that are known there; -1 where it does not: what
// is empty there may hold anything.
func departs(defaults map[string]any, key []string) (depth int, known []string) {
	at := defaults
	for n, name := range key {
		next, there := at[name]
		if !there {
			if n > 0 && len(at) == 0 {
				return -1, nil
			}
			return n, slices.Collect(maps.Keys(at))
		}
		inner, isMap := next.(map[string]any)
		if !isMap || len(inner) == 0 {
			return -1, nil
		}
		at = inner
	}
	return -1, nil
}

// reads are the paths below a word, such as .Values, that texts read.
type reads struct {
	word  string
	paths [][]string
	// all says that something reads them together, or that a file could not be looked into.
	all bool
}

// files looks into files that a condition picks.
func (r *reads) files(files fs.FS, inputs []string, picks func(name string) bool) {
	for _, input := range inputs {
		err := fs.WalkDir(files, input, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !picks(name) {
				return err
			}
			text, err := read(files, name)
			r.all = r.all || err != nil || seal.IsSealed(text) || strings.HasSuffix(name, ".tgz") && strings.Contains(name, "charts/")
			r.take(text)
			return nil
		})
		r.all = r.all || err != nil
	}
}

func read(files fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fs.ErrInvalid
	}
	return fs.ReadFile(files, name)
}

var (
	fieldChain = regexp.MustCompile(`^(?:\.\w+)+`)
	indexed    = regexp.MustCompile(`(?:index|get|hasKey)\s+\(?\$?\.?$`)
	keys       = regexp.MustCompile("^\\s+(?:(?:\"[^\"]*\"|`[^`]*`)\\s*)+")
	oneKey     = regexp.MustCompile("\"([^\"]*)\"|`([^`]*)`")
)

// take finds what a text reads.
func (r *reads) take(text []byte) {
	word := []byte(r.word)
	for {
		before, after, found := bytes.Cut(text, word)
		if !found {
			return
		}
		const look = 32 // as far as an index may stand before
		lead := before[max(0, len(before)-look):]
		text = after
		switch {
		case len(lead) == 0 || lead[len(lead)-1] != '.': // another word, or a longer one
		case fieldChain.Match(after):
			r.paths = append(r.paths, strings.Split(string(fieldChain.Find(after))[1:], "."))
		case indexed.Match(lead) && keys.Match(after):
			var chain []string
			for _, key := range oneKey.FindAllSubmatch(keys.Find(after), -1) {
				chain = append(chain, cmp.Or(string(key[1]), string(key[2])))
			}
			r.paths = append(r.paths, chain)
		case len(after) == 0 || !isWord(after[0]):
			r.all = true
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// reads says whether something reads a path, what holds it, or what it holds.
func (r *reads) reads(key []string) bool {
	return r.all || slices.ContainsFunc(r.paths, func(chain []string) bool {
		n := min(len(chain), len(key))
		return slices.Equal(chain[:n], key[:n])
	})
}

// under are the names that are read below a path.
func (r *reads) under(key []string) []string {
	var names []string
	for _, chain := range r.paths {
		if len(chain) > len(key) && slices.Equal(chain[:len(key)], key) {
			names = append(names, chain[len(key)])
		}
	}
	return names
}

// missing are the names of one level that nothing reads.
func (r *reads) missing(prefix string, names []string) []Name {
	var list []Name
	for _, name := range names {
		if !r.reads([]string{name}) {
			nearest, _ := yamlstrict.Nearest(name, r.under(nil))
			list = append(list, Name{Field: prefix + name, Nearest: nearest})
		}
	}
	return list
}
