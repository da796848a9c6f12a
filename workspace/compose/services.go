package compose

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
)

const servicesFile = "services.yaml"

const servicesHeader = "# Written by plural from the package in payload/ and the answers in values.yaml. Do not edit it.\n"

// What a generated Service says of itself.
const (
	// InstallationLabel and StepLabel say what it was made from.
	InstallationLabel = "plural.sh/installation"
	StepLabel         = "plural.sh/step"
	// recipeAnnotation changes with whatever the sealed file beside it was made from, but for the secrets themselves: so one
	// who cannot open the file can tell whether it still is what it has to be.
	recipeAnnotation = "plural.sh/sealed-values"
)

// document is one Service as it is written.
type document struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Metadata   fleet.Metadata `yaml:"metadata"`
	Spec       map[string]any `yaml:"spec"`
}

// readDocuments takes up the documents that are there, by step.
func (i *installing) readDocuments() error {
	text, err := fs.ReadFile(i.w.Repo, i.path(servicesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %q: %w", i.path(servicesFile), err)
	}
	text = bytes.TrimPrefix(text, []byte(servicesHeader))
	for one := range bytes.SplitSeq(text, []byte("\n---\n")) {
		one = append(bytes.TrimSuffix(bytes.Clone(one), []byte("\n")), '\n')
		services, err := fleet.ReadServices(i.path(servicesFile), one)
		if err == nil && len(services) == 1 && services[0].Metadata.Labels[InstallationLabel] == i.name() {
			i.documents[services[0].Metadata.Labels[StepLabel]] = one
		}
	}
	return nil
}

// service makes a Service of an evaluated step.
func (i *installing) service(p *part, s *Step, got evaluated) error {
	value, _ := got.value.(map[string]any)
	spec, ok := value["spec"].(map[string]any)
	if !ok {
		return i.loaded.fault(p.field("spec"), "", "no fields of a Service")
	}
	if err := i.checkSources(p, spec); err != nil {
		return err
	}
	name, _ := value["name"].(string)
	own := spec["clusters"] != nil
	doc := document{APIVersion: fleet.APIVersion, Kind: "Service", Spec: spec, Metadata: fleet.Metadata{
		Name: name, Labels: map[string]string{InstallationLabel: i.name(), StepLabel: s.Name},
	}}
	if name == "" {
		doc.Metadata.Name = i.serviceName(s.Name)
	}
	if err := firstError(
		func() error { return i.inPayload(p, spec) },
		func() error { return i.ownSecrets(p, spec) },
		func() error { return i.onClusters(spec) },
		func() error { return i.sealValues(p, s, &doc, got) },
		func() error { return plainParameters(i, p, spec) },
	); err != nil {
		return err
	}
	service, text, err := i.encodeService(p, doc)
	if err != nil {
		return err
	}
	if own {
		if err := i.staysOn(p, service.Spec.Clusters); err != nil {
			return err
		}
	}
	if names := i.waitsFor(p, service); len(names) > 0 {
		addDependencies(spec, names)
		if service, text, err = i.encodeService(p, doc); err != nil {
			return err
		}
	}
	i.services[s.Name], i.documents[s.Name] = *service, text
	i.result.services = append(i.result.services, *service)
	s.Services = []fleet.Service{*service}
	ws := &i.w.Fleet.Workspace.Spec // its defaults and rules are the service's too
	s.Digest, err = i.digest(p, s.Kind, nil, i.sealedOf(s.Name, service), string(text), i.clustersOf(service), ws.Defaults, ws.Health)
	return err
}

// serviceName is the installation's where the package has one such step.
func (i *installing) serviceName(step string) string {
	n := 0
	for _, p := range i.loaded.steps {
		if p.step.IsService() {
			n++
		}
	}
	if n == 1 {
		return i.name()
	}
	return i.name() + "-" + step
}

// inPayload makes paths within the package ones within the repo.
func (i *installing) inPayload(p *part, spec map[string]any) error {
	var bad error
	move := func(at string, name any) any {
		text, ok := name.(string)
		if !ok {
			return name // the strict reader says that it is no path
		}
		if clean := path.Clean(text); !fs.ValidPath(clean) && bad == nil {
			bad = i.loaded.fault(p.field(at), "write it relative to the package's root", "path %q leaves the package", text)
		}
		return path.Join(Payload(i.name()), text)
	}
	mounts, _ := spec["mounts"].([]any)
	var mounted []string
	for n := range mounts {
		m, _ := mounts[n].(map[string]any)
		if dir, ok := m["at"].(string); ok {
			mounted = append(mounted, path.Clean(dir))
		}
		if from, ok := m["source"].(map[string]any); ok && (from["name"] == nil || from["name"] == "") {
			from["path"] = move(fmt.Sprintf("spec.mounts[%d].source.path", n), from["path"])
		}
	}
	source, ok := spec["source"].(map[string]any)
	if name := source["name"]; !ok || name != nil && name != "" {
		return bad
	}
	if source["path"] == nil {
		source["path"] = "."
	}
	source["path"] = move("spec.source.path", source["path"])
	inMount := func(name any) bool {
		text, _ := name.(string)
		return slices.ContainsFunc(mounted, func(dir string) bool { return text == dir || strings.HasPrefix(path.Clean(text), dir+"/") })
	}
	list := func(of map[string]any, key, at string) {
		names, _ := of[key].([]any)
		for n := range names {
			if !inMount(names[n]) {
				names[n] = move(fmt.Sprintf("%s[%d]", at, n), names[n])
			}
		}
	}
	list(spec, "include", "spec.include")
	if helm, ok := spec["helm"].(map[string]any); ok {
		list(helm, "valuesFiles", "spec.helm.valuesFiles")
	}
	return bad
}

// plainParameters makes numbers and truths texts, as templates read them.
func plainParameters(i *installing, p *part, spec map[string]any) error {
	parameters, _ := spec["parameters"].(map[string]any)
	for name, v := range parameters {
		switch v := v.(type) {
		case bool, int, int64, uint64, float64:
			parameters[name] = fmt.Sprint(v)
		case string:
		default:
			return i.loaded.fault(p.field("spec.parameters."+name), "give it a default, or leave it out by a condition",
				"the parameter %q is %s, and must be a text, a number or a truth", name, describe(v))
		}
	}
	return nil
}

func describe(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return "something else"
}

// encodeService writes a Service, and reads it as everybody else will.
func (i *installing) encodeService(p *part, doc document) (*fleet.Service, []byte, error) {
	text, err := encode("", doc)
	if err != nil {
		return nil, nil, i.loaded.fault(p.field(""), "", "%v", err)
	}
	services, err := fleet.ReadServices(i.path(servicesFile), text)
	if err != nil {
		var fields map[string]fleet.Position
		if len(services) > 0 {
			fields = services[0].Fields
		}
		return nil, nil, i.impossible(p, "", err, fields)
	}
	return &services[0], text, nil
}

// impossible turns what the fleet's reader says of a generated document into what is wrong with the package.
// fields are those of what was read.
func (i *installing) impossible(p *part, at string, err error, fields map[string]fleet.Position) error {
	var list fleet.Errors
	if !errors.As(err, &list) {
		return err
	}
	out := make(fleet.Errors, len(list))
	for n, one := range list {
		field := at
		for name, place := range fields {
			if place == one.Position && len(name) > len(field) {
				field = name
			}
		}
		where := i.loaded.pkg.Place(p.field(field))
		where.File = Payload(i.name()) + "/" + packages.File
		out[n] = &fleet.Error{Position: where, Message: p.makes() + ": " + one.Message, Fix: one.Fix}
	}
	return out
}

// makes says what the part does not do where it is wrong.
func (p *part) makes() string {
	if p.step == nil {
		return "the package makes no Application"
	}
	return fmt.Sprintf("step %s makes no Service", p.step.Name)
}

// waitsFor are the services that have to be there first on every cluster that this one goes to.
func (i *installing) waitsFor(p *part, own *fleet.Service) []string {
	var names []string
	add := func(s *fleet.Service) {
		if i.covers(s.Spec.Clusters, own.Spec.Clusters) && s.Metadata.Name != own.Metadata.Name {
			names = append(names, s.Metadata.Name)
		}
	}
	i.needed(p, map[string]bool{}, func(s fleet.Service) { add(&s) })
	if len(names) == 0 {
		for _, r := range i.upon {
			for n := range r.services {
				add(&r.services[n])
			}
		}
	}
	return sorted(names)
}

// needed calls each with the services of the steps that a step needs; of those that have none, with those that they need.
func (i *installing) needed(p *part, seen map[string]bool, each func(fleet.Service)) {
	for _, name := range p.needs {
		if seen[name] {
			continue
		}
		seen[name] = true
		if s, ok := i.services[name]; ok {
			each(s)
			continue
		}
		for _, other := range i.loaded.steps {
			if other.step.Name == name {
				i.needed(other, seen, each)
			}
		}
	}
}

// addDependencies adds services to what a Service waits for already.
func addDependencies(spec map[string]any, names []string) {
	list, _ := spec["dependsOn"].([]any)
	for _, name := range names {
		there := slices.ContainsFunc(list, func(d any) bool {
			m, _ := d.(map[string]any)
			return m["service"] == name
		})
		if !there {
			list = append(list, map[string]any{"service": name})
		}
	}
	spec["dependsOn"] = list
}

// keysOf are a map's, sorted.
func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
