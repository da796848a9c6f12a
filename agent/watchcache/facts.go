package watchcache

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/agent/object"
)

// Facts is what is kept of one live object.
type Facts struct {
	UID, ResourceVersion string
	// Owner is the service that the label names.
	Owner string
	// Trace is a digest of this manager's own record on the object, 16 bytes as unpadded base64: which fields it applied
	// when. It changes when anybody takes or removes one of them, and when nothing else happens. Empty when it never
	// applied the object.
	Trace string
	// Run is the render that a hook ran for.
	Run string
	// Proof tells, on a hook, who made it.
	Proof string
	// Allowed says that the object itself allows its deletion, whatever its kind.
	Allowed  bool
	Deleting bool
	// Finalizers are joined by ", ", and clipped.
	Finalizers string
	// Health is the verdict of when the object was seen. Of an object seen as metadata alone it is Healthy.
	Health     health.Status
	Generation int64
	// Created is in seconds since 1970.
	Created int64
}

// clip bounds what is kept of a text from outside, in bytes.
const clip = 512

// Of reads the facts of a whole object, as a watch or the answer to an own request shows it.
func Of(obj *unstructured.Unstructured, judge *health.Judge) Facts {
	f := common(obj)
	f.Trace = traceOf(obj)
	switch {
	case f.Run == "":
		f.Health = judge.Of(obj)
	default:
		f.Health = judge.OfHook(alive(obj, f))
		if f.Health.Phase == health.Healthy && isRunning(obj) {
			f.Health = health.Status{Phase: health.Progressing, Message: "Pod is running"}
		}
	}
	f.Health.Message = clipped(f.Health.Message)
	return f
}

// alive is a hook as it was before somebody deleted it: what it came to counts, also while it waits to go.
func alive(obj *unstructured.Unstructured, f Facts) *unstructured.Unstructured {
	if !f.Deleting {
		return obj
	}
	fields := maps.Clone(obj.Object)
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "deletionTimestamp")
		fields["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: fields}
}

// isRunning says that a Pod works, and has not done its work: of a hook that is not enough.
func isRunning(obj *unstructured.Unstructured) bool {
	if obj.GetAPIVersion() != "v1" || obj.GetKind() != "Pod" {
		return false
	}
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	return phase != "Succeeded"
}

// OfMetadata reads the facts of an object of which only metadata is known, or is to be known.
func OfMetadata(obj metav1.Object) Facts {
	f := common(obj)
	f.Trace = traceOfRecords(obj.GetManagedFields())
	f.Health = unjudged(f.Deleting)
	return f
}

// unjudged is the verdict on an object with no status.
func unjudged(deleting bool) health.Status {
	if deleting {
		return health.Status{Phase: health.Progressing, Message: "Resource scheduled for deletion"}
	}
	return health.Status{Phase: health.Healthy}
}

func common(obj metav1.Object) Facts {
	annotations := obj.GetAnnotations()
	return Facts{
		UID:             string(obj.GetUID()),
		ResourceVersion: obj.GetResourceVersion(),
		Owner:           obj.GetLabels()[object.ServiceLabel],
		Run:             clipped(annotations[object.RunAnnotation]),
		Proof:           clipped(annotations[object.ProofAnnotation]),
		Allowed:         annotations[object.PruneAnnotation] == "allow",
		Deleting:        obj.GetDeletionTimestamp() != nil,
		Finalizers:      clipped(strings.Join(obj.GetFinalizers(), ", ")),
		Generation:      obj.GetGeneration(),
		Created:         obj.GetCreationTimestamp().Unix(),
	}
}

// same says that two sightings differ in nothing that anybody waits for.
func (f Facts) same(other Facts) bool {
	f.ResourceVersion, f.Generation = other.ResourceVersion, other.Generation
	return f == other
}

func clipped(text string) string {
	if len(text) <= clip {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:clip], "")) + "…"
}

// record is one manager's entry in managedFields.
type record struct {
	version string
	time    time.Time
	fields  map[string]any
}

// traceOf reads the record without turning those of all managers into other shapes.
func traceOf(obj *unstructured.Unstructured) string {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	records, _ := metadata["managedFields"].([]any)
	for _, r := range records {
		entry, _ := r.(map[string]any)
		subresource, _ := entry["subresource"].(string)
		if entry["manager"] != object.Manager || entry["operation"] != string(metav1.ManagedFieldsOperationApply) || subresource != "" {
			continue
		}
		own := record{}
		own.version, _ = entry["apiVersion"].(string)
		own.fields, _ = entry["fieldsV1"].(map[string]any)
		if text, ok := entry["time"].(string); ok {
			own.time, _ = time.Parse(time.RFC3339, text) // the API server writes nothing else
		}
		return own.digest()
	}
	return ""
}

func traceOfRecords(records []metav1.ManagedFieldsEntry) string {
	for i := range records {
		r := &records[i]
		if r.Manager != object.Manager || r.Operation != metav1.ManagedFieldsOperationApply || r.Subresource != "" {
			continue
		}
		own := record{version: r.APIVersion}
		if r.Time != nil {
			own.time = r.Time.Time
		}
		if r.FieldsV1 != nil {
			_ = json.Unmarshal(r.FieldsV1.GetRawBytes(), &own.fields) // the API server writes nothing else
		}
		return own.digest()
	}
	return ""
}

// digest does not depend on the order in which a transport happens to write the fields.
func (r record) digest() string {
	h := sha256.New()
	write(h, r.version)
	write(h, r.time.UTC().Format(time.RFC3339))
	writeFields(h, r.fields)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

func writeFields(h hash.Hash, fields map[string]any) {
	write(h, "{")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		write(h, name)
		if below, ok := fields[name].(map[string]any); ok {
			writeFields(h, below)
		}
	}
	write(h, "}")
}

func write(h hash.Hash, text string) { _, _ = io.WriteString(h, text+"\x00") } // a hash takes everything
