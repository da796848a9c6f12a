package livequery

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// reduce is what is shown of an object.
func (t *table) reduce(obj metav1.Object) seen {
	facts := t.views.facts(obj)
	id := object.ID{Group: t.kind.Group, Kind: t.kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	shown := show(id, facts, t.kind, t.res)
	shown.Owner = owner(obj)
	if facts.Health.Until != 0 {
		t.expect(shown, facts.Health)
	}
	return seen{shown, facts.Owner}
}

// expect shows an object as it counts when its verdict was to hold no longer, unless it has changed by then.
func (t *table) expect(shown *tunnelapi.Object, verdict health.Status) {
	until := time.Unix(verdict.Until, 0)
	time.AfterFunc(time.Until(until), func() {
		select {
		case <-t.synced: // before that, what was reduced is not shown yet
		case <-t.ended:
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		s := t.objects[shown.GetUid()]
		if s.Object != shown {
			return
		}
		verdict = verdict.At(until)
		s.Object = proto.CloneOf(shown)
		s.Health, s.Message = phase(verdict.Phase), verdict.Message
		t.objects[s.GetUid()] = s
		t.tell(s.GetUid())
	})
}

// facts are what the engine would know of the object. What came as metadata alone has no status to be judged by.
func (v *Views) facts(obj metav1.Object) watchcache.Facts {
	full, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return watchcache.OfMetadata(obj)
	}
	var judge *health.Judge
	if service := obj.GetLabels()[object.ServiceLabel]; service != "" {
		judge = v.o.Services.Judge(service)
	}
	return watchcache.Of(full, judge)
}

// show is what facts show of an object.
func show(id object.ID, f watchcache.Facts, gvk schema.GroupVersionKind, res kinds.Resource) *tunnelapi.Object {
	return &tunnelapi.Object{
		Uid: f.UID, Group: id.Group, Version: gvk.Version, Kind: id.Kind, Resource: res.Resource, Namespace: id.Namespace, Name: id.Name,
		Health: phase(f.Health.Phase), Message: f.Health.Message, CreatedUnixMs: time.Unix(f.Created, 0).UnixMilli(),
		ResourceVersion: f.ResourceVersion, Applied: f.Owner != "" && f.Trace != "", Deleting: f.Deleting,
	}
}

// owner is the uid of the controller, or of the first owner when none controls.
func owner(obj metav1.Object) string {
	owners := obj.GetOwnerReferences()
	for _, o := range owners {
		if o.Controller != nil && *o.Controller {
			return string(o.UID)
		}
	}
	if len(owners) > 0 {
		return string(owners[0].UID)
	}
	return ""
}

func phase(p health.Phase) string {
	if p == "" {
		p = health.Unknown
	}
	return strings.ToLower(string(p))
}
