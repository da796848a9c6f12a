package inspect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/internal/kubeschema"
	"github.com/pluralsh/plural/internal/removedapi"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// place is one object of a rendition.
type place struct {
	service string
	object  *unstructured.Unstructured
	origin  render.Origin
	locate  *locator
	// silent takes out of a text what was sealed.
	silent func(string) string
}

// finding is something that is wrong with the object, or with one of its fields.
func (p *place) finding(field []string, message, fix string) Finding {
	name := p.object.GetName()
	if name == "" {
		name = p.object.GetGenerateName()
	}
	where, added := p.locate.where(p.origin, field, p.object.Object)
	if added {
		message += ", which the kustomization adds to what is written there"
	}
	if name, at := p.locate.parameter(where); name != "" {
		fix = fmt.Sprintf("the template has %s there, which is set at %s: change it there, or the template", name, at)
	} else if s := p.locate.service; fix == "" && s != nil && s.Spec.Helm != nil && len(s.Spec.Helm.Values) > 0 {
		if place, one := helmValue(s, field, p.object.Object); one {
			fix = fmt.Sprintf("mend it at %s, or in the chart", place)
		}
	}
	return Finding{
		Where:   where,
		Message: p.silent(fmt.Sprintf("service %s: %s %s: %s", p.service, p.object.GetKind(), name, message)), Fix: p.silent(fix),
	}
}

func (p *place) fault(f kubeschema.Fault) Finding {
	return p.finding(f.Path, f.Field()+": "+f.Message, f.Fix)
}

// judge judges an object of Kubernetes' own, and keeps others for later.
func (i *inspector) judge(r *rendition, at *place) error {
	if f := i.badName(at); f != nil {
		i.tell(&i.report.Errors, *f)
	}
	i.judgePods(at)
	i.readable(at)
	kind := at.object.GroupVersionKind()
	version := i.builtin.Version(r.minor)
	form, err := version.Form(kind)
	if err != nil {
		return err
	}
	if form != nil {
		list := &i.report.Errors
		if r.minor > i.builtin.Last { // it may know more
			list = &i.report.Warnings
		}
		for _, fault := range form.Check(at.object.Object) {
			i.tell(list, at.fault(fault))
		}
		if removal, goes := removedapi.Removed(kind); goes {
			i.tell(&i.report.Warnings, at.finding([]string{"apiVersion"},
				fmt.Sprintf("Kubernetes 1.%d has no %s any more", removal.Minor, kind.GroupVersion()), removal.Fix()))
		}
		i.define(r, at)
		return nil
	}
	if f := i.unserved(version, r.minor, kind, at); f != nil {
		list := &i.report.Errors
		if r.minor > i.builtin.Last {
			list = &i.report.Warnings
		}
		i.tell(list, *f)
		return nil
	}
	if !i.builtin.OwnsGroup(kind.Group) {
		i.mu.Lock()
		i.custom = append(i.custom, customObject{rendition: r, place: *at, kind: kind})
		i.mu.Unlock()
	}
	return nil
}

// badName is what is wrong with the namespace that an object is to be in, or with its name where its kind is Kubernetes' own: servers of
// others take what they like.
func (i *inspector) badName(at *place) *Finding {
	id := object.Of(at.object)
	label := func(field, what string) *Finding {
		f := at.finding([]string{"metadata", field}, fmt.Sprintf("metadata.%s: no %s can be called so", field, what),
			fmt.Sprintf("write at most %d lower case letters, digits and -, the first and the last no -", validation.DNS1123LabelMaxLength))
		return &f
	}
	namespace, kind := at.object.GetNamespace(), at.object.GroupVersionKind()
	switch {
	case namespace != "" && !id.IsNamespace() && len(validation.IsDNS1123Label(namespace)) > 0:
		return label("namespace", "namespace")
	case id.Name == "", !i.builtin.OwnsGroup(kind.Group), kind.Kind == "IPAddress", // whose names are no domain names
		slices.Contains([]string{"rbac.authorization.k8s.io", "certificates.k8s.io", "policy"}, kind.Group):
		return nil
	case id.IsNamespace() && len(validation.IsDNS1123Label(id.Name)) > 0:
		return label("name", "namespace")
	case kind.Group == "" && kind.Kind == "Service" && len(validation.IsDNS1123Label(id.Name)) > 0:
		return label("name", "Service")
	case len(validation.IsDNS1123Subdomain(id.Name)) > 0:
		f := at.finding([]string{"metadata", "name"}, "metadata.name: no "+kind.Kind+" can be called so",
			"write lower case letters, digits, - and ., the first and the last a letter or digit")
		return &f
	}
	return nil
}

