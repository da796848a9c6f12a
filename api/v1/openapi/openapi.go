// Package openapi owns the description of an HTTP API as an OpenAPI 3.1 document.
//
// It refuses to know which routes there are: each room lists its own as [Route] values, whose Go types become schemas by
// reflection. [Document] puts the lists together; what it gives depends on nothing else, so two documents of one list are
// equal byte for byte.
package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Route is one method of one path.
type Route struct {
	// Method is in capitals; Path has its variables in braces, as net/http writes them.
	Method, Path string
	// Summary is one sentence without a full stop.
	Summary string
	Query   []Param
	// Body and Response are values of the types that are sent, such as v1.Status{}; nil: nothing is.
	Body, Response any
	// Form says that the body is sent as a form (application/x-www-form-urlencoded) and not as JSON.
	Form bool
	// Status is that of success; zero means 200.
	Status int
	// Stream is the media type of an answer without an end, such as text/event-stream; Response is then what the data of one of
	// its events holds, if it is JSON. Where that depends on the event's name, Events has them by name instead.
	Stream string
	Events map[string]any
	// Open says that no credential is asked for.
	Open bool
}

// Param is one parameter of a query.
type Param struct {
	Name, Description string
	// Example stands for its type: an int, a bool, a string or nothing, which is a string.
	Example any
	// Repeated may be given several times.
	Repeated bool
	Required bool
}

// Document describes the routes of all lists, as JSON. Two routes of one method and path, and two types of one name, are
// errors.
func Document(version string, routes ...[]Route) ([]byte, error) {
	d := draft{
		schemas: schemas{defined: map[string]any{}, types: map[string]reflect.Type{}}, paths: map[string]map[string]any{},
	}
	for _, r := range slices.Concat(routes...) {
		if err := d.add(&r); err != nil {
			return nil, fmt.Errorf("describe %s %s: %w", r.Method, r.Path, err)
		}
	}
	if err := d.schemas.err; err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Plural hub", "version": version, "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "What tools read of a fleet, and ask of it. Fields and paths are only added.",
		},
		"security": []any{map[string]any{"token": []any{}}},
		"paths":    d.paths,
		"components": map[string]any{
			"schemas":         d.schemas.defined,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
		},
	}, "", "  ")
}

// draft is a document in the making.
type draft struct {
	schemas schemas
	paths   map[string]map[string]any
}

var variable = regexp.MustCompile(`\{([a-zA-Z]+)(?:\.\.\.)?\}`)

func (d *draft) add(r *Route) error {
	path := variable.ReplaceAllString(r.Path, "{$1}")
	methods := d.paths[path]
	if methods == nil {
		methods = map[string]any{}
		d.paths[path] = methods
	}
	method := strings.ToLower(r.Method)
	if _, twice := methods[method]; twice {
		return errors.New("there are two of them")
	}
	operation := map[string]any{
		"operationId": operationID(r.Method, path), "summary": r.Summary,
		"parameters": d.parameters(r), "responses": d.responses(r),
	}
	if r.Body != nil {
		kind := "application/json"
		if r.Form {
			kind = "application/x-www-form-urlencoded"
		}
		operation["requestBody"] = map[string]any{"required": true, "content": media(kind, d.schemas.of(typeOf(r.Body)))}
	}
	if r.Open {
		operation["security"] = []any{map[string]any{}}
	}
	methods[method] = operation
	return nil
}

func (d *draft) parameters(r *Route) []any {
	list := []any{}
	for _, found := range variable.FindAllStringSubmatch(r.Path, -1) {
		list = append(list, map[string]any{"name": found[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, p := range r.Query {
		one := map[string]any{"name": p.Name, "in": "query", "description": p.Description, "schema": d.parameter(p)}
		if p.Required {
			one["required"] = true
		}
		list = append(list, one)
	}
	return list
}

func (d *draft) parameter(p Param) any {
	var schema any = map[string]any{"type": "string"}
	if p.Example != nil {
		schema = d.schemas.of(typeOf(p.Example))
	}
	if p.Repeated {
		return map[string]any{"type": "array", "items": schema}
	}
	return schema
}

func (d *draft) responses(r *Route) map[string]any {
	success := map[string]any{"description": "Done."}
	switch {
	case r.Stream != "":
		success["content"] = media(r.Stream, d.stream(r))
	case r.Response != nil:
		success["content"] = media("application/json", d.schemas.of(typeOf(r.Response)))
	}
	return map[string]any{
		strconv.Itoa(statusOf(r)): success,
		"default":                 map[string]any{"description": "Why not.", "content": media("application/json", d.schemas.of(reflect.TypeFor[v1.Error]()))},
	}
}

// stream is text to OpenAPI, which has no words for what it holds.
func (d *draft) stream(r *Route) any {
	schema := map[string]any{"type": "string"}
	if r.Response != nil {
		schema["x-data"] = d.schemas.of(typeOf(r.Response))
	}
	if r.Events != nil {
		events := map[string]any{}
		for name, value := range r.Events {
			events[name] = d.schemas.of(typeOf(value))
		}
		schema["x-events"] = events
	}
	return schema
}

func media(kind string, schema any) map[string]any {
	return map[string]any{kind: map[string]any{"schema": schema}}
}

func reference(name string) map[string]any {
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// operationID is made of the path's words: getClustersName for GET /v1/clusters/{name}.
func operationID(method, path string) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(method))
	for _, word := range strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune("/{}.-", c) }) {
		if word != "v1" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// Paths lists "METHOD PATH" of all routes, sorted.
func Paths(routes ...[]Route) []string {
	seen := map[string]bool{}
	for _, r := range slices.Concat(routes...) {
		seen[r.Method+" "+r.Path] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func statusOf(r *Route) int {
	if r.Status == 0 {
		return http.StatusOK
	}
	return r.Status
}
