package watchcache

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/internal/kubewatch"
)

var configMaps = schema.GroupKind{Kind: "ConfigMap"}

// newBench is a watch that hears what the test says.
func newBench() (*Observer, *kindWatch, *[]string) {
	told := &[]string{}
	o := New(Options{Changed: func(service string, id object.ID) { *told = append(*told, service+" "+id.Name) }})
	k := newKindWatch(o, configMaps, kinds.Resource{}, false)
	o.watches[configMaps] = k
	return o, k, told
}

func id(name string) object.ID { return object.ID{Kind: "ConfigMap", Namespace: "ns", Name: name} }

func facts(uid, version, owner, trace string) Facts {
	return Facts{UID: uid, ResourceVersion: version, Owner: owner, Trace: trace, Health: unjudged(false)}
}

func item(name string, f Facts) kubewatch.Item[Facts] {
	return kubewatch.Item[Facts]{Namespace: "ns", Name: name, Version: f.ResourceVersion, Value: f}
}

func TestAListThatIsOlderThanAnOwnAnswerDoesNotUndoIt(t *testing.T) {
	o, k, told := newBench()
	k.Replace([]kubewatch.Item[Facts]{item("a", facts("1", "10", "web", "x"))}, "12")
	o.Note(id("a"), facts("1", "20", "web", "y"))
	o.Note(id("b"), facts("2", "21", "web", "z"))
	k.Replace([]kubewatch.Item[Facts]{item("a", facts("1", "10", "web", "x"))}, "15")
	if f, _ := o.Get(id("a")); f.Trace != "y" {
		t.Errorf("a: %+v", f)
	}
	if _, there := o.Get(id("b")); !there {
		t.Error("b was made after the list")
	}
	k.Replace(nil, "30")
	if len(o.Owned("web")) != 0 {
		t.Errorf("owned: %v", o.Owned("web"))
	}
	slices.Sort((*told)[1:])
	if diff := cmp.Diff([]string{"web a", "web a", "web b"}, *told); diff != "" {
		t.Error(diff)
	}
}

// TestARestoredClusterIsBelieved shows that a cluster whose count of changes was turned back is seen as it is now.
func TestARestoredClusterIsBelieved(t *testing.T) {
	o, k, _ := newBench()
	k.Replace([]kubewatch.Item[Facts]{item("a", facts("1", "90", "web", "x")), item("b", facts("2", "91", "web", "x"))}, "100")
	k.Replace([]kubewatch.Item[Facts]{item("a", facts("1", "40", "web", "old"))}, "50")
	want := map[object.ID]Facts{id("a"): facts("1", "40", "web", "old")}
	if diff := cmp.Diff(want, o.Owned("web")); diff != "" {
		t.Error(diff)
	}
	o.Note(id("a"), facts("1", "51", "web", "new"))
	if f, _ := o.Get(id("a")); f.Trace != "new" {
		t.Errorf("an answer after the restore is not taken: %+v", f)
	}
}

func TestVersionsThatAreNoNumbersLeaveTheWatchRight(t *testing.T) {
	o, k, _ := newBench()
	k.Replace([]kubewatch.Item[Facts]{item("a", facts("1", "abc", "web", "x"))}, "def")
	o.Note(id("a"), facts("1", "xyz", "web", "noted"))
	k.Put(item("b", facts("2", "aaa", "web", "x")))
	k.Put(item("a", facts("1", "aab", "web", "y")))
	if f, _ := o.Get(id("a")); f.Trace != "y" {
		t.Errorf("a: %+v", f)
	}
	k.Delete(item("b", facts("2", "zzz", "web", "x")))
	if _, there := o.Get(id("b")); there {
		t.Error("b is still there")
	}
}

// TestTheIndexHoldsExactlyTheFacts holds for any order in which a watch and own answers speak.
func TestTheIndexHoldsExactlyTheFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, k, _ := newBench()
		draw := func(label string) (string, Facts) {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, label)
			return name, facts(
				rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid"), fmt.Sprint(rapid.IntRange(1, 30).Draw(t, "version")),
				rapid.SampledFrom([]string{"web", "db"}).Draw(t, "owner"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "trace"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"put":    func(*rapid.T) { k.Put(item(draw("put"))) },
			"delete": func(*rapid.T) { k.Delete(item(draw("delete"))) },
			"note":   func(*rapid.T) { name, f := draw("note"); o.Note(id(name), f) },
			"gone":   func(*rapid.T) { name, f := draw("gone"); o.Gone(id(name), f.UID) },
			"replace": func(*rapid.T) {
				name, f := draw("listed")
				k.Replace([]kubewatch.Item[Facts]{item(name, f)}, fmt.Sprint(rapid.IntRange(1, 30).Draw(t, "list")))
			},
			"": func(t *rapid.T) {
				want, got := map[object.ID]Facts{}, map[object.ID]Facts{}
				maps.Copy(want, k.facts)
				for service := range o.owned {
					maps.Copy(got, o.Owned(service))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
			},
		})
	})
}

func FuzzTracesAreReadFromAnything(f *testing.F) {
	f.Add(`{"f:data":{"f:key":{}}}`, "v1")
	f.Add(`[]`, "")
	f.Fuzz(func(t *testing.T, fields, version string) {
		records := managed(fields, version)
		one, two := traceOfRecords(records), traceOfRecords(records)
		if one == "" || one != two {
			t.Errorf("traces %q and %q", one, two)
		}
	})
}

func FuzzFactsAreReadFromAnything(f *testing.F) {
	f.Add([]byte(`{"kind":"Job","metadata":{"labels":{"plural.sh/service":"a"},"managedFields":[{"manager":"plural","operation":"Apply","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{}}}]}}`))
	f.Add([]byte(`{"kind":"Pod","metadata":{"finalizers":7,"managedFields":[1,{}],"deletionTimestamp":"soon"},"status":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		obj := &unstructured.Unstructured{}
		if obj.UnmarshalJSON(data) != nil || obj.IsList() {
			return // no input that the property speaks of
		}
		if got := Of(obj, nil); got != Of(obj, nil) || len(got.Finalizers) > clip+8 || len(got.Health.Message) > clip+8 {
			t.Errorf("facts %+v", got)
		}
	})
}

func managed(fields, version string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply},
		{Manager: object.Manager, Operation: metav1.ManagedFieldsOperationUpdate},
		{Manager: object.Manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: "scale"},
		{Manager: object.Manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version, FieldsV1: metav1.NewFieldsV1(fields)},
	}
}
