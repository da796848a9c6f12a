package kubewatch

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// kept stands for an object from the moment that it was decoded. It is a runtime.Object for the lists' sake.
type kept[T any] struct{ Item[T] }

func (k *kept[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (k *kept[T]) DeepCopyObject() runtime.Object {
	c := *k
	return &c
}

// reduce leaves alone what was reduced before.
func (w *Watch[T]) reduce(obj any) (*kept[T], error) {
	if k, ok := obj.(*kept[T]); ok {
		return k, nil
	}
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("watch %s: %T is no object", w.Source.resource, obj)
	}
	return &kept[T]{Item[T]{m.GetNamespace(), m.GetName(), m.GetResourceVersion(), w.Reduce(m)}}, nil
}

// reduceList makes a list of reduced objects.
func (w *Watch[T]) reduceList(list runtime.Object) (runtime.Object, error) {
	from, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", w.Source.resource, err)
	}
	out := &metainternalversion.List{}
	out.ResourceVersion, out.Continue, out.RemainingItemCount = from.GetResourceVersion(), from.GetContinue(), from.GetRemainingItemCount()
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		k, err := w.reduce(obj)
		out.Items = append(out.Items, k)
		return err
	})
	return out, err
}

// store is a Sink in the Reflector's shape. Its Transformer keeps whole objects out of the Reflector's own memory.
type store[T any] struct{ watch *Watch[T] }

var _ cache.TransformingStore = store[int]{}

func (s store[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.watch.reduce(obj) }
}

func (s store[T]) Add(obj any) error { return s.Update(obj) }

func (s store[T]) Update(obj any) error {
	k, err := s.watch.reduce(obj)
	if err == nil {
		s.watch.Sink.Put(k.Item)
	}
	return err
}

func (s store[T]) Delete(obj any) error {
	k, err := s.watch.reduce(obj)
	if err == nil {
		s.watch.Sink.Delete(k.Item)
	}
	return err
}

func (s store[T]) Replace(list []any, version string) error {
	items := make([]Item[T], 0, len(list))
	for _, obj := range list {
		k, err := s.watch.reduce(obj)
		if err != nil {
			return err
		}
		items = append(items, k.Item)
	}
	s.watch.Sink.Replace(items, version)
	return nil
}

// Resync has nothing to do: the Reflector is told never to ask.
func (s store[T]) Resync() error { return nil }