// unserved is why Kubernetes does not serve a kind of its own; nil where the kind is somebody else's, or nobody can tell.
func (i *inspector) unserved(version *kubeschema.Version, minor int, kind schema.GroupVersionKind, at *place) *Finding {
	tell := func(message, fix string) *Finding {
		f := at.finding([]string{"apiVersion"}, message, fix)
		return &f
	}
	removal, removed := removedapi.Removed(kind)
	since := i.builtin.Since(kind)
	switch {
	case removed && removal.Minor <= minor:
		return tell(fmt.Sprintf("%s of %s is gone since Kubernetes 1.%d", kind.Kind, kind.GroupVersion(), removal.Minor), removal.Fix())
	case removed, minor < i.builtin.First: // of versions before those that are built in nobody knows enough
		return nil
	case since > minor:
		return tell(fmt.Sprintf("%s of %s comes with Kubernetes 1.%d, and this is for 1.%d", kind.Kind, kind.GroupVersion(), since, minor), "")
	case !i.builtin.OwnsGroup(kind.Group):
		return nil
	}
	fix := ""
	if near := version.Nearest(kind); !near.Empty() {
		fix = fmt.Sprintf("did you mean %s of %s?", near.Kind, near.GroupVersion())
	}
	return tell(fmt.Sprintf("%s has no %s in %s", versionOf(version.Minor), kind.Kind, kind.GroupVersion()), fix)
}

// locator finds the lines of fields in the files of a deployment.
type locator struct {
	deployment *resolve.Deployment
	// service is what it is a deployment of; nil where that is not known.
	service *fleet.Service

	mu    sync.Mutex // guards files
	files map[string][]*yaml.Node
}

// maxLocated bounds a file whose fields are looked for, in bytes.
const maxLocated = 1 << 20

// where is the line of a field of an object, or of what would hold it, where the file is what was written; else what is known of the
// object. Added says that the object has the field, and the file has not.
func (l *locator) where(origin render.Origin, field []string, object any) (where string, added bool) {
	if origin.File == "" {
		return cmp.Or(l.deployment.Path, "."), false
	}
	if origin.Line == 0 {
		return origin.String(), false
	}
	var document *yaml.Node
	for _, d := range l.documents(origin.File) {
		if d.Line == origin.Line {
			document = d
		}
	}
	if document == nil || document.Kind != yaml.MappingNode {
		return l.seek(origin, field).String(), false
	}
	at, line := document, origin.Line
	for _, step := range field {
		object = part(object, step)
		if added {
			continue
		}
		key, value := child(at, step)
		if added = value == nil || otherName(value, object); !added {
			at, line = value, key.Line
		}
	}
	return render.Origin{File: origin.File, Line: line}.String(), added && object != nil && l.deployment.Renderer == render.Kustomize
}

// seek looks for a field by its name in a template that is no YAML before it is executed, as far as that is in its document once.
func (l *locator) seek(origin render.Origin, field []string) render.Origin {
	if !strings.HasSuffix(origin.File, ".tmpl") || len(field) == 0 {
		return origin
	}
	found := 0
	for n, line := range l.lines(origin.File) {
		if n+1 > origin.Line && strings.HasPrefix(line, "---") {
			break
		}
		name, _, is := strings.Cut(strings.TrimLeft(line, " -"), ":")
		if n+1 < origin.Line || !is || strings.Trim(name, `"'`) != field[len(field)-1] {
			continue
		}
		if found > 0 {
			return origin
		}
		found = n + 1
	}
	return render.Origin{File: origin.File, Line: cmp.Or(found, origin.Line)}
}

