// Command kubeschemas writes what versions of Kubernetes define into the file that internal/kubeschema reads.
//
//	kubeschemas FILE
//
// It reads api/openapi-spec/swagger.json of k8s.io/kubernetes, as the Go module proxy has it, and turns its definitions into JSON
// Schema: descriptions go, an object takes no fields but its own, and equal definitions of several versions are written once. What
// values a field may have is in none of the module's documents, but in the generated code that makes them.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// releases are one of each minor version that is built in, oldest first.
func releases() []string {
	return []string{"v1.29.6", "v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2"}
}

const first = 29 // the minor version of the first

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kubeschemas FILE")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// document is what is written. A run is a definition since a minor version, from which on it is the schema, or gone.
type document struct {
	First       int              `json:"first"`
	Last        int              `json:"last"`
	Definitions map[string][]run `json:"definitions"`
	// Kinds are the definitions of objects by "group/version/kind"; the core group is empty.
	Kinds map[string]string `json:"kinds"`
}

type run struct {
	Since  int            `json:"since"`
	Schema map[string]any `json:"schema"`
}

func generate(file string) error {
	out := document{First: first, Last: first + len(releases()) - 1, Definitions: map[string][]run{}, Kinds: map[string]string{}}
	for i, release := range releases() {
		if err := out.add(first+i, release); err != nil {
			return fmt.Errorf("read Kubernetes %s: %w", release, err)
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return cmp.Or(w.Close(), os.WriteFile(file, packed.Bytes(), 0o644))
}

// add takes in one minor version, which is newer than those before it.
func (d *document) add(minor int, release string) error {
	definitions, values, err := published(release)
	if err != nil {
		return err
	}
	for name, written := range definitions {
		if kind := kindOf(written); kind != "" {
			d.Kinds[kind] = name
		}
		schema := converted(name, written)
		enumerate(schema, values[name])
		runs := d.Definitions[name]
		if len(runs) == 0 || !reflect.DeepEqual(runs[len(runs)-1].Schema, schema) {
			d.Definitions[name] = append(runs, run{minor, schema})
		}
	}
	for name, runs := range d.Definitions {
		if _, there := definitions[name]; !there && runs[len(runs)-1].Schema != nil {
			d.Definitions[name] = append(runs, run{Since: minor})
		}
	}
	return nil
}

// published are the definitions of a release, and the values that fields of them may have, by definition and field.
func published(release string) (map[string]map[string]any, map[string]map[string][]any, error) {
	cmd := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", "k8s.io/kubernetes@"+release)
	cmd.Stderr = os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return nil, nil, err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(answer, &module); err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		return nil, nil, err
	}
	var swagger struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(text, &swagger); err != nil {
		return nil, nil, err
	}
	if len(swagger.Definitions) == 0 {
		return nil, nil, errors.New("it defines nothing")
	}
	code, err := os.ReadFile(filepath.Join(module.Dir, "pkg", "generated", "openapi", "zz_generated.openapi.go"))
	if err != nil {
		return nil, nil, err
	}
	values, err := enumerations(string(code))
	return swagger.Definitions, values, err
}

// In generated code, a function makes a definition, in which a field is a key of a map, with its values or those of its items.
var (
	generatedType   = regexp.MustCompile(`^func schema_k8sio_api_(\w+)\(ref`)
	generatedOther  = regexp.MustCompile(`^func `)
	generatedField  = regexp.MustCompile(`^\t{5}"([^"]+)": \{$`)
	generatedValues = regexp.MustCompile(`^\t+Enum: +\[\]interface\{\}(\{.*\}),$`)
)

// enumerations reads generated code line by line.
func enumerations(code string) (map[string]map[string][]any, error) {
	all := map[string]map[string][]any{}
	definition, field := "", ""
	for line := range strings.Lines(code) {
		line = strings.TrimRight(line, "\n")
		if found := generatedType.FindStringSubmatch(line); found != nil {
			definition = "io.k8s.api." + strings.ReplaceAll(found[1], "_", ".")
		} else if generatedOther.MatchString(line) {
			definition = ""
		} else if found := generatedField.FindStringSubmatch(line); found != nil {
			field = found[1]
		} else if found := generatedValues.FindStringSubmatch(line); found != nil && definition != "" {
			var values []any
			if err := json.Unmarshal([]byte("["+strings.Trim(found[1], "{}")+"]"), &values); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", field, definition, err)
			}
			if all[definition] == nil {
				all[definition] = map[string][]any{}
			}
			all[definition][field] = values
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it enumerates nothing")
	}
	return all, nil
}

// enumerate writes values into the fields of a definition, or into their items. To the API server, an empty text is none.
func enumerate(schema map[string]any, values map[string][]any) {
	properties, _ := schema["properties"].(map[string]any)
	for name, list := range values {
		property, _ := properties[name].(map[string]any)
		if items, of := property["items"].(map[string]any); of {
			property = items
		}
		if property["type"] != "string" {
			continue
		}
		if !slices.Contains(list, any("")) {
			list = append(list, "")
		}
		property["enum"] = list
	}
}

const prefix = "#/definitions/"

// kindOf is the group, version and kind of a definition whose objects lie in a cluster.
func kindOf(definition map[string]any) string {
	kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
	properties, _ := definition["properties"].(map[string]any)
	metadata, _ := properties["metadata"].(map[string]any)
	if len(kinds) != 1 || metadata["$ref"] != prefix+"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" {
		return ""
	}
	kind, _ := kinds[0].(map[string]any)
	return fmt.Sprintf("%s/%s/%s", kind["group"], kind["version"], kind["kind"])
}

// converted is a definition as JSON Schema.
func converted(name string, definition map[string]any) map[string]any {
	switch name[strings.LastIndex(name, ".")+1:] {
	case "IntOrString":
		return map[string]any{"type": []any{"integer", "string"}}
	case "Quantity":
		return map[string]any{"type": []any{"number", "string"}}
	}
	schema, _ := plain(definition).(map[string]any)
	if properties, ok := schema["properties"].(map[string]any); ok {
		schema["additionalProperties"] = false
		schema["required"] = demanded(name, definition, properties)
	}
	if schema["required"] == nil {
		delete(schema, "required")
	}
	return schema
}

// plain leaves out what is no part of JSON Schema, or says nothing of a value's form. Names of properties stay, whatever they are.
func plain(value any) any {
	node, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for key, inner := range node {
		switch key {
		case "type":
			out[key] = inner
		case "$ref": // each definition is a document of its own, beside the others
			out[key] = strings.TrimPrefix(inner.(string), prefix)
		case "items", "additionalProperties":
			out[key] = plain(inner)
		case "format":
			if inner == "byte" {
				out[key] = inner
			}
		case "properties":
			properties := map[string]any{}
			for name, property := range inner.(map[string]any) {
				properties[name] = plain(property)
			}
			out[key] = properties
		}
	}
	return out
}

// lenient are fields that the description calls required, and the API server does not ask for.
func lenient() []string {
	return []string{
		"rbac.v1.RoleRef.apiGroup", "apps.v1.StatefulSetSpec.serviceName", "networking.v1.NetworkPolicySpec.podSelector",
		"core.v1.HTTPHeader.value", "core.v1.Sysctl.value", "discovery.v1.EndpointSlice.endpoints", "storage.v1.TokenRequest.audience",
		"core.v1.Event.involvedObject", "core.v1.Event.metadata", "storage.v1.CSIDriver.spec", "core.v1.ProjectedVolumeSource.sources",
	}
}

// asked are the numbers whose zero the API server refuses.
func asked() []string {
	return []string{"core.v1.ServicePort.port", "core.v1.ContainerPort.containerPort", "HorizontalPodAutoscalerSpec.maxReplicas"}
}

// demanded are the fields without which the API server takes no object. To it a number or a boolean that is left out is a zero,
// which it mostly takes, whatever the description says.
func demanded(name string, definition, properties map[string]any) any {
	if strings.HasSuffix(name, "Status") {
		return nil
	}
	required, _ := definition["required"].([]any)
	var names []any
	for _, field := range required {
		property, _ := properties[field.(string)].(map[string]any)
		full := name + "." + field.(string)
		suffixed := func(suffix string) bool { return strings.HasSuffix(full, "."+suffix) }
		number := property["type"] == "integer" || property["type"] == "boolean" || property["type"] == "number"
		if !slices.ContainsFunc(lenient(), suffixed) && (!number || slices.ContainsFunc(asked(), suffixed)) {
			names = append(names, field)
		}
	}
	if names == nil {
		return nil
	}
	return names
}
