package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/kustomize/kyaml/yaml/merge2"
	sigs "sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/internal/kustomizeurl"
)

// printsFolder is where kustomize sees what the charts of a kustomization print: in a component below its folder, which is the
// first one. So it comes after the resources and the generated ConfigMaps and Secrets, as charts do.
const printsFolder = ".helm-charts"

// inflate puts what the charts of a kustomization print in their place, as kustomize does with helm template.
func (k *kustomizeFS) inflate(at place, data []byte, fields map[string]any) error {
	var typed types.Kustomization
	if err := typed.Unmarshal(data); err != nil {
		return at.invalid("%v", err)
	}
	dir := path.Dir(at.file)
	globals := types.HelmGlobals{}
	if typed.HelmGlobals != nil {
		globals = *typed.HelmGlobals
	}
	var names []string
	for i := range typed.HelmCharts {
		one := &inflation{kustomizeFS: k, HelmChart: typed.HelmCharts[i], at: at, dir: dir, home: globals.ChartHome}
		if one.Namespace == "" {
			var err error
			if one.Namespace, err = k.chartNamespace(at, typed.Namespace); err != nil {
				return err
			}
		}
		printed, err := one.print()
		if err != nil {
			return err
		}
		if len(printed) > 0 {
			names = append(names, fmt.Sprintf("%d-%s.yaml", i, one.Name))
			k.made[path.Join(dir, printsFolder, names[len(names)-1])] = printed
		}
	}
	delete(fields, "helmCharts")
	fields["helmGlobals"] = map[string]any{} // whatever else stands in the file, it is not empty
	if len(names) == 0 {
		return nil
	}
	component, err := json.Marshal(map[string]any{"apiVersion": types.ComponentVersion, "kind": types.ComponentKind, "resources": names})
	if err != nil {
		return err
	}
	k.made[path.Join(dir, printsFolder, konfig.DefaultKustomizationFileName())] = component
	others, _ := fields["components"].([]any)
	fields["components"] = append([]any{printsFolder}, others...)
	return nil
}

// inflation is one chart of a kustomization.
type inflation struct {
	*kustomizeFS
	types.HelmChart
	at        place
	dir, home string
}

// print is what kustomize would read from helm template, marked as it marks it.
func (i *inflation) print() ([]byte, error) {
	where, err := i.find()
	if err != nil {
		return nil, err
	}
	name, err := i.release()
	if err != nil {
		return nil, err
	}
	given, err := i.values(where)
	if err != nil {
		return nil, err
	}
	j := *i.job
	j.Path, j.Namespace, j.Helm = where, cmp.Or(i.Namespace, "default"), Helm{Release: name}
	j.KubeVersion = cmp.Or(i.KubeVersion, j.KubeVersion)
	if len(j.APIVersions) == 0 || len(i.ApiVersions) > 0 {
		j.APIVersions = append(slices.Clone(common.DefaultCapabilities.APIVersions), i.ApiVersions...)
	}
	i.traits.Capabilities = true // whether it asks is not worth another look: few kustomizations hold charts
	j.lookupClient = &lookupClient{reporter: i.reporter, known: map[lookup]map[string]any{}}
	c, err := loadChart(&j)
	if err != nil {
		return nil, err
	}
	values, err := renderValues(&j, c, given)
	if err != nil {
		return nil, err
	}
	printed, err := execute(&j, c, values)
	if err != nil {
		return nil, err
	}
	text, err := i.manifest(&j, c, printed)
	if err != nil {
		return nil, err
	}
	return i.marked(text)
}

// find is the folder of the chart: below the kustomization, or where somebody else has brought it.
func (i *inflation) find() (string, error) {
	if i.Name == "" || strings.HasPrefix(i.Name, "-") || strings.HasPrefix(i.ReleaseName, "-") {
		return "", i.at.invalid("a chart wants a name, which does not start with a dash, and so does its release")
	}
	local := i.chartFolder()
	if !confined(i.at.file, local) || !fs.ValidPath(local) {
		return "", i.at.refused("", "%q lies outside the repository", path.Join(i.home, i.Name))
	}
	if i.tree.isDir(local) {
		return local, nil
	}
	if i.Repo == "" {
		return "", i.at.invalid("there is no chart in %s, and no repo is named", local)
	}
	remote, err := kustomizeurl.Chart(i.Repo, i.Name, i.Version)
	if err != nil {
		return "", i.at.invalid("chart %q: %v", i.Name, err)
	}
	if !i.tree.isDir(remote.Root()) {
		return "", missing(i.at, remote)
	}
	return remote.Root(), nil
}

