package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/workspace/snapshot"
	"go.yaml.in/yaml/v3"
)

// Bounds of one closure.
const (
	maxKustomization  = 1 << 20 // bytes of one file
	maxKustomizations = 1_000   // folders followed
	maxReferences     = 20_000  // paths looked up
	maxClosureDepth   = 64      // folders referring to folders
)

// reference is one path that a kustomization names.
type reference struct {
	field, path  string
	line, column int
	// optional paths need not be there.
	optional bool
}

// parsed is what one kustomization names; it depends on the file's content alone.
type parsed struct {
	refs []reference
	line int
	err  error
}

// kustomization holds the fields with paths. The yaml.Node keep the lines, and keep aliases from being written out.
type kustomization struct {
	Resources             []yaml.Node `yaml:"resources"`
	Bases                 []yaml.Node `yaml:"bases"`
	Components            []yaml.Node `yaml:"components"`
	Generators            []yaml.Node `yaml:"generators"`
	Transformers          []yaml.Node `yaml:"transformers"`
	Validators            []yaml.Node `yaml:"validators"`
	Configurations        []yaml.Node `yaml:"configurations"`
	CRDs                  []yaml.Node `yaml:"crds"`
	PatchesStrategicMerge []yaml.Node `yaml:"patchesStrategicMerge"`
	Patches               []withPath  `yaml:"patches"`
	PatchesJSON6902       []withPath  `yaml:"patchesJson6902"`
	Replacements          []withPath  `yaml:"replacements"`
	OpenAPI               withPath    `yaml:"openapi"`
	ConfigMapGenerator    []generator `yaml:"configMapGenerator"`
	SecretGenerator       []generator `yaml:"secretGenerator"`
	HelmGlobals           struct {
		ChartHome yaml.Node `yaml:"chartHome"`
	} `yaml:"helmGlobals"`
	HelmCharts []chart `yaml:"helmCharts"`
}

type withPath struct {
	Path yaml.Node `yaml:"path"`
}

type generator struct {
	Files []yaml.Node `yaml:"files"`
	Envs  []yaml.Node `yaml:"envs"`
	Env   yaml.Node   `yaml:"env"`
}

type chart struct {
	ValuesFile            yaml.Node   `yaml:"valuesFile"`
	AdditionalValuesFiles []yaml.Node `yaml:"additionalValuesFiles"`
}

// parseKustomization reads the paths out of a kustomization file.
func parseKustomization(data []byte) parsed {
	var k kustomization
	if err := yaml.Unmarshal(data, &k); err != nil {
		return badYAML(err)
	}
	var c collector
	c.list("resources", k.Resources)
	c.list("bases", k.Bases)
	c.list("components", k.Components)
	c.list("generators", k.Generators)
	c.list("transformers", k.Transformers)
	c.list("validators", k.Validators)
	c.list("configurations", k.Configurations)
	c.list("crds", k.CRDs)
	c.list("patchesStrategicMerge", k.PatchesStrategicMerge)
	c.paths("patches", k.Patches)
	c.paths("patchesJson6902", k.PatchesJSON6902)
	c.paths("replacements", k.Replacements)
	c.add("openapi", &k.OpenAPI.Path)
	c.generators("configMapGenerator", k.ConfigMapGenerator)
	c.generators("secretGenerator", k.SecretGenerator)
	c.charts(&k.HelmGlobals.ChartHome, k.HelmCharts)
	return parsed{refs: c.refs}
}

// collector gathers references.
type collector struct{ refs []reference }

// add takes a path, unless the node is nothing, not text, or a document written in place.
func (c *collector) add(field string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.Value == "" || strings.Contains(n.Value, "\n") {
		return
	}
	c.refs = append(c.refs, reference{field: field, path: n.Value, line: n.Line, column: n.Column})
}

func (c *collector) list(field string, nodes []yaml.Node) {
	for i := range nodes {
		c.add(field, &nodes[i])
	}
}

func (c *collector) paths(field string, items []withPath) {
	for i := range items {
		c.add(field, &items[i].Path)
	}
}

// generators takes files written as "path" or "key=path".
func (c *collector) generators(field string, items []generator) {
	for i := range items {
		first := len(c.refs)
		c.list(field, items[i].Files)
		for j := range c.refs[first:] {
			if _, file, ok := strings.Cut(c.refs[first+j].path, "="); ok {
				c.refs[first+j].path = file
			}
		}
		c.list(field, items[i].Envs)
		c.add(field, &items[i].Env)
	}
}

// charts takes the folder of local charts, which need not be there, and values files.
func (c *collector) charts(home *yaml.Node, charts []chart) {
	first := len(c.refs)
	c.add("helmGlobals", home)
	for i := range c.refs[first:] {
		c.refs[first+i].optional = true
	}
	for i := range charts {
		c.add("helmCharts", &charts[i].ValuesFile)
		c.list("helmCharts", charts[i].AdditionalValuesFiles)
	}
}

