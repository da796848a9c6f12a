package compose

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Where outputs lie in an installation's folder: those in clear together, with the names of the secret ones; the secret ones of
// each step in a file of their own, so that a step that runs changes nothing for those that read another's.
const (
	outputsFile   = "outputs.yaml"
	secretOutputs = ".outputs.secret.yaml"
	secretValues  = ".values.secret.yaml"
)

const outputsHeader = "# Written by plural: what the steps of this package gave. Do not edit it.\n"

// kept is the form of outputs.yaml.
type kept struct {
	Steps  map[string]map[string]any `yaml:"steps"`
	Secret map[string][]string       `yaml:"secret,omitempty"`
}

// Learn says which files have to change so that what a step gave can be read from the repo; nil is for one to be removed.
func Learn(repo fs.FS, installation, step string, given Values) (map[string][]byte, error) {
	w := &World{Repo: repo}
	dir := "packages/" + installation + "/"
	all, err := w.readKept(dir + outputsFile)
	if err != nil {
		return nil, err
	}
	given = normal(given)
	all.Steps[step] = given.Plain
	delete(all.Secret, step)
	files := map[string][]byte{}
	name := dir + step + secretOutputs
	if len(given.Secret) > 0 {
		all.Secret[step] = slices.Sorted(maps.Keys(given.Secret))
		if files[name], err = encode(outputsHeader, given.Secret); err != nil {
			return nil, err
		}
	} else if _, err := fs.Stat(repo, name); err == nil {
		files[name] = nil
	}
	if files[dir+outputsFile], err = encode(outputsHeader, all); err != nil {
		return nil, err
	}
	return files, nil
}

func (w *World) readKept(name string) (kept, error) {
	all := kept{map[string]map[string]any{}, map[string][]string{}}
	values, fields, _, err := w.mapping(name)
	if err != nil {
		return all, err
	}
	bad := func(path string) (kept, error) {
		return all, fleet.Errors{{Position: fields[path], Message: "not what plural wrote", Fix: "git checkout " + name}}
	}
	steps, _ := values["steps"].(map[string]any)
	for step, v := range steps {
		outputs, ok := v.(map[string]any)
		if !ok {
			return bad("steps." + step)
		}
		all.Steps[step] = outputs
	}
	secret, _ := values["secret"].(map[string]any)
	for step, v := range secret {
		names, ok := v.([]any)
		if !ok {
			return bad("secret." + step)
		}
		for _, name := range names {
			all.Secret[step] = append(all.Secret[step], fmt.Sprint(name))
		}
	}
	return all, nil
}

// readOutputs finds what is known of what the steps gave.
func (i *installing) readOutputs() error {
	all, err := i.w.readKept(i.path(outputsFile))
	if err != nil {
		return err
	}
	i.given, i.sealed = map[string]Values{}, map[string][]byte{}
	for _, p := range i.loaded.steps {
		step := p.step.Name
		if v, ok := i.known[i.name()][step]; ok {
			i.given[step] = normal(v)
			continue
		}
		plain, ok := all.Steps[step]
		if !ok {
			continue
		}
		v := Values{plain, map[string]any{}}
		if len(all.Secret[step]) > 0 {
			if v.Secret, err = i.secretOutputs(step, all.Secret[step]); err != nil {
				return err
			}
		}
		i.given[step] = v
	}
	return nil
}

// secretOutputs reads those of a step; where they cannot be opened, only their names are known.
func (i *installing) secretOutputs(step string, names []string) (map[string]any, error) {
	file := i.path(step + secretOutputs)
	values, _, there, err := i.w.mapping(file)
	var locked *LockedError
	switch {
	case errors.As(err, &locked):
		i.scope.shut = append(i.scope.shut, file)
		values = map[string]any{}
		for _, name := range names {
			values[name] = nil
		}
		return values, nil
	case err != nil:
		return nil, err
	case !there:
		return nil, fleet.Errors{{Position: fleet.Position{File: file}, Message: "the file is gone", Fix: "git checkout " + file}}
	}
	return values, nil
}

// normal has numbers as they are read back from a file.
func normal(v Values) Values {
	plain, _ := normalValue(v.Plain).(map[string]any)
	secret, _ := normalValue(v.Secret).(map[string]any)
	return Values{plain, secret}
}

func normalValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = normalValue(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = normalValue(item)
		}
		return out
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	}
	return v
}

// learnFrom lets the steps that follow read what a step gave, or wait for it.
func (i *installing) learnFrom(p *part, s *Step) {
	outputs := map[string]any{}
	steps, _ := i.scope.vars["steps"].(map[string]any)
	if steps == nil {
		steps = map[string]any{}
		i.scope.vars["steps"] = steps
	}
	steps[s.Name] = map[string]any{"outputs": outputs}
	if s.Skipped || s.Kind == Service {
		return
	}
	v, ok := i.given[s.Name]
	if !ok {
		i.scope.unknown = append(i.scope.unknown, pending{[]string{"steps", s.Name}, []string{i.name() + "/" + s.Name}})
		return
	}
	maps.Copy(outputs, v.Plain)
	maps.Copy(outputs, v.Secret)
	for name := range v.Secret {
		i.scope.secrets = append(i.scope.secrets, origin{[]string{"steps", s.Name, "outputs", name}, []string{i.path(s.Name + secretOutputs)}})
	}
}

