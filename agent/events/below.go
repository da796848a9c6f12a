package events

import (
	"context"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
)

const (
	// maxDepth is how far below an object something is looked for: CronJob, Job, Pod.
	maxDepth = 3
	// maxLooks bounds how many objects are looked at for the warnings of one namespace.
	maxLooks = 30
	// stem is how much of an owner's name the names of what it made have in any case.
	stem = 40
)

// below finds out which object a warning is about.
type below struct {
	objects dynamic.Interface
	catalog *kinds.Catalog
	roots   []Object
	// known are the objects that were looked at, nil for what is not there or is well, by uid.
	known map[string]*unstructured.Unstructured
}

// of are the uids of the objects that a warning tells of: what it is about, and the roots that this hangs below.
func (b *below) of(ctx context.Context, w *warning) []string {
	if w.about.UID == "" {
		return nil
	}
	if slices.ContainsFunc(b.roots, func(o Object) bool { return o.UID == w.about.UID }) {
		return []string{w.about.UID}
	}
	var uids []string
	for _, root := range b.roots {
		if !strings.Contains(w.about.ID.Name, root.ID.Name[:min(len(root.ID.Name), stem)]) {
			continue
		}
		child := b.look(ctx, w.about.ID, w.version, w.about.UID)
		if child == nil || well(child) {
			break
		}
		if isClaim(w.about.ID, root.ID) || b.hangs(ctx, child, root.UID, maxDepth) {
			uids = append(uids, root.UID)
		}
	}
	if len(uids) > 0 {
		uids = append(uids, w.about.UID)
	}
	return uids
}

// told is a warning as it is told. Of containers a kubelet warns several times for one cause, and not how one that starts again
// ended; its Pod says both at once, in the same words for all Pods that suffer the same.
func (b *below) told(w warning) warning {
	if child := b.known[w.about.UID]; child != nil && (w.reason == "BackOff" || w.reason == "Failed") {
		if text := health.Containers(child); text != "" {
			w.reason, w.text = "", text
		}
	}
	return w
}

// well says whether nobody needs to hear of an object. A claim without a volume keeps nothing from being applied, yet pods wait.
func well(child *unstructured.Unstructured) bool {
	if child.GetKind() == "PersistentVolumeClaim" {
		phase, _, _ := unstructured.NestedString(child.Object, "status", "phase")
		return phase == "Bound"
	}
	return health.Of(child).Phase == health.Healthy
}

// hangs says whether an object's owners lead to a root.
func (b *below) hangs(ctx context.Context, child *unstructured.Unstructured, root string, depth int) bool {
	for _, owner := range child.GetOwnerReferences() {
		if string(owner.UID) == root {
			return true
		}
		gv, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil || depth == 1 {
			continue
		}
		id := object.ID{Group: gv.Group, Kind: owner.Kind, Namespace: child.GetNamespace(), Name: owner.Name}
		if above := b.look(ctx, id, gv.Version, string(owner.UID)); above != nil && b.hangs(ctx, above, root, depth-1) {
			return true
		}
	}
	return false
}

// look reads an object, unless too many were read; nil when it is not there any more.
func (b *below) look(ctx context.Context, id object.ID, version, uid string) *unstructured.Unstructured {
	if seen, ok := b.known[uid]; ok || len(b.known) >= maxLooks {
		return seen
	}
	b.known[uid] = nil
	res, ok := b.catalog.Exact(id.GroupKind().WithVersion(version))
	if !ok || id.IsSecret() {
		return nil
	}
	client := dynamic.ResourceInterface(b.objects.Resource(res.GroupVersionResource))
	if res.Namespaced {
		client = b.objects.Resource(res.GroupVersionResource).Namespace(id.Namespace)
	}
	live, err := client.Get(ctx, id.Name, metav1.GetOptions{})
	if err != nil || live.GetUID() != types.UID(uid) { // gone, or not for us to see: its warnings are left out
		return nil
	}
	b.known[uid] = live
	return live
}

// claims matches what a name of a StatefulSet's claim ends with after the set's name.
var claims = regexp.MustCompile(`^-[0-9]+$`)

// isClaim says whether an object is a claim that a StatefulSet made, of which it is no owner unless it is told to be.
func isClaim(id, root object.ID) bool {
	if id.Kind != "PersistentVolumeClaim" || root.Kind != "StatefulSet" {
		return false
	}
	at := strings.LastIndex(id.Name, "-"+root.Name)
	return at > 0 && claims.MatchString(id.Name[at+1+len(root.Name):])
}
