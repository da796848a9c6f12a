package render

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/internal/kustomizeurl"
)

// localized is a kustomization as kustomize is to read it: with paths in the place of addresses, whose files somebody else has
// brought, and with what its charts print in the place of the charts. It is nil where there is neither. The text itself stays as
// it is, so that every complaint about it finds its line.
func (k *kustomizeFS) localized(name string, data []byte) (map[string]any, error) {
	root, found := inspect(document{line: 1, text: data})
	if found != nil || root == nil || root.Content[0].Kind != yaml.MappingNode {
		return nil, nil //nolint:nilnil // kustomize has its own words for it
	}
	addresses, touched := map[string]string{}, map[string]bool{}
	charts := 0
	for fields := root.Content[0].Content; len(fields) > 1; fields = fields[2:] {
		key, value := fields[0], fields[1]
		field := fieldOf(key.Value)
		if field == "helmCharts" && len(value.Content) > 0 {
			charts = key.Line
		}
		for _, reference := range references(field, value) {
			if !kustomizeurl.Is(reference.Value) {
				continue
			}
			local, err := k.local(place{name, reference.Line}, reference.Value)
			if err != nil {
				return nil, err
			}
			addresses[reference.Value], touched[field] = local, true
		}
	}
	if len(addresses) == 0 && charts == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	text, err := sigs.YAMLToJSON(data) // as kustomize does
	if err != nil {
		return nil, place{file: name}.invalid("%v", err)
	}
	fields := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, place{file: name}.invalid("%v", err)
	}
	for key, value := range maps.Clone(fields) {
		if touched[fieldOf(key)] {
			value = replaced(value, addresses)
		}
		delete(fields, key)
		fields[fieldOf(key)] = value
	}
	if charts > 0 {
		return fields, k.inflate(place{name, charts}, data, fields)
	}
	return fields, nil
}

// replaced is a value with other texts in the place of some.
func replaced(value any, texts map[string]string) any {
	switch value := value.(type) {
	case string:
		if other, ok := texts[value]; ok {
			return other
		}
	case []any:
		for i := range value {
			value[i] = replaced(value[i], texts)
		}
	case map[string]any:
		for key := range value {
			value[key] = replaced(value[key], texts)
		}
	}
	return value
}

// local is the path at which kustomize finds what an address means, relative to the folder of the kustomization.
//
// A folder is where it was put. A file is seen below the kustomization's own folder, since kustomize reads no other file.
func (k *kustomizeFS) local(at place, text string) (string, error) {
	target := kustomizeurl.WithoutKey(text)
	prefix := strings.TrimSuffix(text, target)
	meanings, err := kustomizeurl.Parse(target)
	if err != nil {
		return "", at.refused("", "remote address: %v", err)
	}
	for _, meaning := range meanings {
		switch name := meaning.Local(); {
		case k.tree.isFile(name):
			k.borrowed[path.Join(path.Dir(at.file), name)] = name
			return prefix + name, nil
		case k.tree.isDir(name):
			dir := path.Dir(at.file)
			if dir == "." {
				return prefix + name, nil
			}
			return prefix + strings.Repeat("../", strings.Count(dir, "/")+1) + name, nil
		}
	}
	return "", missing(at, meanings[0])
}

// missing says that nobody has brought a remote: rendering fetches nothing.
func missing(at place, r kustomizeurl.Remote) *Error {
	fix := "make it a source, and render the service by its name: " + r.Command()
	return at.refused(fix, "%s is remote, and its files are not here", r.Shown())
}

// below tells whether name is dir, or lies in it.
func below(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// confined keeps the kustomizations of a remote in its own repository, as kustomize does with what it clones.
func confined(from, name string) bool {
	inside, remote := strings.CutPrefix(from, kustomizeurl.Folder+"/")
	if !remote {
		return true
	}
	root, _, _ := strings.Cut(inside, "/")
	return below(name, path.Join(kustomizeurl.Folder, root))
}

// shared maps a file of a remote, as it is seen below the folder of a kustomization that named it, to where it was put.
func (k *kustomizeFS) shared(name string) string {
	if at, ok := k.borrowed[name]; ok {
		return at
	}
	return name
}
