package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// printedByPlugin is the renderer of a child that reads what a plugin printed, and printedFile the one file it is given.
const (
	printedByPlugin = "plugin output"
	printedFile     = "output"
)

// resourceList is what a KRM function prints.
type resourceList struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
	Results    []functionResult  `json:"results"`
}

// functionResult is a KRM function's word about its input.
type functionResult struct {
	Message  string `json:"message"`
	Severity string `json:"severity"`
	Field    struct {
		Path string `json:"path"`
	} `json:"field"`
	File struct {
		Path string `json:"path"`
	} `json:"file"`
}

// renderPrinted reads the items of the ResourceList that a plugin printed.
func renderPrinted(j *job) ([]manifest, error) {
	j.traits.Capabilities = true
	docs, err := decode(printedFile, j.tree.files[printedFile], j.limits, nil)
	if err != nil {
		return nil, ofPrint(err)
	}
	if len(docs) != 1 {
		return nil, notList("%d documents", len(docs))
	}
	var list resourceList
	if err := json.Unmarshal(docs[0].json, &list); err != nil {
		return nil, notList("what does not decode: %v", err)
	}
	if list.Kind != "ResourceList" || !strings.HasPrefix(list.APIVersion, "config.kubernetes.io/") {
		return nil, notList("apiVersion %q, kind %q", list.APIVersion, list.Kind)
	}
	if err := j.heed(list.Results); err != nil {
		return nil, err
	}
	return printedItems(list.Items)
}

func notList(format string, args ...any) *Error {
	e := place{}.invalid("the plugin prints "+format, args...)
	e.Fix = "print one ResourceList of config.kubernetes.io/v1"
	return e
}

// ofPrint says that the lines are of the print, which is no file of anybody's.
func ofPrint(err error) error {
	var flawed *Error
	if !errors.As(err, &flawed) {
		return err
	}
	if flawed.Line > 0 {
		flawed.Message = fmt.Sprintf("line %d of what the plugin prints: %s", flawed.Line, flawed.Message)
	} else {
		flawed.Message = "what the plugin prints " + flawed.Message
	}
	flawed.File, flawed.Line = "", 0
	return flawed
}

// heed fails on the first error among the results, and passes on the warnings.
func (j *job) heed(results []functionResult) error {
	for _, r := range results {
		said := r.Message
		if r.Field.Path != "" {
			said = r.Field.Path + ": " + said
		}
		switch strings.ToLower(r.Severity) {
		case "info":
		case "warning":
			j.warn("%s", strings.TrimPrefix(place{file: r.file()}.String()+": "+said, ": "))
		default: // the specification's default is error
			return place{file: r.file()}.invalid("%s", said)
		}
	}
	return nil
}

// file is the result's file if it can be one of the input.
func (r *functionResult) file() string {
	if r.File.Path == "." || !fs.ValidPath(r.File.Path) {
		return ""
	}
	return r.File.Path
}

func printedItems(items []json.RawMessage) ([]manifest, error) {
	var all []manifest
	for i, item := range items {
		text, origin, err := unannotated(item)
		if err != nil {
			return nil, place{}.invalid("item %d of what the plugin prints: %v", i+1, err)
		}
		found, err := manifests(decoded{place{file: origin}, text})
		var flawed *Error
		if errors.As(err, &flawed) {
			flawed.Message = fmt.Sprintf("item %d of what the plugin prints: %s", i+1, flawed.Message)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// The annotations by which KRM functions and whoever runs them tell each other which file an item is from. They are not the
// object's.
const (
	pathAnnotation    = "config.kubernetes.io/path"
	indexAnnotation   = "config.kubernetes.io/index"
	internalPrefix    = "internal.config.kubernetes.io/"
	internalPathWords = internalPrefix + "path"
)

// unannotated takes those annotations off an item, and returns the file that they name, if it can be one of the input.
func unannotated(item json.RawMessage) (text json.RawMessage, file string, err error) {
	if !bytes.Contains(item, []byte("config.kubernetes.io/")) {
		return item, "", nil
	}
	decoder := json.NewDecoder(bytes.NewReader(item))
	decoder.UseNumber() // numbers leave as they came
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, "", err
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range []string{pathAnnotation, internalPathWords} {
		if name, ok := annotations[key].(string); ok && name != "." && fs.ValidPath(name) {
			file = name
		}
	}
	for key := range annotations {
		if key == pathAnnotation || key == indexAnnotation || strings.HasPrefix(key, internalPrefix) {
			delete(annotations, key)
		}
	}
	if annotations != nil && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	text, err = json.Marshal(object)
	return text, file, err
}
