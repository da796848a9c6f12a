package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	agentapi "github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/hubsvc/api"
)

// described is the interface's own description, held more strictly than it says: no field may be there that it does not name.
type described struct {
	raw      map[string]any
	compiler *jsonschema.Compiler
}

func describe(t *testing.T, h *hub) *described {
	t.Helper()
	response := h.do(t, http.MethodGet, "/v1/openapi.json", "", "")
	raw, err := jsonschema.UnmarshalJSON(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	d := &described{raw.(map[string]any), jsonschema.NewCompiler()}
	for _, schema := range d.raw["components"].(map[string]any)["schemas"].(map[string]any) {
		if object := schema.(map[string]any); object["properties"] != nil {
			object["additionalProperties"] = false
		}
	}
	if err := d.compiler.AddResource("openapi.json", raw); err != nil {
		t.Fatal(err)
	}
	return d
}

// holds says whether data is as the schema at a JSON pointer says.
func (d *described) holds(t *testing.T, pointer string, data []byte) {
	t.Helper()
	schema, err := d.compiler.Compile("openapi.json#" + pointer)
	if err != nil {
		t.Fatalf("%s: %v", pointer, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v\n%.300s", pointer, err, data)
	}
}

func pointer(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(part))
	}
	return b.String()
}

func TestEveryAnswerIsAsTheDescriptionSays(t *testing.T) {
	h := serve(t, 3, nil)
	h.says("c000", agentapi.Phase_DEGRADED)
	h.view.Note(v1.Event{Cluster: "c000", Service: "web", Reason: "Applied"})
	d := describe(t, h)
	values := strings.NewReplacer("{cluster}", "c000", "{service}", "web")
	names := map[string]string{"clusters": "c000", "services": "web", "sources": "charts", "upgrades": "front", "history": "c1"}
	for _, route := range api.APIRoutes() {
		if route.Stream != "" || route.Open {
			continue
		}
		t.Run(route.Method+" "+route.Path, func(t *testing.T) {
			path := strings.Replace(values.Replace(route.Path), "{name}", names[strings.Split(route.Path, "/")[2]], 1)
			if route.Method == http.MethodPost {
				path = strings.Replace(path, "/history/c1/", "/history/c1c1c1c/", 1)
			}
			response := h.do(t, route.Method, path, "alice", "")
			status := max(route.Status, http.StatusOK)
			if response.StatusCode != status {
				t.Fatalf("%s", response.Status)
			}
			operation := pointer("paths", route.Path, strings.ToLower(route.Method), "responses")
			var body bytes.Buffer
			if _, err := body.ReadFrom(response.Body); err != nil {
				t.Fatal(err)
			}
			if body.Len() > 0 {
				d.holds(t, operation+pointer(strconv.Itoa(status), "content", "application/json", "schema"), body.Bytes())
			}
			refusal := h.do(t, route.Method, path, "wrong", "")
			body.Reset()
			if _, err := body.ReadFrom(refusal.Body); err != nil {
				t.Fatal(err)
			}
			d.holds(t, operation+pointer("default", "content", "application/json", "schema"), body.Bytes())
		})
	}
}

func TestEveryEventIsAsTheDescriptionSays(t *testing.T) {
	h := serve(t, 2, nil)
	d := describe(t, h)
	stream, _ := h.open(t, "", "bob", "another-1")
	h.says("c000", agentapi.Phase_HEALTHY)
	seen := map[v1.ChangeKind]bool{}
	check := func(event v1.StreamEvent) {
		seen[event.Kind] = true
		d.holds(t, pointer("paths", "/v1/stream", "get", "responses", "200", "content", "text/event-stream", "schema", "x-events", string(event.Kind)), event.Data)
	}
	check(stream.next(t))
	h.says("c000", agentapi.Phase_FAILED)
	h.view.Status()
	for !seen[v1.ChangedSummary] { // it comes last
		check(stream.next(t))
	}
	for _, kind := range []v1.ChangeKind{v1.Reset, v1.ChangedDeployments, v1.ChangedClusters, v1.ChangedServices, v1.ChangedSummary} {
		if !seen[kind] {
			t.Errorf("no %s among %v", kind, seen)
		}
	}
}

// The mux answers what no route does by itself: a route that is missing in the description would not be noticed by anybody.
func TestEveryPathThatIsServedIsDescribed(t *testing.T) {
	mux := http.NewServeMux()
	api.New(api.Options{View: serve(t, 1, nil).view}).Routes(mux)
	var d struct {
		Paths map[string]map[string]json.RawMessage
	}
	document, err := openapi.Document("v1", api.APIRoutes())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(document, &d); err != nil {
		t.Fatal(err)
	}
	for _, route := range api.APIRoutes() {
		if d.Paths[route.Path][strings.ToLower(route.Method)] == nil {
			t.Errorf("%s %s is not in the document", route.Method, route.Path)
		}
		request, err := http.NewRequestWithContext(t.Context(), route.Method, strings.NewReplacer("{", "", "}", "").Replace(route.Path), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, pattern := mux.Handler(request); pattern != route.Method+" "+route.Path {
			t.Errorf("%s %s is served by %q", route.Method, route.Path, pattern)
		}
	}
}
