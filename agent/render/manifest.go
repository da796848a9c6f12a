package render

import (
	"encoding/json"
	"strings"
)

// manifest is one object on its way out: its JSON, what identifies it, and where it was written.
type manifest struct {
	place
	json []byte
	head objectHead
}

// objectHead is the part of an object that every one has.
type objectHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string            `json:"name"`
		GenerateName    string            `json:"generateName"`
		Namespace       string            `json:"namespace"`
		ResourceVersion string            `json:"resourceVersion"`
		UID             string            `json:"uid"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// manifests turns a document into objects: one, or the items of a List.
func manifests(doc decoded) ([]manifest, error) {
	var probe struct {
		APIVersion *string          `json:"apiVersion"`
		Kind       *string          `json:"kind"`
		Items      *json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(doc.json, &probe); err != nil {
		return nil, doc.invalid("is not a Kubernetes object: %v", err)
	}
	if probe.APIVersion == nil && probe.Kind == nil {
		e := doc.invalid("is not a Kubernetes object: it has neither apiVersion nor kind")
		e.Fix = "move what is no manifest out of the service's folder"
		return nil, e
	}
	if probe.Kind != nil && strings.HasSuffix(*probe.Kind, "List") && probe.Items != nil {
		return items(doc, *probe.Items)
	}
	m := manifest{place: doc.place, json: doc.json}
	if err := json.Unmarshal(doc.json, &m.head); err != nil {
		return nil, doc.invalid("is not a Kubernetes object: %v", err)
	}
	return []manifest{m}, nil
}

func items(doc decoded, list json.RawMessage) ([]manifest, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(list, &raw); err != nil {
		return nil, doc.invalid("items is not a list: %v", err)
	}
	var all []manifest
	for i, item := range raw {
		if string(item) == "null" {
			return nil, doc.invalid("item %d of the list is null", i+1)
		}
		expanded, err := manifests(decoded{doc.place, item})
		if err != nil {
			return nil, err
		}
		all = append(all, expanded...)
	}
	return all, nil
}

// identity is what makes two manifests the same object. The version is no part of it.
type identity struct{ group, kind, namespace, name string }

func (h *objectHead) identity(namespace string) identity {
	group, _, grouped := strings.Cut(h.APIVersion, "/")
	if !grouped {
		group = ""
	}
	if h.Metadata.Namespace != "" {
		namespace = h.Metadata.Namespace
	}
	return identity{group, h.Kind, namespace, h.Metadata.Name}
}

func (h *objectHead) String() string { return h.Kind + "/" + h.Metadata.Name }

// admit refuses a render in which an object cannot be told apart from another, or cannot be told at all.
func admit(all []manifest, namespace string, limits Limits) error {
	if len(all) > limits.Objects {
		return all[limits.Objects].limit("renders more than %d objects", limits.Objects)
	}
	size, seen := int64(0), map[identity]place{}
	for _, m := range all {
		if err := m.complete(); err != nil {
			return err
		}
		if size += int64(len(m.json)); size > limits.Output {
			return m.limit("renders to more than %d MiB", limits.Output>>20)
		}
		id := m.head.identity(namespace)
		if first, ok := seen[id]; ok {
			return m.invalid("%s stands in this service twice: first in %s", &m.head, first)
		}
		seen[id] = m.place
	}
	return nil
}

// complete refuses what an API server could not name.
func (m *manifest) complete() error {
	switch h := &m.head; {
	case h.Kind == "":
		return m.invalid("an object has no kind")
	case h.APIVersion == "":
		return m.invalid("%s has no apiVersion", h)
	case h.Metadata.Name != "":
		return nil
	case h.Metadata.GenerateName != "":
		e := m.invalid("a %s has a generateName: each apply would make another one", h.Kind)
		e.Fix = "give it a name"
		return e
	}
	return m.invalid("a %s has no metadata.name", m.head.Kind)
}