// chartFolder is where kustomize keeps the chart.
func (i *inflation) chartFolder() string {
	return path.Join(i.dir, kustomizeurl.ChartHome(i.home, i.Name, i.Repo, i.Version), i.Name)
}

// release is the name that helm template gives: its own word where nobody says one.
func (i *inflation) release() (string, error) {
	name := cmp.Or(i.ReleaseName, "release-name")
	if i.NameTemplate != "" {
		if i.ReleaseName != "" {
			return "", i.at.invalid("chart %q has both releaseName and nameTemplate: keep one of them", i.Name)
		}
		var out strings.Builder
		t, err := template.New("nameTemplate").Funcs(hermetic()).Parse(i.NameTemplate)
		if err == nil {
			err = t.Execute(&out, nil)
		}
		if err != nil {
			return "", i.at.invalid("chart %q: %v", i.Name, err)
		}
		name = out.String()
	}
	if err := chartutil.ValidateReleaseName(name); err != nil {
		return "", i.at.invalid("chart %q: release %q: %v", i.Name, name, err)
	}
	return name, nil
}

// values are those that helm would be given: one file, into which kustomize has merged the values in line, and more files.
func (i *inflation) values(where string) (map[string]any, error) {
	own := path.Join(kustomizeurl.ChartHome(i.home, i.Name, i.Repo, i.Version), i.Name, "values.yaml")
	text, err := i.valuesFile(where, cmp.Or(i.ValuesFile, own))
	if err != nil && (i.ValuesFile != "" || !errors.Is(err, fs.ErrNotExist)) {
		return nil, i.at.invalid("chart %q: valuesFile: %v", i.Name, err)
	}
	if len(i.ValuesInline) > 0 {
		if text, err = i.withInline(text); err != nil {
			return nil, i.at.invalid("chart %q: values: %v", i.Name, err)
		}
	}
	given, err := loader.LoadValues(bytes.NewReader(text))
	if err != nil {
		return nil, i.at.invalid("chart %q: values: %v", i.Name, err)
	}
	for _, name := range i.AdditionalValuesFiles {
		text, err := i.valuesFile(where, name)
		if err != nil {
			return nil, i.at.invalid("chart %q: additionalValuesFiles: %v", i.Name, err)
		}
		more, err := loader.LoadValues(bytes.NewReader(text))
		if err != nil {
			return nil, i.at.invalid("chart %q: %s: %v", i.Name, name, err)
		}
		given = loader.MergeMaps(given, more)
	}
	return given, nil
}

// valuesFile reads a file of values. One that lies in the folder into which kustomize would have unpacked the chart is the
// chart's own.
func (i *inflation) valuesFile(where, name string) ([]byte, error) {
	file := path.Join(i.dir, name)
	if kustomizeurl.Is(name) {
		local, err := i.local(i.at, name)
		if err != nil {
			return nil, err
		}
		file = i.shared(path.Join(i.dir, local))
	} else if inside, ok := strings.CutPrefix(file, i.chartFolder()+"/"); ok {
		file = path.Join(where, inside)
	}
	if !confined(i.at.file, file) && !below(file, where) || !fs.ValidPath(file) {
		return nil, fmt.Errorf("%q lies outside the repository", name)
	}
	text, err := i.read(file)
	if err != nil {
		return nil, err
	}
	return text, i.judge(file, text)
}

// withInline merges as kustomize does.
func (i *inflation) withInline(text []byte) ([]byte, error) {
	merged := i.ValuesInline
	if i.ValuesMerge != "replace" {
		file, err := kyaml.Parse(string(text))
		if err != nil {
			return nil, err
		}
		inline, err := kyaml.FromMap(i.ValuesInline)
		if err != nil {
			return nil, err
		}
		var out *kyaml.RNode
		switch i.ValuesMerge {
		case "", "override":
			out, err = merge2.Merge(inline, file, kyaml.MergeOptions{})
		case "merge":
			out, err = merge2.Merge(file, inline, kyaml.MergeOptions{})
		default:
			return nil, errors.New("valuesMerge is merge, override or replace")
		}
		if err != nil {
			return nil, err
		}
		if merged, err = out.Map(); err != nil {
			return nil, err
		}
	}
	return sigs.Marshal(merged)
}

