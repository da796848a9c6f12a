package yamlerror_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/internal/yamlerror"
)

type inner struct {
	Path string `json:"path" yaml:"path"`
}

type outer struct {
	Patches []inner        `json:"patches" yaml:"patches"`
	Names   []string       `json:"names" yaml:"names"`
	More    map[string]int `json:"more" yaml:"more"`
	Count   int            `json:"count" yaml:"count"`
	On      bool           `json:"on" yaml:"on"`
}

// goType is the name of a Go type, as libraries put it.
var goType = regexp.MustCompile(`\*?\b[a-z]\w*\.[A-Za-z]\w*\b|\[\][a-z]|map\[|Go (struct|value)`)

func TestWrongYAMLIsToldWithoutGoTypes(t *testing.T) {
	strict := func(text string) error {
		return sigs.UnmarshalStrict([]byte(text), new(outer))
	}
	loose := func(text string) error { return yaml.Unmarshal([]byte(text), new(outer)) }
	fromJSON := func(text string) error { return json.Unmarshal([]byte(text), new(outer)) }
	tests := map[string]struct {
		read       func(string) error
		text, want string
	}{
		"a text for a mapping":      {loose, "patches: [web.yaml]", "yaml: unmarshal errors:\n  line 1: a text \"web.yaml\" stands where a mapping belongs"},
		"a text for a list":         {loose, "names: web", "yaml: unmarshal errors:\n  line 1: a text \"web\" stands where a list belongs"},
		"a list for a mapping":      {loose, "more: [1]", "yaml: unmarshal errors:\n  line 1: a list stands where a mapping belongs"},
		"a text for a number":       {loose, "count: many", "yaml: unmarshal errors:\n  line 1: a text \"many\" stands where a number belongs"},
		"a list for a boolean":      {loose, "on: [1]", "yaml: unmarshal errors:\n  line 1: a list stands where true or false belongs"},
		"a field of JSON":           {fromJSON, `{"names": "web"}`, "names: a text stands where a list belongs"},
		"a whole JSON":              {fromJSON, `[1]`, "a list stands where a mapping belongs"},
		"a field that nobody knows": {strict, "nmaes: [web]", `error unmarshaling JSON: while decoding JSON: json: unknown field "nmaes"`},
		"a field of strict YAML":    {strict, "names: web", "names: a text stands where a list belongs"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.read(tt.text)
			if err == nil {
				t.Fatal("it was read")
			}
			got := yamlerror.Plain(err.Error())
			if got != tt.want {
				t.Errorf("got  %s\nwant %s\nof   %s", got, tt.want, err)
			}
			if found := goType.FindString(got); found != "" && found != "web.yaml" {
				t.Errorf("it names the Go type %q: %s", found, got)
			}
		})
	}
}

func TestTheLineOfAMistakeIsWherePeopleLookForIt(t *testing.T) {
	tests := map[string]struct {
		text, rest string
		line       int
	}{
		"braces that are not closed":    {"a: 1\nb: {x: 1\nc: 2\n", "did not find expected ',' or '}'", 2},
		"brackets that are not closed":  {"a: 1\nb: [1, 2\nc: 3\n", "did not find expected ',' or ']'", 2},
		"a key among the items":         {"a: 1\nb:\n  - 1\n  c: 2\n", "did not find expected '-' indicator", 3},
		"a quote that is not closed":    {"a: 1\nb: \"x\nc: 2\n", "found unexpected end of stream", 2},
		"a tab":                         {"a:\n\tb: 1\n", "found character that cannot start any token", 2},
		"a key that is indented deeper": {"a: 1\nb: 2\n c: 3\n", "mapping values are not allowed in this context", 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			line, rest := yamlerror.Line(yaml.Unmarshal([]byte(tt.text), new(yaml.Node)).Error())
			if line != tt.line || rest != tt.rest {
				t.Errorf("line %d: %s", line, rest)
			}
		})
	}
}