// lines are those of a file, as far as it can be read.
func (l *locator) lines(name string) []string {
	text, err := fs.ReadFile(l.deployment.Snapshot.FS(), name)
	if err != nil || len(text) > maxLocated {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// Where is the line of a field of an object that a deployment of the service renders, as far as that is known; and, where a template
// has a parameter there or a chart may have a value, the place in the service that sets it.
func Where(s *fleet.Service, d *resolve.Deployment, origin render.Origin, field []string, object map[string]any) (where, parameter string) {
	l := locator{deployment: d, service: s}
	where, _ = l.where(origin, field, object)
	if _, parameter = l.parameter(where); parameter == "" && s != nil && s.Spec.Helm != nil && len(s.Spec.Helm.Values) > 0 {
		if place, one := helmValue(s, field, object); one {
			parameter = place.String()
		}
	}
	return where, parameter
}

// helmValue is the place of the Helm value that an object has at a field, where the service sets just one such.
func helmValue(s *fleet.Service, field []string, object any) (place fleet.Position, one bool) {
	for _, step := range field {
		object = part(object, step)
	}
	var same []string
	var look func(at string, value any)
	look = func(at string, value any) {
		if of, is := value.(map[string]any); is {
			for name, each := range of {
				look(at+"."+name, each)
			}
		} else if object != nil && fmt.Sprint(value) == fmt.Sprint(object) {
			same = append(same, at)
		}
	}
	if look("spec.helm.values", s.Spec.Helm.Values); len(field) == 0 || len(same) != 1 {
		return place, false
	}
	place, one = s.Fields[same[0]]
	return place, one
}

// parameterRead is a parameter in a template.
var parameterRead = regexp.MustCompile(`\.parameters\.(\w+(?:\.\w+)*)`)

// parameter is the only one that a line of a template reads, with the place where the service sets it; nothing where there is none.
func (l *locator) parameter(where string) (name, at string) {
	file, number, told := strings.Cut(where, ".tmpl:")
	line, err := strconv.Atoi(number)
	if l.service == nil || !told || err != nil {
		return "", ""
	}
	lines := l.lines(file + ".tmpl")
	if line > len(lines) {
		return "", ""
	}
	read := parameterRead.FindAllStringSubmatch(lines[line-1], -1)
	if len(read) != 1 {
		return "", ""
	}
	place, set := l.service.Fields["spec.parameters."+read[0][1]]
	if !set {
		return "", ""
	}
	return read[0][0], place.String()
}

// documents are the roots of a file's YAML documents, as far as it can be read.
func (l *locator) documents(name string) []*yaml.Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.files[name]; ok {
		return known
	}
	if l.files == nil {
		l.files = map[string][]*yaml.Node{}
	}
	var list []*yaml.Node
	if text, err := fs.ReadFile(l.deployment.Snapshot.FS(), name); err == nil && len(text) <= maxLocated {
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var d yaml.Node
			if err := decoder.Decode(&d); errors.Is(err, io.EOF) || err != nil {
				break
			}
			if len(d.Content) > 0 {
				list = append(list, d.Content[0])
			}
		}
	}
	l.files[name] = list
	return list
}

// child is a field of a map, or an item of a list; nil where it is not written.
func child(node *yaml.Node, step string) (key, value *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for n := 0; n+1 < len(node.Content); n += 2 {
			if node.Content[n].Value == step {
				return node.Content[n], node.Content[n+1]
			}
		}
	case yaml.SequenceNode:
		if n, err := strconv.Atoi(step); err == nil && n < len(node.Content) {
			return node.Content[n], node.Content[n]
		}
	}
	return nil, nil
}

// part is the same of an object.
func part(object any, step string) any {
	switch of := object.(type) {
	case map[string]any:
		return of[step]
	case []any:
		if n, err := strconv.Atoi(step); err == nil && n < len(of) {
			return of[n]
		}
	}
	return nil
}

// otherName says whether what is written is another item than that of the object: a patch adds items to lists.
func otherName(written *yaml.Node, item any) bool {
	of, _ := item.(map[string]any)
	_, name := child(written, "name")
	return name != nil && name.Kind == yaml.ScalarNode && of["name"] != nil && of["name"] != name.Value
}

func listOf(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
