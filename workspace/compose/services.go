package compose

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
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

// mountFolder is where a chart from elsewhere sees sealed values.
const mountFolder = "plural-values"

// parametersSecret is the name under which templates find parameters that are secret: .secrets.parameters.NAME.
const parametersSecret = "parameters"

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

// checkSources brings along a Source that the package needs and the fleet has not. One that is there already must be of the same
// upstream, or the package would run what it does not mean.
func (i *installing) checkSources(p *part, spec map[string]any) error {
	if p.step.Helm == nil || p.step.Helm.Source == nil || p.step.Helm.Source.New == nil {
		return nil
	}
	source, _ := spec["source"].(map[string]any)
	name, _ := source["name"].(string)
	if !fs.ValidPath(name) || strings.Contains(name, "/") {
		return nil // no Source has such a name, as the strict reader says of the Service
	}
	file := "sources/" + name + ".yaml"
	text, err := encode("", document{fleet.APIVersion, "Source", fleet.Metadata{Name: name}, p.step.Helm.Source.New})
	if err != nil {
		return err
	}
	sources, err := fleet.ReadSources(file, text)
	if err != nil {
		return i.impossible(p, "helm.source.new", err)
	}
	other, there := i.w.Fleet.Source(name)
	if there {
		file = fmt.Sprintf("%s:%d", other.Position.File, other.Position.Line)
	} else if by := i.brought[name]; by != nil {
		other, there, file = by.source, true, "package "+by.installation
	}
	if there && !serves(&other.Spec, &sources[0].Spec) {
		return i.loaded.fault(p.field("spec.source.name"), "give the package's Source another name, or the other one",
			"the package brings the Source %q of %s, and %s has one of that name of %s", name,
			upstream(&sources[0].Spec), file, upstream(&other.Spec))
	}
	if there {
		return nil
	}
	if message, fix := i.unwelcome(file, &sources[0].Spec); message != "" {
		return i.loaded.fault(p.field("spec.source.name"), fix, "%s", message)
	}
	i.result.composed.Files[file] = text
	i.brought[name] = &brought{i.name(), &sources[0]}
	return nil
}

// brought is a Source that is about to be written for an installation.
type brought struct {
	installation string
	source       *fleet.Source
}

// serves says whether a Source that is there does for one that is wanted. How it logs in, and how often it looks, is the fleet's.
func serves(there, wanted *fleet.SourceSpec) bool {
	return reflect.DeepEqual(there.Git, wanted.Git) && reflect.DeepEqual(there.Helm, wanted.Helm) &&
		reflect.DeepEqual(there.OCI, wanted.OCI) && (wanted.Verify == nil || reflect.DeepEqual(there.Verify, wanted.Verify))
}

// upstream is what a Source fetches, in words.
func upstream(s *fleet.SourceSpec) string {
	var text, ref string
	switch {
	case s.Git != nil:
		text, ref = "git "+s.Git.URL, s.Git.Ref
	case s.OCI != nil:
		text, ref = s.OCI.URL, s.OCI.Ref
	case s.Helm != nil:
		text = "helm " + s.Helm.URL
	}
	if ref != "" {
		text += " at " + ref
	}
	if s.Verify != nil {
		text += ", signed with " + strings.Join(s.Verify.Keys, ", ")
		if s.Verify.Keyless != nil {
			text += s.Verify.Keyless.Identity
		}
	}
	return text
}

