package resolve

import (
	"errors"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/kustomizeurl"
	"github.com/pluralsh/plural/internal/yamlerror"
)

// reference is one path that a kustomization names.
type reference struct {
	field, path  string
	line, column int
	// optional paths need not be there.
	optional bool
	// folder says that it may be a folder with a kustomization of its own; any other folder is read as a whole.
	folder bool
}

// parsed is what one kustomization names; it depends on the file's content alone.
type parsed struct {
	refs   []reference
	charts []inflation
	// wide says that it may read files of its folder that only those name which it names.
	wide bool
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
	HelmCharts []chart     `yaml:"helmCharts"`
	Inflated   []yaml.Node `yaml:"helmChartInflationGenerator"`
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
	Name                  yaml.Node   `yaml:"name"`
	Repo                  string      `yaml:"repo"`
	Version               string      `yaml:"version"`
	ValuesFile            yaml.Node   `yaml:"valuesFile"`
	AdditionalValuesFiles []yaml.Node `yaml:"additionalValuesFiles"`
}

// parseKustomization reads the paths out of a kustomization file.
func parseKustomization(data []byte) parsed {
	var root yaml.Node
	var k kustomization
	err := yaml.Unmarshal(data, &root)
	if err == nil && root.Kind != 0 {
		foldKeys(&root)
		err = root.Decode(&k)
	}
	if err != nil {
		return badYAML(err)
	}
	var c collector
	c.folders("resources", k.Resources)
	c.folders("bases", k.Bases)
	c.folders("components", k.Components)
	c.folders("generators", k.Generators)
	c.folders("transformers", k.Transformers)
	c.folders("validators", k.Validators)
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
	wide := len(k.Generators)+len(k.Transformers)+len(k.Validators)+len(k.HelmCharts)+len(k.Inflated) > 0
	return parsed{refs: c.refs, charts: inflations(k.HelmGlobals.ChartHome.Value, k.HelmCharts), wide: wide}
}

// foldKeys writes the names of fields as they stand above: kustomize takes them in any case.
func foldKeys(n *yaml.Node) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			for _, field := range fields() {
				if strings.EqualFold(child.Value, field) {
					child.Value = field
				}
			}
		}
		foldKeys(child)
	}
}

func fields() []string {
	return []string{
		"resources", "bases", "components", "generators", "transformers", "validators", "configurations", "crds",
		"patchesStrategicMerge", "patches", "path", "patchesJson6902", "replacements", "openapi", "configMapGenerator",
		"secretGenerator", "files", "envs", "env", "helmGlobals", "chartHome", "helmCharts", "valuesFile", "additionalValuesFiles",
		"helmChartInflationGenerator", "name", "repo", "version",
	}
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

// folders takes paths of files, and of folders with kustomizations.
func (c *collector) folders(field string, nodes []yaml.Node) {
	first := len(c.refs)
	c.list(field, nodes)
	for i := range c.refs[first:] {
		c.refs[first+i].folder = true
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
			if _, file, ok := strings.Cut(c.refs[first+j].path, "="); ok && !kustomizeurl.Is(c.refs[first+j].path) {
				c.refs[first+j].path = file
			}
		}
		c.list(field, items[i].Envs)
		c.add(field, &items[i].Env)
	}
}

// charts takes the folder of local charts, which need not be there, and values files. Those of a chart's own come with it.
func (c *collector) charts(home *yaml.Node, charts []chart) {
	first := len(c.refs)
	c.add("helmGlobals", home)
	for i := range c.refs[first:] {
		c.refs[first+i].optional = true
	}
	for i := range charts {
		first := len(c.refs)
		c.add("helmCharts", &charts[i].ValuesFile)
		c.list("helmCharts", charts[i].AdditionalValuesFiles)
		unpacked := path.Join(kustomizeurl.ChartHome(home.Value, charts[i].Name.Value, charts[i].Repo, charts[i].Version), charts[i].Name.Value)
		for j := range c.refs[first:] {
			_, c.refs[first+j].optional = below(path.Clean(c.refs[first+j].path), unpacked)
		}
	}
}

func badYAML(err error) parsed {
	message := err.Error()
	var types *yaml.TypeError
	if errors.As(err, &types) {
		message = types.Errors[0]
	}
	line, message := yamlerror.Line(message)
	return parsed{err: errors.New(yamlerror.Plain(message)), line: line}
}