// manifest is the text that helm template prints.
func (i *inflation) manifest(j *job, c *chart.Chart, printed map[string]string) ([]byte, error) {
	for name := range printed {
		if strings.HasSuffix(name, notes) {
			delete(printed, name)
		}
	}
	hooks, plain, err := util.SortManifests(printed, nil, util.InstallOrder)
	if err != nil {
		return nil, place{file: path.Join(j.Path, "Chart.yaml")}.invalid("what it renders: %v", err)
	}
	var out bytes.Buffer
	if i.IncludeCRDs {
		for _, crd := range c.CRDObjects() {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", crd.Filename, crd.File.Data)
		}
	}
	for _, m := range plain {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", m.Name, m.Content)
	}
	for _, h := range hooks {
		if !i.SkipHooks && !(i.SkipTests && slices.Contains(h.Events, release.HookTest)) {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", h.Path, h.Manifest)
		}
	}
	if int64(out.Len()) > j.limits.Output {
		return nil, i.at.limit("chart %q renders to more than %d MiB", i.Name, j.limits.Output>>20)
	}
	return out.Bytes(), nil
}

// marked are the objects with the note by which kustomize tells a chart's from others, and takes off in the end.
func (i *inflation) marked(text []byte) ([]byte, error) {
	if err := i.judge(path.Join(i.dir, printsFolder, i.Name), text); err != nil {
		return nil, err
	}
	objects, err := resmap.NewFactory(provider.NewDefaultDepProvider().GetResourceFactory()).NewResMapFromBytes(text)
	if err != nil {
		return nil, i.at.invalid("chart %q: %s", i.Name, relative(err.Error()))
	}
	var out bytes.Buffer
	for _, object := range objects.Resources() {
		if err := object.PipeE(kyaml.SetAnnotation(konfig.HelmGeneratedAnnotation, "true")); err != nil {
			return nil, err
		}
		one, err := object.RNode.String()
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n" + one)
	}
	return out.Bytes(), nil
}

// chartNamespace is the namespace of charts that name none: that of the kustomization, else of the nearest that refers to it.
// Kustomize reads files without saying on whose behalf, so two that refer to it must be of one mind.
func (k *kustomizeFS) chartNamespace(at place, own string) (string, error) {
	if own != "" {
		return own, nil
	}
	if k.inherited == nil {
		k.inherited = map[string][]string{}
		k.inherit(path.Dir(k.root), "", map[string]bool{})
	}
	all := k.inherited[path.Dir(at.file)]
	if len(all) > 1 {
		return "", at.refused("set namespace in helmCharts",
			"charts without a namespace are referred to from the namespaces %s", strings.Join(all, ", "))
	}
	if len(all) == 0 {
		return "", nil
	}
	return all[0], nil
}

// inherit notes which namespaces kustomizations have from those that refer to them.
func (k *kustomizeFS) inherit(dir, namespace string, open map[string]bool) {
	if open[dir] || slices.Contains(k.inherited[dir], namespace) {
		return
	}
	k.inherited[dir] = append(k.inherited[dir], namespace)
	file, ok := kustomizationAt(k.tree, dir)
	if !ok {
		return
	}
	text, err := k.read(file)
	if err != nil || k.judge(file, text) != nil {
		return // kustomize comes upon it as well
	}
	var typed types.Kustomization
	if typed.Unmarshal(text) != nil {
		return
	}
	open[dir] = true
	defer delete(open, dir)
	for _, name := range slices.Concat(typed.Resources, typed.Bases, typed.Components) { //nolint:staticcheck // kustomize reads the deprecated field as well
		if kustomizeurl.Is(name) {
			local, err := k.local(place{file: file}, name)
			if err != nil {
				continue
			}
			name = local
		}
		if at := path.Join(dir, name); k.tree.isDir(at) {
			k.inherit(at, cmp.Or(typed.Namespace, namespace), open)
		}
	}
}
