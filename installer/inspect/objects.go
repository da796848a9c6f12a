package inspect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/internal/kubeschema"
	"github.com/pluralsh/plural/internal/removedapi"
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
	return Finding{
		Where:   p.locate.where(p.origin, field),
		Message: p.silent(fmt.Sprintf("service %s: %s %s: %s", p.service, p.object.GetKind(), name, message)), Fix: p.silent(fix),
	}
}

func (p *place) fault(f kubeschema.Fault) Finding {
	return p.finding(f.Path, f.Field()+": "+f.Message, f.Fix)
}

// judge judges an object of Kubernetes' own, and keeps others for later.
func (i *inspector) judge(r *rendition, at *place) error {
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
		if kind.Kind == "CustomResourceDefinition" {
			i.define(r, at)
		}
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
		i.custom = append(i.custom, customObject{r, *at, kind})
		i.mu.Unlock()
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

	mu    sync.Mutex // guards files
	files map[string][]*yaml.Node
}

// maxLocated bounds a file whose fields are looked for, in bytes.
const maxLocated = 1 << 20

// where is the line of a field, or of what would hold it, where the file is what was written; else what is known of the object.
func (l *locator) where(origin render.Origin, field []string) string {
	if origin.File == "" {
		return cmp.Or(l.deployment.Path, ".")
	}
	if origin.Line == 0 {
		return origin.String()
	}
	var document *yaml.Node
	for _, d := range l.documents(origin.File) {
		if d.Line <= origin.Line {
			document = d
		}
	}
	if document == nil || document.Kind != yaml.MappingNode {
		return origin.String()
	}
	at, line := document, origin.Line
	for _, step := range field {
		key, value := child(at, step)
		if value == nil {
			break
		}
		at, line = value, key.Line
	}
	return render.Origin{File: origin.File, Line: line}.String()
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

func listOf(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
