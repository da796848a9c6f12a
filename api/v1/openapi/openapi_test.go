package openapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
)

type (
	colour string
	inner  struct {
		Shade  colour  `json:"shade"`
		Nested *nested `json:"nested,omitempty"`
	}
	nested struct {
		inner             // promoted
		When   *time.Time `json:"when"`
		Self   []nested   `json:"self,omitempty"`
		Raw    []byte
		Any    any            `json:"any"`
		Counts map[string]int `json:"counts"`
		Share  float64        `json:"share,omitzero"`
		Hidden string         `json:"-"`
	}
)

func (colour) Words() []string { return []string{"red", "blue"} }

// schemas are those of a document with one route.
func schemas(t *testing.T, response any) map[string]any {
	t.Helper()
	raw, err := openapi.Document("v1", []openapi.Route{{Method: http.MethodGet, Path: "/v1/x", Response: response}})
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d.Components.Schemas
}

func TestTypesAreDescribedAsTheyAreEncoded(t *testing.T) {
	text, ref := map[string]any{"type": "string"}, func(name string) any { return map[string]any{"$ref": "#/components/schemas/" + name} }
	got := schemas(t, &nested{})
	want := map[string]any{
		"type": "object",
		"properties": map[string]any{
			"shade": ref("colour"), "nested": ref("nested"), "when": map[string]any{"type": "string", "format": "date-time"},
			"self": map[string]any{"type": "array", "items": ref("nested")}, "any": map[string]any{},
			"Raw":    map[string]any{"type": "string", "contentEncoding": "base64"},
			"counts": map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "integer"}},
			"share":  map[string]any{"type": "number"},
		},
		"required": []any{"shade", "when", "Raw", "any", "counts"},
	}
	if diff := cmp.Diff(want, got["nested"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"type": "string", "enum": []any{"red", "blue"}}, got["colour"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(text, got["Error"].(map[string]any)["properties"].(map[string]any)["message"]); diff != "" {
		t.Errorf("every document has the schema of errors: %s", diff)
	}
}

func TestListsAreNamedForWhatTheyHold(t *testing.T) {
	got := schemas(t, v1.List[v1.Deployment]{})
	if got["DeploymentList"] == nil || got["Deployment"] == nil || got["Phase"] == nil {
		t.Errorf("%v", got)
	}
}

func TestRoutesBecomeOperations(t *testing.T) {
	raw, err := openapi.Document("v1.2.3", []openapi.Route{
		{
			Method: http.MethodPost, Path: "/v1/a/{name}/b/{rest...}", Summary: "Do it", Status: http.StatusAccepted, Body: v1.EditRequest{},
			Query: []openapi.Param{{Name: "kind", Description: "k", Repeated: true, Example: colour("")}, {Name: "n", Example: 1, Required: true}},
		},
		{Method: http.MethodGet, Path: "/v1/a/{name}/b/{rest}", Open: true, Stream: "text/event-stream", Events: map[string]any{"x": v1.Error{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		OpenAPI string `json:"openapi"`
		Info    struct{ Version string }
		Paths   map[string]map[string]struct {
			OperationID string
			Parameters  []struct {
				Name, In string
				Required bool
				Schema   map[string]any
			}
			RequestBody map[string]any
			Responses   map[string]any
			Security    *[]any
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	methods := d.Paths["/v1/a/{name}/b/{rest}"]
	post, get := methods["post"], methods["get"]
	if d.OpenAPI != "3.1.0" || d.Info.Version != "v1.2.3" || post.OperationID != "postANameBRest" || len(post.Parameters) != 4 ||
		post.RequestBody == nil || post.Responses["202"] == nil || post.Responses["default"] == nil || post.Security != nil {
		t.Errorf("%+v", d)
	}
	if p := post.Parameters[2]; p.In != "query" || p.Schema["type"] != "array" || p.Required {
		t.Errorf("%+v", p)
	}
	if get.Security == nil || !strings.Contains(string(raw), `"x-events"`) {
		t.Errorf("%+v", get)
	}
}

func TestWhatCannotBeDescribedIsAnError(t *testing.T) {
	twice := openapi.Route{Method: http.MethodGet, Path: "/v1/x"}
	type Error struct{ Other int }
	for name, routes := range map[string][]openapi.Route{
		"the same route twice":    {twice, twice},
		"a type that has no JSON": {{Method: http.MethodGet, Path: "/v1/x", Response: struct{ C chan int }{}}},
		"two types of one name":   {{Method: http.MethodGet, Path: "/v1/x", Response: Error{}}},
	} {
		if _, err := openapi.Document("v1", routes); err == nil {
			t.Error(name)
		}
	}
}
