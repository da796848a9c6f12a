package compose

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
)

// mountFolder is where a chart from elsewhere sees sealed values.
const mountFolder = "plural-values"

// parametersSecret is the name under which templates find parameters that are secret: .secrets.parameters.NAME.
const parametersSecret = "parameters"

// ownSecrets refuses sealed files that are not the installation's: what lies elsewhere was sealed for others, and whoever writes
// the package decides what becomes of it on the cluster.
func (i *installing) ownSecrets(p *part, spec map[string]any) error {
	list, _ := spec["secrets"].([]any)
	for n := range list {
		ref, _ := list[n].(map[string]any)
		from, ok := ref["from"].(string)
		if ok && !within(path.Clean(from), path.Clean(i.path(""))) { // the strict reader says of other values that they are no path
			return i.loaded.fault(p.field(fmt.Sprintf("spec.secrets[%d].from", n)), "ask for it by a question of type secret",
				"a package reads sealed files of its own installation only, and %q does not lie below %s", from, i.path(""))
		}
	}
	return nil
}

// sealedOf are the sealed files that a service reads.
func (i *installing) sealedOf(step string, s *fleet.Service) []string {
	var files []string
	if _, ok := i.sealed[i.path(step+secretValues)]; ok {
		files = append(files, i.path(step+secretValues))
	}
	for _, ref := range s.Spec.Secrets {
		files = append(files, path.Clean(ref.From))
	}
	return sorted(files)
}

// sealValues takes secrets out of what is written in clear, into a sealed file that the agent adds.
func (i *installing) sealValues(p *part, s *Step, doc *document, got evaluated) error {
	if len(got.leaves) == 0 {
		return nil
	}
	spec := doc.Spec
	helm, _ := spec["helm"].(map[string]any)
	secret := map[string]any{}
	for _, leaf := range got.leaves {
		switch {
		case helm != nil && len(leaf) > 3 && slices.Equal(leaf[:3], []string{"spec", "helm", "values"}):
			values, _ := helm["values"].(map[string]any)
			take(values, secret, leaf[3:])
		case helm == nil && len(leaf) == 3 && leaf[1] == "parameters":
			parameters, _ := spec["parameters"].(map[string]any)
			if v := parameters[leaf[2]]; v != nil {
				secret[leaf[2]] = fmt.Sprint(v)
			}
			delete(parameters, leaf[2])
		default:
			return i.loaded.fault(p.field(dotted(p.raw, leaf)), "put it into the values of a chart, or into parameters",
				"a secret would stand in clear in the Service's %s", strings.TrimPrefix(dotted(p.raw, leaf), "spec."))
		}
	}
	if values, ok := helm["values"].(map[string]any); ok && len(values) == 0 {
		delete(helm, "values")
	}
	file := i.path(s.Name + secretValues)
	if helm != nil {
		i.addValuesFile(spec, helm, file)
	} else {
		list, _ := spec["secrets"].([]any)
		spec["secrets"] = append(list, map[string]any{"name": parametersSecret, "from": file, "templateOnly": true})
	}
	recipe, err := i.recipe(p, got)
	if err != nil {
		return err
	}
	doc.Metadata.Annotations = map[string]string{recipeAnnotation: recipe}
	if shut := i.scope.locked(got.files); shut != "" {
		return i.keepSealed(s.Name, file, recipe, shut)
	}
	i.sealed[file], err = encode("# Written by plural: the secret values of the step "+s.Name+". Do not edit it.\n", secret)
	return err
}

// addValuesFile has the chart read a file of the installation repo, wherever the chart comes from.
func (i *installing) addValuesFile(spec, helm map[string]any, file string) {
	name := file
	if source, _ := spec["source"].(map[string]any); source["name"] != nil && source["name"] != "" {
		mounts, _ := spec["mounts"].([]any)
		spec["mounts"] = append(mounts, map[string]any{"source": map[string]any{"path": file}, "at": mountFolder})
		name = mountFolder + "/" + path.Base(file)
	}
	files, _ := helm["valuesFiles"].([]any)
	helm["valuesFiles"] = append(files, name)
}

// keepSealed leaves a file that cannot be made anew as it is, where it was made from the same.
func (i *installing) keepSealed(step, file, recipe, shut string) error {
	old, err := fleet.ReadServices(i.path(servicesFile), i.documents[step])
	if err != nil || len(old) != 1 || old[0].Metadata.Annotations[recipeAnnotation] != recipe {
		return &LockedError{shut}
	}
	if _, err := fs.Stat(i.w.Repo, file); err != nil {
		return &LockedError{shut}
	}
	i.sealed[file] = nil
	return nil
}

// take moves the value at a path from one tree into another. A list goes as a whole: charts put no lists together.
func take(from, into map[string]any, at []string) {
	value, ok := from[at[0]]
	if !ok {
		return
	}
	below, isMap := value.(map[string]any)
	if len(at) == 1 || !isMap {
		into[at[0]] = value
		delete(from, at[0])
		return
	}
	next, ok := into[at[0]].(map[string]any)
	if !ok {
		next = map[string]any{}
		into[at[0]] = next
	}
	take(below, next, at[1:])
	if len(below) == 0 {
		delete(from, at[0])
	}
}

// recipe is a hash over all that secret values are made from, but for secrets.
func (i *installing) recipe(p *part, got evaluated) (string, error) {
	var parts []any
	for _, leaf := range p.tree.Leaves() {
		if !slices.ContainsFunc(got.leaves, func(l []string) bool { return slices.Equal(l, leaf.Path) }) {
			continue
		}
		parts = append(parts, leaf.Path, at(p.raw, leaf.Path))
		for _, ref := range leaf.Refs {
			if r := i.scope.isSecret(ref); !r {
				parts = append(parts, ref.Path, at(i.scope.vars, ref.Path))
			}
		}
	}
	sum, err := hashJSON(parts)
	return strings.TrimPrefix(sum, "sha256:"), err
}

// at is what stands at a path of a tree, nil for nothing.
func at(tree any, path []string) any {
	for _, key := range path {
		switch v := tree.(type) {
		case map[string]any:
			tree = v[key]
		case []any:
			tree = nil
			for n := range v {
				if fmt.Sprint(n) == key {
					tree = v[n]
				}
			}
		default:
			return nil
		}
	}
	return tree
}
