package inspect

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

// immutable are fields that an API server refuses to change in an object that is there: those that people change.
func immutable(kind schema.GroupKind) []string {
	switch kind.String() {
	case "Deployment.apps", "DaemonSet.apps", "ReplicaSet.apps":
		return []string{"spec.selector"}
	case "StatefulSet.apps":
		return []string{"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"}
	case "Job.batch":
		return []string{"spec.selector", "spec.template"}
	case "RoleBinding.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io":
		return []string{"roleRef"}
	case "StorageClass.storage.k8s.io":
		return []string{"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"}
	case "PersistentVolumeClaim":
		return []string{"spec.accessModes", "spec.storageClassName", "spec.volumeName"}
	}
	return nil
}

// judgeImmutable warns of a change that clusters refuse where they have the object, unless it is one that may be made anew.
func (i *inspector) judgeImmutable(r *rendition, at *place, before *unstructured.Unstructured) {
	id := object.Of(at.object)
	turns, err := order.Of(at.object)
	again := func(t order.Turn) bool { return t.Hook || t.Recreate || t.Once || t.Pause }
	anew := func(kind string) bool { return kind == id.Kind || kind == id.GroupKind().String() }
	if err != nil || slices.ContainsFunc(turns, again) || slices.ContainsFunc(r.deployment.Recreate, anew) {
		return
	}
	for _, field := range immutable(id.GroupKind()) {
		path := strings.Split(field, ".")
		old, was, _ := unstructured.NestedFieldNoCopy(before.Object, path...)
		now, is, _ := unstructured.NestedFieldNoCopy(at.object.Object, path...)
		if was && is && !reflect.DeepEqual(old, now) { // what one side leaves out may be the default
			i.tell(&i.report.Warnings, at.finding(path, field+": clusters that have the object refuse to change this field",
				"take the change back, or let the object be made anew: annotate it with plural.sh/recreate=allow, or name its kind in "+
					"spec.sync.recreate"))
		}
	}
}