// ownOutputs evaluates what the package gives to those that depend on it.
func (i *installing) ownOutputs() error {
	own := Values{map[string]any{}, map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(i.loaded.outputs)) {
		written := i.loaded.pkg.Spec.Outputs[name]
		// Who reads one that is locked is told; who does not, need not care.
		got, err := i.scope.eval(written.Value, i.loaded.outputs[name], true, nil)
		if err != nil {
			return i.loaded.evaluation(&part{fields: [][2]string{{"", "spec.outputs." + name + ".value"}}}, err)
		}
		o := output{got.value, got.secret || written.Secret, got.files, got.waiting}
		i.result.outputs[name] = o
		switch {
		case len(o.waiting) > 0:
		case o.secret:
			own.Secret[name] = o.value
		default:
			own.Plain[name] = o.value
		}
	}
	i.result.composed.Outputs, i.result.shut = own, i.scope.shut
	return nil
}

// outputFiles are the wanted files of what the steps gave.
func (i *installing) outputFiles() error {
	all := kept{map[string]map[string]any{}, map[string][]string{}}
	for step, v := range i.given {
		all.Steps[step] = v.Plain
		if v.Plain == nil {
			all.Steps[step] = map[string]any{}
		}
		if len(v.Secret) == 0 {
			continue
		}
		all.Secret[step] = slices.Sorted(maps.Keys(v.Secret))
		name := i.path(step + secretOutputs)
		i.sealed[name] = nil
		if i.scope.locked([]string{name}) == "" {
			text, err := encode(outputsHeader, v.Secret)
			if err != nil {
				return err
			}
			i.sealed[name] = text
		}
	}
	if len(all.Steps) == 0 {
		return i.want(outputsFile, nil)
	}
	text, err := encode(outputsHeader, all)
	if err != nil {
		return err
	}
	return i.want(outputsFile, text)
}

// encode writes a value as YAML below a comment.
func encode(header string, v any) ([]byte, error) {
	switch of := v.(type) {
	case document:
		of.Spec, _ = legible(of.Spec).(map[string]any)
		v = of
	case kept:
		steps := make(map[string]map[string]any, len(of.Steps))
		for step, outputs := range of.Steps {
			steps[step], _ = legible(outputs).(map[string]any)
		}
		of.Steps = steps
		v = of
	case map[string]any:
		v = legible(of)
	}
	out := bytes.NewBufferString(header)
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return out.Bytes(), nil
}

// legible is a tree whose texts can be read again when they are written: the library writes texts of several lines as blocks,
// and those that begin with a line's end or a tab so that nobody reads them.
func legible(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = legible(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for n, item := range v {
			out[n] = legible(item)
		}
		return out
	case string:
		if strings.HasPrefix(v, "\n") || strings.HasPrefix(v, "\t") || strings.HasPrefix(v, " ") {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: v}
		}
	}
	return v
}

// want notes a file of the installation that is not in the repo as it should be; nil is one that should not be there.
func (i *installing) want(file string, content []byte) error {
	name := i.path(file)
	text, err := fs.ReadFile(i.w.Repo, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if content != nil {
			i.result.composed.Files[name] = content
		}
	case err != nil:
		return fmt.Errorf("read %q: %w", name, err)
	case content == nil || seal.IsSealed(text) || !bytes.Equal(text, content):
		i.result.composed.Files[name] = content
	}
	return nil
}

// files collects the generated files that differ from what is there.
func (i *installing) files() error {
	if err := i.outputFiles(); err != nil {
		return err
	}
	var services bytes.Buffer
	for _, p := range i.loaded.steps {
		if document := i.documents[p.step.Name]; document != nil {
			if services.Len() > 0 {
				services.WriteString("---\n")
			}
			services.Write(document)
		}
	}
	var text []byte
	if services.Len() > 0 {
		text = append([]byte(servicesHeader), services.Bytes()...)
	}
	if err := i.want(servicesFile, text); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(i.sealed)) {
		if content := i.sealed[name]; content != nil {
			if err := i.w.sealable(name); err != nil {
				return err
			}
			if err := i.want(strings.TrimPrefix(name, i.path("")), content); err != nil {
				return err
			}
		}
	}
	return i.sweep()
}

// sweep notes sealed files that were generated once, and that nothing wants any more.
func (i *installing) sweep() error {
	entries, err := fs.ReadDir(i.w.Repo, "packages/"+i.name())
	if err != nil {
		return fmt.Errorf("list packages/%s: %w", i.name(), err)
	}
	for _, e := range entries {
		name := i.path(e.Name())
		generated := strings.HasSuffix(name, secretOutputs) || strings.HasSuffix(name, secretValues)
		if _, wanted := i.sealed[name]; generated && !wanted && !e.IsDir() {
			i.result.composed.Files[name] = nil
		}
	}
	return nil
}