// yamlLine is where the YAML library puts its line.
var yamlLine = regexp.MustCompile(`line (\d+): `)

func badYAML(err error) parsed {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	var types *yaml.TypeError
	if errors.As(err, &types) {
		message = types.Errors[0]
	}
	p := parsed{err: errors.New(message)}
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		p.line, _ = strconv.Atoi(m[1]) // digits only; out of range reads as unknown
		p.err = errors.New(strings.Replace(message, m[0], "", 1))
	}
	return p
}

// closure lists the files and folders that a folder's kustomization refers to, and theirs.
func (r *Resolver) closure(snap *snapshot.Snapshot, dir string) ([]string, *fault) {
	w := &closureWalk{r: r, snap: snap, seen: map[string]bool{}}
	if f := w.folder(dir, 0); f != nil {
		return nil, f
	}
	return w.inputs, nil
}

// closureWalk follows references from folder to folder.
type closureWalk struct {
	r      *Resolver
	snap   *snapshot.Snapshot
	seen   map[string]bool
	inputs []string
	looked int
}

func (w *closureWalk) folder(dir string, depth int) *fault {
	if w.seen[dir] {
		return nil
	}
	w.seen[dir] = true
	if depth > maxClosureDepth || len(w.seen) > maxKustomizations {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("kustomizations refer to each other more than %d levels deep or %d times", maxClosureDepth, maxKustomizations), fix: "flatten them"}
	}
	file := kustomizationFile(w.snap, dir)
	if file == "" {
		return nil // the render says what is missing
	}
	found, err := w.parse(file)
	if err != nil {
		return unreadable(err)
	}
	if found.err != nil {
		return &fault{field: "spec.source.path", file: file, line: found.line, message: "read kustomization: " + found.err.Error()}
	}
	for _, ref := range found.refs {
		if f := w.follow(dir, ref, depth); f != nil {
			f.file, f.line, f.column = file, ref.line, ref.column
			return f
		}
	}
	return nil
}

// parse reads a kustomization once for each content. The error is one of reading.
func (w *closureWalk) parse(file string) (parsed, error) {
	id, _, err := w.snap.Hash(file)
	if err != nil {
		return parsed{}, err
	}
	if known, ok := w.r.refs.get(id); ok {
		return known, nil
	}
	found, err := readKustomization(w.snap.FS(), file)
	if err == nil {
		w.r.refs.set(id, found)
	}
	return found, err
}

func readKustomization(fsys fs.FS, file string) (parsed, error) {
	info, err := fs.Stat(fsys, file)
	if err != nil {
		return parsed{}, err
	}
	if info.Size() > maxKustomization {
		return parsed{err: fmt.Errorf("file is larger than %d MiB", maxKustomization>>20)}, nil
	}
	data, err := fs.ReadFile(fsys, file)
	if err != nil {
		return parsed{}, err
	}
	return parseKustomization(data), nil
}

// follow adds what one reference points to. Remote ones are left to the render, which refuses them.
func (w *closureWalk) follow(dir string, ref reference, depth int) *fault {
	if w.looked++; w.looked > maxReferences {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("more than %d references", maxReferences), fix: "split the service"}
	}
	if strings.Contains(ref.path, "://") {
		return nil
	}
	name := path.Join(dir, ref.path)
	if path.IsAbs(ref.path) || !fs.ValidPath(name) {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("%s: %q leaves the repository", ref.field, ref.path), fix: "refer to files of this repository only"}
	}
	name, mode, err := w.find(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (ref.optional || looksRemote(ref.path)):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &fault{field: "spec.source.path", message: fmt.Sprintf("%s: %q does not exist", ref.field, ref.path), fix: "correct or remove it"}
	case err != nil:
		return unreadable(err)
	}
	w.inputs = append(w.inputs, name)
	if mode.IsDir() {
		return w.folder(name, depth+1)
	}
	return nil
}

// find looks for a path, or for the template that the render makes it from.
func (w *closureWalk) find(name string) (string, fs.FileMode, error) {
	_, mode, err := w.snap.Hash(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, mode, err
	}
	if _, mode, err := w.snap.Hash(name + templateSuffix); err == nil {
		return name + templateSuffix, mode, nil
	}
	return name, 0, err
}

// looksRemote recognises git addresses without a scheme, such as github.com/org/repo//path?ref=v1 and git@host:repo.
func looksRemote(p string) bool {
	if strings.ContainsAny(p, ":?") || strings.Contains(p, "//") {
		return true
	}
	host, _, ok := strings.Cut(p, "/")
	return ok && strings.Contains(strings.Trim(host, "."), ".")
}
