package render

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/kustomizeurl"
)

// checkKustomization refuses what a kustomization file may ask of kustomize but never of us, and names what it refers to
// and is not there, since kustomize says neither in a way that finds the line.
func checkKustomization(t *tree, name string, data []byte) error {
	root, found := inspect(document{line: 1, text: data})
	if found != nil || root == nil || root.Content[0].Kind != yaml.MappingNode {
		return nil // kustomize has its own words for it
	}
	if found := inlineFlaw(root); found != nil {
		return place{name, found.line}.invalid("%s", found.message)
	}
	fields := root.Content[0].Content
	for i := 0; i+1 < len(fields); i += 2 {
		key, value := fields[i], fields[i+1]
		field := fieldOf(key.Value)
		if field == "helmChartInflationGenerator" && len(value.Content) > 0 {
			return noInflation(place{name, key.Line})
		}
		for _, reference := range references(field, value) {
			if err := checkReference(t, name, field, reference); err != nil {
				return err
			}
		}
	}
	return nil
}

// inlineFlaw looks into the texts of a kustomization, since patches and generators may be YAML inside YAML.
func inlineFlaw(n *yaml.Node) *flaw {
	if n.Kind == yaml.ScalarNode && mayAlias([]byte(n.Value)) {
		for _, doc := range split([]byte(n.Value)) {
			if _, found := inspect(doc); found != nil && found.deadly {
				return &flaw{line: n.Line, message: found.message}
			}
		}
	}
	for _, child := range n.Content {
		if found := inlineFlaw(child); found != nil {
			return found
		}
	}
	return nil
}

func noInflation(at place) *Error {
	return at.refused("write it as helmCharts: kustomize edit fix", "charts are inflated as helmCharts alone")
}

func checkReference(t *tree, name, field string, reference *yaml.Node) error {
	at := place{name, reference.Line}
	target := reference.Value
	if kustomizeurl.Is(target) {
		return nil // what it means is looked at when it is read
	}
	if !slices.Contains([]string{"resources", "bases", "components"}, field) || path.IsAbs(target) {
		return nil
	}
	file := path.Join(path.Dir(name), target)
	if escapes := file == ".." || strings.HasPrefix(file, "../"); escapes || !confined(name, file) {
		return at.refused("", "%q lies outside the repository", target)
	}
	if !t.isFile(file) && !t.isDir(file) {
		return at.invalid("%q does not exist", target)
	}
	return nil
}

// fieldOf is the field that a key of a kustomization means: kustomize reads keys in any case.
func fieldOf(key string) string {
	for _, field := range []string{
		"resources", "bases", "components", "crds", "configurations", "generators", "transformers", "validators", "patchesStrategicMerge",
		"openapi", "patches", "patchesJson6902", "replacements", "configMapGenerator", "secretGenerator",
		"helmCharts", "helmGlobals", "helmChartInflationGenerator", "buildMetadata",
	} {
		if strings.EqualFold(field, key) {
			return field
		}
	}
	return key
}

// references are the nodes of a kustomization's field that name files, folders or addresses.
func references(field string, value *yaml.Node) []*yaml.Node {
	switch field {
	case "resources", "bases", "components", "crds", "configurations", "generators", "transformers", "validators", "patchesStrategicMerge":
		return scalars(value)
	case "openapi":
		return under(value, "path")
	case "patches", "patchesJson6902", "replacements":
		return each(value, "path")
	case "configMapGenerator", "secretGenerator":
		return each(value, "files", "envs", "env")
	}
	return nil
}

// scalars are value's items that stand on one line: longer ones are objects written in place.
func scalars(value *yaml.Node) []*yaml.Node {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	if value.Kind == yaml.ScalarNode {
		return []*yaml.Node{value}
	}
	var found []*yaml.Node
	for _, item := range value.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind == yaml.ScalarNode && !strings.Contains(item.Value, "\n") {
			found = append(found, item)
		}
	}
	return found
}

func each(list *yaml.Node, keys ...string) []*yaml.Node {
	var found []*yaml.Node
	for _, item := range list.Content {
		found = append(found, under(item, keys...)...)
	}
	return found
}

func under(mapping *yaml.Node, keys ...string) []*yaml.Node {
	var found []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		isNamed := func(key string) bool { return strings.EqualFold(key, mapping.Content[i].Value) }
		if slices.ContainsFunc(keys, isNamed) {
			found = append(found, scalars(mapping.Content[i+1])...)
		}
	}
	return found
}
