package inspect

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// judgePods tells what an API server asks of the parts of a workload together: its selector fits its pods, what is mounted is a volume
// of theirs, and nothing asks for more than its limit.
func (i *inspector) judgePods(at *place) {
	o := at.object.Object
	if group := at.object.GroupVersionKind().Group; group != "" && group != "apps" && group != "batch" {
		return
	}
	path := []string{"spec"}
	switch at.object.GetKind() {
	case "Pod":
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet":
		i.judgeSelector(at)
		path = []string{"spec", "template", "spec"}
	case "Job": // the server adds to the labels that it selects by
		path = []string{"spec", "template", "spec"}
	case "CronJob":
		path = []string{"spec", "jobTemplate", "spec", "template", "spec"}
	default:
		return
	}
	spec, _, _ := unstructured.NestedMap(o, path...)
	volumes := map[string]bool{}
	for _, volume := range named(spec, "volumes", nil) {
		volumes[volume.name] = true
	}
	claims, _, _ := unstructured.NestedSlice(o, "spec", "volumeClaimTemplates") // which a StatefulSet has
	for _, claim := range claims {
		written, _ := claim.(map[string]any)
		name, _, _ := unstructured.NestedString(written, "metadata", "name")
		volumes[name] = true
	}
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range named(spec, list, path) {
			for _, mount := range named(c.of, "volumeMounts", c.path) {
				if !volumes[mount.name] {
					i.tell(&i.report.Errors, at.finding(append(mount.path, "name"),
						fmt.Sprintf("container %s mounts %s, which is no volume of its pod", c.name, mount.name), "add it to volumes, or mend the name"))
				}
			}
			i.judgeLimits(at, c)
		}
	}
}

// item is a named item of a list in an object.
type item struct {
	name string
	of   map[string]any
	path []string
}

func named(of map[string]any, list string, path []string) []item {
	written, _, _ := unstructured.NestedSlice(of, list)
	var items []item
	for n, each := range written {
		fields, _ := each.(map[string]any)
		name, _ := fields["name"].(string)
		items = append(items, item{name: name, of: fields, path: append(append([]string{}, path...), list, strconv.Itoa(n))})
	}
	return items
}

func (i *inspector) judgeSelector(at *place) {
	asked, _, _ := unstructured.NestedStringMap(at.object.Object, "spec", "selector", "matchLabels")
	has, _, err := unstructured.NestedStringMap(at.object.Object, "spec", "template", "metadata", "labels")
	if err != nil {
		return // the schema tells
	}
	for key, value := range asked {
		if is, found := has[key]; !found || is != value {
			i.tell(&i.report.Errors, at.finding([]string{"spec", "selector", "matchLabels", key},
				fmt.Sprintf("its selector asks for the label %s: %s, which its pods do not have", key, value), "put it into spec.template.metadata.labels"))
		}
	}
}

func (i *inspector) judgeLimits(at *place, c item) {
	limits, _, _ := unstructured.NestedMap(c.of, "resources", "limits")
	requests, _, _ := unstructured.NestedMap(c.of, "resources", "requests")
	for name, asked := range requests {
		limit, limited := limits[name]
		most, err := resource.ParseQuantity(strings.TrimSpace(fmt.Sprint(limit)))
		if !limited || err != nil {
			continue
		}
		if least, err := resource.ParseQuantity(strings.TrimSpace(fmt.Sprint(asked))); err == nil && least.Cmp(most) > 0 {
			i.tell(&i.report.Errors, at.finding(append(append([]string{}, c.path...), "resources", "requests", name),
				fmt.Sprintf("container %s asks for more %s than its limit: %v, and at most %v", c.name, name, asked, limit), "raise the limit, or lower the request"))
		}
	}
}
