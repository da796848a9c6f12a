package render

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"
)

// manifest is one object on its way out: its JSON, what identifies it, and where it was written. The place is for errors, the
// origin for readers: of what a kustomization made, errors know the kustomization alone.
type manifest struct {
	place
	json   []byte
	head   objectHead
	origin Origin
}

// objectHead is the part of an object that every one has.
type objectHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Namespace    string            `json:"namespace"`
		Annotations  map[string]string `json:"annotations"`
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
		return nil, doc.invalid("is not a Kubernetes object: %s", misshapen(err))
	}
	if probe.APIVersion == nil && probe.Kind == nil {
		e := doc.invalid("is not a Kubernetes object: it has neither apiVersion nor kind")
		e.Fix = "move what is no manifest out of the service's folder"
		return nil, e
	}
	if probe.Kind != nil && strings.HasSuffix(*probe.Kind, "List") && probe.Items != nil {
		return items(doc, *probe.Items)
	}
	m := manifest{place: doc.place, json: doc.json, origin: Origin{File: doc.file, Line: doc.line}}
	if err := json.Unmarshal(doc.json, &m.head); err != nil {
		return nil, doc.invalid("is not a Kubernetes object: %s", misshapen(err))
	}
	return []manifest{m}, nil
}

// misshapen says what JSON has in the wrong place, without the type that would have held it.
func misshapen(err error) string {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	if wrong.Field == "" {
		return "it is of type " + wrong.Value
	}
	return wrong.Field + " is of type " + wrong.Value
}

func items(doc decoded, list json.RawMessage) ([]manifest, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(list, &raw); err != nil {
		return nil, doc.invalid("items is not a list: %s", misshapen(err))
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
	size, seen := int64(0), map[identity][]manifest{}
	for _, m := range all {
		if err := m.acceptable(); err != nil {
			return err
		}
		if size += int64(len(m.json)); size > limits.Output {
			return m.limit("renders to more than %d MiB", limits.Output>>20)
		}
		id := m.head.identity(namespace)
		i := slices.IndexFunc(seen[id], func(other manifest) bool { return !m.apart(other) })
		if i >= 0 && id.name != "" {
			return m.invalid("%s stands in this service twice: first in %s", &m.head, seen[id][i].place)
		}
		seen[id] = append(seen[id], m)
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
		if h.isHook() {
			return nil // it gets a name for each revision
		}
		e := m.invalid("a %s has a generateName: each apply would make another one", h.Kind)
		e.Fix = "give it a name"
		return e
	}
	return m.invalid("a %s has no metadata.name", m.head.Kind)
}

// isHook says whether an annotation makes the object one that is created, and not applied.
func (h *objectHead) isHook() bool {
	return slices.ContainsFunc([]string{"plural.sh/hook", "argocd.argoproj.io/hook", release.HookAnnotation}, func(annotation string) bool {
		return h.Metadata.Annotations[annotation] != ""
	})
}

// What an API server takes of one object, in bytes: of its JSON, since etcd takes no larger request; of its annotations; and of
// the values of a ConfigMap or a Secret.
const (
	maxObject      = 3 << 19
	maxAnnotations = 256 << 10
	maxData        = 1 << 20
)

// acceptable refuses what no API server would take, before anything of the service is applied.
func (m *manifest) acceptable() error {
	if err := m.complete(); err != nil {
		return err
	}
	annotations := 0
	for key, value := range m.head.Metadata.Annotations {
		annotations += len(key) + len(value)
	}
	switch {
	case len(m.json) > maxObject:
		return m.limit("%s has more than %d KiB, and an object can have no more", &m.head, maxObject>>10)
	case annotations > maxAnnotations:
		return m.limit("the annotations of %s have more than %d KiB, and an object's can have no more", &m.head, maxAnnotations>>10)
	case len(m.json) > maxData && m.data() > maxData:
		return m.limit("the data of %s has more than %d KiB, and a %s can hold no more", &m.head, maxData>>10, m.head.Kind)
	}
	return nil
}

// data is the size of what a ConfigMap or a Secret holds.
func (m *manifest) data() int {
	if m.head.APIVersion != "v1" || m.head.Kind != "ConfigMap" && m.head.Kind != "Secret" {
		return 0
	}
	var held struct {
		Data       map[string]string `json:"data"`
		StringData map[string]string `json:"stringData"`
		BinaryData map[string]string `json:"binaryData"`
	}
	if json.Unmarshal(m.json, &held) != nil {
		return 0 // the API server has its own words for it
	}
	encoded, plain := held.BinaryData, held.Data
	if m.head.Kind == "Secret" {
		encoded, plain = held.Data, held.StringData
	}
	size := 0
	for _, value := range encoded {
		size += base64.StdEncoding.DecodedLen(len(value))
	}
	for _, value := range plain {
		size += len(value)
	}
	return size
}
