package rendercmd

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/cli/ui"
)

// printYAML prints the objects as kubectl kustomize does. With more than one rendition each gets a comment that names it.
func printYAML(streams *ui.Streams, all []*rendition) error {
	var b bytes.Buffer
	for _, r := range all {
		if b.Len() > 0 {
			b.WriteString("---\n")
		}
		if len(all) > 1 {
			fmt.Fprintf(&b, "# %s\n", ui.Clean(r.title()))
		}
		if err := render.WriteYAML(&b, r.objects); err != nil {
			return err
		}
	}
	_, err := streams.Out.Write(b.Bytes())
	return err
}

// view is the objects in every other form.
func view(all []*rendition) ui.View {
	items := []*unstructured.Unstructured{}
	v := ui.View{Columns: []ui.Column{
		{Name: "SERVICE"}, {Name: "CLUSTERS"}, {Name: "KIND"}, {Name: "NAMESPACE"}, {Name: "NAME"}, {Name: "VERSION", Wide: true},
	}}
	for _, r := range all {
		for _, o := range r.objects {
			items = append(items, o)
			v.Names = append(v.Names, objectName(o))
			v.Rows = append(v.Rows, []string{
				r.deployment.Service, strings.Join(r.clusters, ","), o.GetKind(), o.GetNamespace(), o.GetName(), o.GetAPIVersion(),
			})
		}
	}
	v.Value = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	return v
}

// objectName is "kind.group/name", as kubectl writes it.
func objectName(o *unstructured.Unstructured) string {
	kind := strings.ToLower(o.GetKind())
	if group := o.GroupVersionKind().Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + o.GetName()
}
