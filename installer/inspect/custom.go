package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/internal/kubeschema"
)

// definition is a CustomResourceDefinition that a service brings to some clusters.
type definition struct {
	service  string
	name     string
	kind     schema.GroupKind
	forms    map[schema.GroupVersionKind]*kubeschema.Form
	clusters map[string]bool
}

// customObject is an object whose kind is not Kubernetes' own.
type customObject struct {
	*rendition
	place
	kind schema.GroupVersionKind
	// only are those of its clusters whose definitions are known; nil: all of them.
	only []string
}

// define notes which kinds an object brings, if it is a definition.
func (i *inspector) define(r *rendition, at *place) {
	if at.object.GetKind() != "CustomResourceDefinition" {
		return
	}
	kind, forms := kubeschema.Defined(at.object.Object)
	clusters := make(map[string]bool, len(r.clusters))
	for _, name := range r.clusters {
		clusters[name] = true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.definitions = append(i.definitions, definition{
		service: r.deployment.Service, name: at.object.GetName(), kind: kind, forms: forms, clusters: clusters,
	})
}

// judgeCustom judges objects by the definitions that reach their clusters.
func (i *inspector) judgeCustom() {
	byKind := map[schema.GroupKind][]definition{}
	for _, d := range i.definitions {
		byKind[d.kind] = append(byKind[d.kind], d)
	}
	unseen := i.unseen()
	for n := range i.custom {
		o := &i.custom[n]
		missing := slices.Clone(o.clusters)
		if o.only != nil {
			missing = slices.Clone(o.only)
		}
		var reaching []definition
		for _, d := range byKind[o.kind.GroupKind()] {
			reached := func(cluster string) bool { return d.clusters[cluster] }
			if slices.ContainsFunc(o.clusters, reached) {
				reaching = append(reaching, d)
				missing = slices.DeleteFunc(missing, reached)
			}
		}
		i.judgeBy(reaching, o)
		if o.served[o.kind] { // by whoever had it served before the change
			continue
		}
		i.undefined(o, missing, unseen, byKind[o.kind.GroupKind()])
	}
}

// judgeBy judges an object by the definitions that reach its clusters, if there are any: by those that serve its version.
func (i *inspector) judgeBy(reaching []definition, o *customObject) {
	served := false
	for _, d := range reaching {
		form, serves := d.forms[o.kind]
		if !serves {
			continue
		}
		served = true
		for _, fault := range form.Check(o.object.Object) {
			i.tell(&i.report.Errors, o.fault(fault))
		}
	}
	if served || len(reaching) == 0 {
		return
	}
	d, fix := reaching[0], ""
	versions := kubeschema.Versions(d.forms)
	if len(versions) > 0 {
		fix = fmt.Sprintf("write apiVersion: %s/%s", o.kind.Group, versions[len(versions)-1])
	}
	i.tell(&i.report.Errors, o.finding([]string{"apiVersion"}, fmt.Sprintf("%s of service %s serves %s, and not %s",
		d.name, d.service, cmp.Or(strings.Join(versions, ", "), "no version"), o.kind.Version), fix))
}

// undefined warns of an object whose kind nothing in the fleet brings to clusters. Something else may, so this is no error; and a
// service that cannot be looked into here may bring it.
func (i *inspector) undefined(o *customObject, missing []string, unseen map[string]bool, elsewhere []definition) {
	isUnseen := func(cluster string) bool { return unseen[cluster] }
	unknown := slices.Clone(missing)
	unknown = slices.DeleteFunc(unknown, func(cluster string) bool { return !isUnseen(cluster) })
	if missing = slices.DeleteFunc(missing, isUnseen); len(missing) == 0 {
		return
	}
	note := ""
	if len(unknown) > 0 {
		note = "; of " + listOf(unknown) + " it is not known: a service that runs there cannot be read here"
	}
	fix := cmp.Or(object.Instead(o.kind.GroupKind()),
		"add a service that brings its CustomResourceDefinition; ignore this where something else installs it")
	if len(elsewhere) > 0 {
		fix = fmt.Sprintf("let service %s, which brings it, run there too", elsewhere[0].service)
	}
	i.tell(&i.report.Warnings, o.finding([]string{"apiVersion"}, fmt.Sprintf(
		"nothing in this fleet defines %s of %s on %s: its CustomResourceDefinition is missing%s",
		o.kind.Kind, o.kind.GroupVersion(), listOf(missing), note), fix))
}

// unseen are the clusters that get services which cannot be looked into here.
func (i *inspector) unseen() map[string]bool {
	names := map[string]bool{}
	for s := range i.Fleet.Services {
		service := &i.Fleet.Services[s]
		if _, unchecked := i.report.Unchecked[service.Metadata.Name]; !unchecked {
			continue
		}
		for c := range i.Fleet.Clusters {
			if service.Spec.Clusters.Matches(&i.Fleet.Clusters[c]) {
				names[i.Fleet.Clusters[c].Metadata.Name] = true
			}
		}
	}
	return names
}