// unwelcome says why a Source is not one that a package may bring: the hub would show a secret of the fleet to whomever the
// package's author names, or read the hub's own disk; or a person keeps something else under that name.
func (i *installing) unwelcome(file string, s *fleet.SourceSpec) (message, fix string) {
	const write = "write the Source into the installation repo first"
	_, err := fs.Stat(i.w.Repo, file)
	switch {
	case s.Auth != nil && s.Auth.Secret != "":
		return "a package brings no Source that is shown a secret of the fleet", write
	case s.Git != nil && strings.HasPrefix(s.Git.URL, "file:"):
		return "a package brings no Source on the hub's own disk", write
	case err == nil:
		return fmt.Sprintf("the package would write the Source into %s, which holds something else", file), write
	}
	return "", ""
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

// onClusters gives a Service that says nothing of it the installation's clusters.
func (i *installing) onClusters(spec map[string]any) error {
	if spec["clusters"] != nil {
		return nil
	}
	picked := i.in.Spec.Clusters
	if picksNone(picked) {
		management := i.w.Fleet.Workspace.Spec.Management
		if management == "" {
			return fleet.Errors{{
				Position: i.w.Fleet.Workspace.Position, Message: fmt.Sprintf("package %s names no clusters, and there is no management cluster", i.name()),
				Fix: fmt.Sprintf("write management: CLUSTER below spec, or clusters: {names: [CLUSTER]} into %s", i.in.Position.File),
			}}
		}
		picked.Names = []string{management}
	}
	spec["clusters"] = tree(picked, nil)
	return nil
}

// staysOn refuses clusters that a step picks by itself beyond those that the installation names: where a package goes is for
// whoever installs it to say.
func (i *installing) staysOn(p *part, own fleet.Selector) error {
	if picksNone(i.in.Spec.Clusters) || i.covers(i.in.Spec.Clusters, own) {
		return nil
	}
	where := i.in.Place("spec.clusters")
	return i.loaded.fault(p.field("spec.clusters"),
		fmt.Sprintf("widen spec.clusters in %s if that is meant, or leave clusters out of the step, which then goes where they say", where.File),
		"the step %s picks clusters beyond those of its installation (%s:%d)", p.step.Name, where.File, where.Line)
}

func picksNone(s fleet.Selector) bool {
	return len(s.Names)+len(s.MatchLabels)+len(s.MatchExpressions) == 0
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
		return nil, nil, i.impossible(p, "", err, services...)
	}
	return &services[0], text, nil
}

// impossible turns what the fleet's reader says of a generated document into what is wrong with the package.
func (i *installing) impossible(p *part, at string, err error, read ...fleet.Service) error {
	var list fleet.Errors
	if !errors.As(err, &list) {
		return err
	}
	out := make(fleet.Errors, len(list))
	for n, one := range list {
		field := at
		for j := range read {
			for name, place := range read[j].Fields {
				if place == one.Position && len(name) > len(field) {
					field = name
				}
			}
		}
		where := i.loaded.pkg.Place(p.field(field))
		where.File = Payload(i.name()) + "/" + packages.File
		out[n] = &fleet.Error{Position: where, Message: fmt.Sprintf("step %s makes no Service: %s", p.step.Name, one.Message), Fix: one.Fix}
	}
	return out
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

// covers says whether a selector picks every cluster that another picks. Of one that picks by tags that is known only where it
// has all conditions of the other: another cluster may come.
func (i *installing) covers(all, some fleet.Selector) bool {
	if reflect.DeepEqual(all, some) || !picksNone(all) && narrows(all, some) {
		return true
	}
	for _, name := range some.Names {
		c, ok := i.w.Fleet.Cluster(name)
		if !ok || !all.Matches(c) {
			return false
		}
	}
	return len(some.Names) > 0
}

// narrows says whether a selector has all conditions of another, and so picks nothing that the other does not.
func narrows(all, some fleet.Selector) bool {
	for _, name := range some.Names {
		if len(all.Names) > 0 && !slices.Contains(all.Names, name) {
			return false
		}
	}
	for label, value := range all.MatchLabels {
		if got, ok := some.MatchLabels[label]; !ok || got != value {
			return false
		}
	}
	for n := range all.MatchExpressions {
		same := func(r fleet.Requirement) bool { return reflect.DeepEqual(r, all.MatchExpressions[n]) }
		if !slices.ContainsFunc(some.MatchExpressions, same) {
			return false
		}
	}
	return len(all.Names) == 0 || len(some.Names) > 0
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

// clustersOf are the facts of the clusters that a service goes to, which its texts may read.
func (i *installing) clustersOf(s *fleet.Service) []any {
	var all []any
	for n := range i.w.Fleet.Clusters {
		if c := &i.w.Fleet.Clusters[n]; s.Spec.Clusters.Matches(c) {
			all = append(all, []any{c.Metadata.Name, c.Spec.Tags, c.Spec.Parameters})
		}
	}
	return all
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

// keysOf are a map's, sorted.
func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
