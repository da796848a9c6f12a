package inventory

import (
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/object"
)

const (
	headPrefix  = "plural-inventory-"
	chunkPrefix = "plural-chunk-"

	// inventoryLabel is on all ConfigMaps of a service's inventory, chunkLabel on its chunks.
	inventoryLabel = "plural.sh/inventory"
	chunkLabel     = "plural.sh/inventory-chunk"

	// A head holds one of these: the compressed text, the index of its chunks, or the text as older agents wrote it.
	packedKey = "inventory.json.zst" // in binaryData
	indexKey  = "chunks.json"
	textKey   = "inventory.json"

	chunkKey = "chunk" // in binaryData
)

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func newConfigMap(service, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	obj.SetName(name)
	obj.SetNamespace(object.SystemNamespace)
	obj.SetLabels(map[string]string{inventoryLabel: service})
	return obj
}

func packedHead(service string, packed []byte) *unstructured.Unstructured {
	obj := newConfigMap(service, headPrefix+service)
	obj.Object["binaryData"] = map[string]any{packedKey: base64.StdEncoding.EncodeToString(packed)}
	return obj
}

func indexHead(service, text string) *unstructured.Unstructured {
	obj := newConfigMap(service, headPrefix+service)
	obj.Object["data"] = map[string]any{indexKey: text}
	return obj
}

func (c chunk) configMap(service string) *unstructured.Unstructured {
	obj := newConfigMap(service, c.Name)
	obj.SetLabels(map[string]string{inventoryLabel: service, chunkLabel: service})
	obj.Object["immutable"] = true
	obj.Object["binaryData"] = map[string]any{chunkKey: base64.StdEncoding.EncodeToString(c.packed)}
	return obj
}

// binary is a value of binaryData.
func binary(obj *unstructured.Unstructured, key string) ([]byte, error) {
	text, found, err := unstructured.NestedString(obj.Object, "binaryData", key)
	if err != nil || !found {
		return nil, fmt.Errorf("it has no binaryData[%q]", key)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("binaryData[%q]: %w", key, err)
	}
	return data, nil
}

// kind is which of the three keys a head has. Two of them would say two things.
func headKey(obj *unstructured.Unstructured) (string, error) {
	var keys []string
	for _, key := range []struct{ field, key string }{{"binaryData", packedKey}, {"data", indexKey}, {"data", textKey}} {
		if _, found, err := unstructured.NestedString(obj.Object, key.field, key.key); found && err == nil {
			keys = append(keys, key.key)
		}
	}
	if len(keys) != 1 {
		return "", fmt.Errorf("it is no inventory: want one of %s, %s and %s in it, and found %d of them",
			packedKey, indexKey, textKey, len(keys))
	}
	return keys[0], nil
}
