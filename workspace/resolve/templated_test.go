package resolve

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"

	"github.com/pluralsh/plural/workspace/fleet"
)

// fill writes text wherever a value can hold one.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		item := reflect.New(v.Type().Elem()).Elem()
		if item.Kind() == reflect.Interface {
			item.Set(reflect.ValueOf([]any{text, map[string]any{"k": text}}))
		} else {
			fill(item, text)
		}
		v.SetMapIndex(reflect.ValueOf("k"), item)
	}
}

// texts calls each with every text of a tree.
func texts(tree any, path []string, each func(path []string, text string)) {
	below := func(key string) []string { return append(path[:len(path):len(path)], key) }
	switch v := tree.(type) {
	case string:
		each(path, v)
	case []any:
		for i := range v {
			texts(v[i], below(strconv.Itoa(i)), each)
		}
	case map[string]any:
		for key := range v {
			texts(v[key], below(key), each)
		}
	}
}

func TestTheFormatSaysWhichTextsAreTemplates(t *testing.T) {
	const written, filled = "{{ .cluster.name }}", "eu-1"
	var all fleet.Test
	fill(reflect.ValueOf(&all).Elem(), written)
	s := &fleet.Service{Metadata: fleet.Metadata{Name: "s"}, Spec: fleet.ServiceSpec{
		Tests: []fleet.Test{{Name: written, HTTP: all.HTTP}, {Job: all.Job}, {CEL: all.CEL}, {Helm: all.Helm}},
		Helm:  &fleet.Helm{}, Parameters: map[string]string{"k": written},
	}}
	fill(reflect.ValueOf(&s.Spec.Helm.Values).Elem(), written)
	d := Deployment{Renderer: rendererHelm}
	cluster := &fleet.Cluster{Metadata: fleet.Metadata{Name: filled}}
	if p := New().addParameters(&d, s, cluster); p != nil {
		t.Fatal(p)
	}
	text, err := json.Marshal(map[string]any{
		"tests": d.Tests, "parameters": d.Parameters, "helm": map[string]any{"values": json.RawMessage(d.Helm.ValuesJSON)},
	})
	var tree any
	if err != nil || json.Unmarshal(text, &tree) != nil {
		t.Fatal(err)
	}
	n := 0
	texts(tree, nil, func(path []string, got string) {
		if n++; got == "" {
			return
		}
		if got != filled && got != written {
			t.Errorf("%v is %q", path, got)
		}
		if is := got == filled; is != fleet.Templated(path...) {
			t.Errorf("%v: template %v, and the format says %v", path, is, fleet.Templated(path...))
		}
	})
	if n < 20 {
		t.Errorf("%d texts", n)
	}
}
