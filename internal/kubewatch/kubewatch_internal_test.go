package kubewatch

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTriesBackOffToALimit(t *testing.T) {
	refused := &Error{"list", schema.GroupResource{}, apierrors.NewForbidden(schema.GroupResource{}, "", nil)}
	for _, tt := range []struct {
		err         *Error
		first, last time.Duration
	}{{nil, shortest, longest}, {refused, time.Second, settled}} {
		for failures, want := range map[int]time.Duration{0: tt.first, 1: 2 * tt.first, 9: tt.last, 1 << 20: tt.last} {
			if got := backoff(failures, tt.err); got < want/2 || got > want*3/2 {
				t.Errorf("after %d failures with %v: %s, want about %s", failures, tt.err, got, want)
			}
		}
	}
}

func TestNothingOfAnObjectIsKeptButWhatWasReduced(t *testing.T) {
	w := &Watch[string]{Reduce: func(obj metav1.Object) string { return string(obj.GetUID()) }}
	list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, 1)}
	list.SetResourceVersion("7")
	list.SetContinue("more")
	list.Items[0].Object = map[string]any{"metadata": map[string]any{"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "5"}}
	want := Item[string]{"b", "a", "5", "c"}
	page, err := w.reduceList(list)
	if err != nil {
		t.Fatal(err)
	}
	reduced := page.(*metainternalversion.List)
	if reduced.Continue != "more" || reduced.ResourceVersion != "7" || len(reduced.Items) != 1 {
		t.Errorf("%+v", reduced)
	}
	for _, obj := range []any{&list.Items[0], reduced.Items[0]} {
		for range 2 { // what is reduced stays as it is
			if obj, err = (store[string]{w}).Transformer()(obj); err != nil {
				t.Fatal(err)
			}
		}
		if k, ok := obj.(*kept[string]); !ok || k.Item != want {
			t.Errorf("kept %+v", obj)
		}
	}
	if _, err := w.reduce("nonsense"); err == nil {
		t.Error("a text is taken for an object")
	}
}
