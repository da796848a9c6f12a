package render

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// renderRaw reads the manifests below the path, in path order.
func renderRaw(j *job) ([]manifest, error) {
	var all []manifest
	for _, name := range manifestFiles(j.tree, j.Path) {
		if err := notRaw(name); err != nil {
			return nil, err
		}
		data, err := j.read(name)
		if err != nil {
			return nil, err
		}
		docs, err := j.decode(name, data)
		if err != nil {
			return nil, j.noManifest(name, err)
		}
		for _, doc := range docs {
			found, err := manifests(doc)
			if err != nil {
				return nil, j.noManifest(name, err)
			}
			all = append(all, j.written(found)...)
		}
		if len(all) > j.limits.Objects {
			return nil, place{file: name}.limit("renders more than %d objects", j.limits.Objects)
		}
	}
	return all, nil
}

// written names the template where one stands in for the file, whose lines are not the ones that were read.
func (j *job) written(found []manifest) []manifest {
	var of []heading
	for i := range found {
		if m := &found[i]; j.tree.files[m.file] == nil {
			name := m.file + templateSuffix
			if of == nil {
				of = headings(j.tree.files[name])
			}
			m.origin = Origin{File: name, Line: lineOf(of, m.head.Kind, m.head.Metadata.Name)}
		}
	}
	return found
}

// noManifest says of a file that cannot be read as one how the service's folder can hold it all the same.
func (j *job) noManifest(name string, err error) error {
	var wrong *Error
	if !errors.As(err, &wrong) || wrong.Reason != Invalid {
		return err
	}
	if j.tree.files[name] == nil {
		name += templateSuffix
	}
	out := *wrong
	out.Fix = fmt.Sprintf("correct it; or, if it is no manifest, have the service leave it out: exclude: [%q]",
		"/"+strings.TrimPrefix(name, j.Path+"/"))
	return &out
}

// notRaw refuses files that say that their folder is for another renderer: applied as they are, they would be
// objects of no known kind.
func notRaw(name string) error {
	at := place{file: name}
	var e *Error
	switch {
	case isKustomization(name):
		e = at.invalid("a kustomization is no manifest")
		e.Fix = "make this folder a service with renderer: kustomize"
	case path.Base(name) == "Chart.yaml":
		e = at.invalid("a chart is no manifest")
		e.Fix = "make this folder a service with renderer: helm"
	default:
		return nil
	}
	return e
}

// manifestFiles are the names under which manifests can be read below dir: sorted, each once, hidden ones left out.
func manifestFiles(t *tree, dir string) []string {
	var names []string
	for _, file := range t.below(dir) {
		name := strings.TrimSuffix(file, templateSuffix)
		inside := strings.TrimPrefix(name, dir+"/")
		if isManifest(name) && !strings.HasPrefix(inside, ".") && !strings.Contains(inside, "/.") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}
