package render

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"
)

// notes is the name of the template whose print is for a reader.
const notes = "NOTES.txt"

// renderHelm renders the chart at the path as a first install would, without a cluster to ask.
func renderHelm(j *job) ([]manifest, error) {
	c, err := loadChart(j)
	if err != nil {
		return nil, err
	}
	values, err := chartValues(j, c)
	if err != nil {
		return nil, err
	}
	j.traits.Capabilities = mentionsCapabilities(j, c)
	recorded := unmarked(c)
	printed, err := execute(j, c, values)
	if err != nil {
		return nil, err
	}
	all, err := chartManifests(j, c, printed)
	if err != nil {
		return nil, err
	}
	if j.Helm.Record {
		if j.record, err = recordRelease(j, recorded, printed); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// chartManifests are the CRDs and everything that was printed.
func chartManifests(j *job, c *chart.Chart, printed map[string]string) ([]manifest, error) {
	var all []manifest
	if !j.Helm.SkipCRDs {
		for _, crd := range c.CRDObjects() {
			found, err := readPrinted(j, j.chartFile(crd.Filename), crd.File.Data, 0)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(printed)) {
		if path.Base(name) == notes {
			continue
		}
		found, err := printedManifests(j, j.chartFile(name), printed[name])
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return withoutCopies(j, withoutShadows(j, all)), nil
}

// mentionsCapabilities tells whether a template can see the cluster's API versions, also by tpl of a value or a file.
func mentionsCapabilities(j *job, c *chart.Chart) bool {
	word := []byte("Capabilities")
	if bytes.Contains(j.Helm.ValuesJSON, word) {
		return true
	}
	for _, name := range j.Helm.ValuesFiles {
		if data, err := j.read(name); err == nil && bytes.Contains(data, word) {
			return true
		}
	}
	return mentions(c, word)
}

func mentions(c *chart.Chart, word []byte) bool {
	says := func(file *common.File) bool { return bytes.Contains(file.Data, word) }
	return slices.ContainsFunc(c.Templates, says) || slices.ContainsFunc(c.Files, says) || slices.ContainsFunc(c.Raw, says) ||
		slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return mentions(d, word) })
}

// loadChart reads the chart, and refuses one that helm would not install.
func loadChart(j *job) (*chart.Chart, error) {
	at := place{file: path.Join(j.Path, "Chart.yaml")}
	j.working(at.file)
	files, err := chartFiles(j)
	if err != nil {
		return nil, err
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, chartFlaw(j, at, err)
	}
	if c.Metadata.Type == "library" {
		return nil, at.invalid("is a library chart: it renders nothing")
	}
	if missing := missingDependencies(c); len(missing) > 0 {
		names := make([]string, len(missing))
		for i, d := range missing {
			names[i] = d.Name
		}
		e := at.invalid("dependencies are not in charts/: %s", strings.Join(names, ", "))
		e.Fix = vendor(j.Path, missing)
		return nil, e
	}
	return c, nil
}

// chartFlaw gives the loader's error the place of the first of the chart's own files that is not proper YAML.
func chartFlaw(j *job, at place, err error) error {
	for _, base := range []string{"Chart.yaml", "values.yaml"} {
		name := path.Join(j.Path, base)
		for _, doc := range split(j.tree.files[name]) {
			if _, found := inspect(doc); found != nil {
				return place{name, found.line}.invalid("%s", found.message)
			}
		}
	}
	return at.invalid("load chart: %v", err)
}

func chartFiles(j *job) ([]*archive.BufferedFile, error) {
	rules, err := ignore.Parse(bytes.NewReader(j.tree.files[path.Join(j.Path, ignore.HelmIgnore)]))
	if err != nil {
		return nil, place{file: path.Join(j.Path, ignore.HelmIgnore)}.invalid("%v", err)
	}
	rules.AddDefaults()
	var files []*archive.BufferedFile
	for _, name := range j.tree.below(j.Path) {
		inside := strings.TrimPrefix(name, j.Path+"/")
		if ignored(rules, inside) {
			continue
		}
		if err := notPointer(name, j.tree.files[name]); err != nil {
			return nil, err
		}
		data := bytes.TrimPrefix(j.tree.files[name], []byte("\uFEFF"))
		files = append(files, &archive.BufferedFile{Name: inside, Data: data})
	}
	return files, nil
}

// ignored applies .helmignore to a file and to every folder above it.
func ignored(rules *ignore.Rules, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if rules.Ignore(dir, entry{name: path.Base(dir), dir: true}) {
			return true
		}
	}
	return rules.Ignore(name, entry{name: path.Base(name)})
}

func missingDependencies(c *chart.Chart) []*chart.Dependency {
	var missing []*chart.Dependency
	for _, wanted := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(have *chart.Chart) bool { return have.Name() == wanted.Name }) {
			missing = append(missing, wanted)
		}
	}
	return missing
}

// chartFile turns "chart/templates/x.yaml" into a path of the repository.
func (j *job) chartFile(name string) string {
	_, inside, _ := strings.Cut(name, "/")
	return path.Join(j.Path, inside)
}
