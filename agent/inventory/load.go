package inventory

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
)

// listPage bounds how many ConfigMaps, of up to 1 MiB each, are in one answer.
const listPage = 50

// errGone says that a chunk that a head names is not there.
var errGone = errors.New("it is not there")

// fetch gets a chunk by name. It fails with errGone when there is none.
type fetch func(name string) (*unstructured.Unstructured, error)

// Load returns a service's inventory, fresh and empty when there is none. An error that is an *Error says that it stands
// there and cannot be trusted.
func (s *Store) Load(ctx context.Context, service string) (*Inventory, error) {
	get := func(name string) (*unstructured.Unstructured, error) {
		obj, err := s.configMaps().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, errGone
		}
		return obj, err
	}
	for before := ""; ; {
		head, err := get(headPrefix + service)
		if errors.Is(err, errGone) {
			return New(service), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read inventory of service %q: %w", service, err)
		}
		inv, err := s.read(service, head, get)
		// A chunk that is gone may mean that the head was replaced after it was read.
		if !errors.Is(err, errGone) || head.GetResourceVersion() == before {
			return inv, err
		}
		before = head.GetResourceVersion()
	}
}

// LoadAll returns all inventories by service. Those that cannot be trusted are apart, each with an *Error.
func (s *Store) LoadAll(ctx context.Context) (map[string]*Inventory, map[string]error, error) {
	all := &listing{store: s, loaded: map[string]*Inventory{}, damaged: map[string]error{}, strangers: map[string]string{}}
	options := metav1.ListOptions{LabelSelector: inventoryLabel + ",!" + chunkLabel, Limit: listPage}
	for {
		page, err := s.configMaps().List(ctx, options)
		if err != nil {
			return nil, nil, fmt.Errorf("list inventories: %w", err)
		}
		for i := range page.Items {
			if err := all.take(ctx, &page.Items[i]); err != nil {
				return nil, nil, err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	if err := all.finish(ctx); err != nil {
		return nil, nil, err
	}
	return all.loaded, all.damaged, nil
}

// listing sorts what a list of ConfigMaps gives.
type listing struct {
	store   *Store
	loaded  map[string]*Inventory
	damaged map[string]error
	// strangers are ConfigMaps that carry the label and are nothing of ours, by what the label says.
	strangers map[string]string
}

func (l *listing) take(ctx context.Context, obj *unstructured.Unstructured) error {
	service, isHead := strings.CutPrefix(obj.GetName(), headPrefix)
	if !isHead {
		l.strangers[obj.GetLabels()[inventoryLabel]] = obj.GetName()
		return nil
	}
	inv, err := l.store.read(service, obj, func(string) (*unstructured.Unstructured, error) { return nil, errGone })
	if errors.Is(err, errGone) {
		inv, err = l.store.Load(ctx, service)
	}
	var damage *Error
	switch {
	case errors.As(err, &damage):
		l.damaged[service] = err
	case err != nil:
		return err
	default:
		l.loaded[service] = inv
	}
	return nil
}

// finish notes who has chunks, needed or not. It also tells of strangers whose service has nothing else: one of them may be
// an inventory under another name.
func (l *listing) finish(ctx context.Context) error {
	chunks, err := l.store.metadata.Resource(configMaps()).Namespace(object.SystemNamespace).
		List(ctx, metav1.ListOptions{LabelSelector: chunkLabel})
	if err != nil {
		return fmt.Errorf("list chunks of inventories: %w", err)
	}
	for i := range chunks.Items {
		if inv := l.loaded[chunks.Items[i].Labels[chunkLabel]]; inv != nil {
			inv.stored.chunked = true
		}
	}
	for service, name := range l.strangers {
		if l.loaded[service] != nil || l.damaged[service] != nil {
			continue
		}
		l.damaged[service] = &Error{
			service, name, fmt.Sprintf("take the label %s off it, or give it the name %s%s", inventoryLabel, headPrefix, service),
			fmt.Errorf("it carries the label %s=%s and is not that service's inventory", inventoryLabel, service), "",
		}
	}
	return nil
}

// read makes an inventory of its head. An error is an *Error, unless a chunk could not be asked for.
func (s *Store) read(service string, head *unstructured.Unstructured, get fetch) (*Inventory, error) {
	damaged := func(configMap string, cause error) error {
		return &Error{service, configMap, startOver(service), cause, head.GetResourceVersion()}
	}
	key, err := headKey(head)
	if err != nil {
		return nil, damaged(head.GetName(), err)
	}
	if key == textKey {
		text, _, _ := unstructured.NestedString(head.Object, "data", textKey)
		inv, err := decode(service, []byte(text), formatV1)
		if err != nil {
			return nil, damaged(head.GetName(), err)
		}
		inv.stored = stored{version: head.GetResourceVersion()}
		return inv, nil
	}
	packed, configMap, err := s.packed(service, key, head, get)
	if err != nil && configMap == "" {
		return nil, err
	}
	if err != nil {
		return nil, damaged(configMap, err)
	}
	text, err := s.unpack(packed)
	if err != nil {
		return nil, damaged(head.GetName(), err)
	}
	inv, err := decode(service, text, format)
	if err != nil {
		return nil, damaged(head.GetName(), err)
	}
	inv.stored = stored{head.GetResourceVersion(), sha256.Sum256(text), key == indexKey}
	return inv, nil
}

// packed is the compressed text. An error comes with the name of the ConfigMap that is wrong, with none when none is.
func (s *Store) packed(service, key string, head *unstructured.Unstructured, get fetch) ([]byte, string, error) {
	if key == packedKey {
		packed, err := binary(head, packedKey)
		return packed, head.GetName(), err
	}
	text, _, _ := unstructured.NestedString(head.Object, "data", indexKey)
	chunks, err := decodeIndex(service, text)
	if err != nil {
		return nil, head.GetName(), err
	}
	var packed []byte
	for _, c := range chunks {
		obj, err := get(c.Name)
		if errors.Is(err, errGone) {
			return nil, c.Name, err
		}
		if err != nil {
			return nil, "", fmt.Errorf("read inventory of service %q: %w", service, err)
		}
		part, err := c.content(obj)
		if err != nil {
			return nil, c.Name, err
		}
		packed = append(packed, part...)
	}
	return packed, "", nil
}

func (s *Store) unpack(packed []byte) ([]byte, error) {
	codec, err := s.codec()
	if err != nil {
		return nil, err
	}
	return codec.unpack(packed)
}

// startOver is what can be done about a damaged inventory.
func startOver(service string) string {
	return fmt.Sprintf("restore it from a backup, or have the inventory made anew from what carries the label %s=%s",
		object.ServiceLabel, service)
}
