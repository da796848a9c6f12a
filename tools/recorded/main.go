// Program recorded is a terraform provider that knows the schemas of another one from a file, and makes nothing.
//
// Terraform checks modules against it as against the real one: unknown and missing arguments, types, blocks, deprecated
// arguments. A plan leaves unknown what the real provider computes; an apply makes values up. The program is called as the
// provider is, terraform-provider-NAME, and reads NAME.json from the folder that RECORDED_SCHEMAS names:
//
//	{"provider": BLOCK, "resources": {TYPE: BLOCK}, "data": {TYPE: BLOCK}}
//	BLOCK: {"attributes": {NAME: "TYPE FLAG..."}, "values": {NAME: JSON},
//	        "blocks": {NAME: {"nesting": "list", "min": 1, "max": 1, ...BLOCK}}}
//
// A TYPE is written as in terraform: string, list(string), list(object({data=string})). Flags are required, optional,
// computed, sensitive and deprecated. Values are what is made up for computed attributes, where it matters.
//
// Whether they are the provider's own is told where that can be had, in a folder that requires it and nothing else:
//
//	terraform init && terraform providers schema -json | terraform-provider-recorded compare aws.json
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func main() {
	if asked, err := comparing(os.Args); asked {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(os.Args[0]), "terraform-provider-"), "_")
	s, err := load(filepath.Join(os.Getenv("RECORDED_SCHEMAS"), name+".json"))
	if err == nil {
		err = tf6server.Serve("registry.terraform.io/hashicorp/"+name, func() tfprotov6.ProviderServer { return &server{schemas: s} })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// schemas are those of one provider.
type schemas struct {
	Provider  block            `json:"provider"`
	Resources map[string]block `json:"resources"`
	Data      map[string]block `json:"data"`
}

// block is one as it is recorded.
type block struct {
	Nesting    string                     `json:"nesting"`
	Min        int64                      `json:"min"`
	Max        int64                      `json:"max"`
	Attributes map[string]string          `json:"attributes"`
	Blocks     map[string]block           `json:"blocks"`
	Values     map[string]json.RawMessage `json:"values"`
}

func load(file string) (*schemas, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &schemas{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, all := range []map[string]block{s.Resources, s.Data, {"provider": s.Provider}} {
		for name, b := range all {
			if _, err := b.schema(); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, name, err)
			}
		}
	}
	return s, nil
}

// schema is the block as terraform asks for it.
func (b block) schema() (*tfprotov6.SchemaBlock, error) {
	out := &tfprotov6.SchemaBlock{}
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		a, err := attribute(name, b.Attributes[name])
		if err != nil {
			return nil, err
		}
		out.Attributes = append(out.Attributes, a)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Blocks)) {
		inner := b.Blocks[name]
		nested := &tfprotov6.SchemaNestedBlock{TypeName: name, MinItems: inner.Min, MaxItems: inner.Max}
		switch inner.Nesting {
		case "list":
			nested.Nesting = tfprotov6.SchemaNestedBlockNestingModeList
		case "set":
			nested.Nesting = tfprotov6.SchemaNestedBlockNestingModeSet
		case "single":
			nested.Nesting = tfprotov6.SchemaNestedBlockNestingModeSingle
		default:
			return nil, fmt.Errorf("block %s: nesting %q is none of list, set, single", name, inner.Nesting)
		}
		var err error
		if nested.Block, err = inner.schema(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.BlockTypes = append(out.BlockTypes, nested)
	}
	return out, nil
}

func attribute(name, text string) (*tfprotov6.SchemaAttribute, error) {
	a := &tfprotov6.SchemaAttribute{Name: name}
	words := strings.Fields(text)
	if len(words) < 2 {
		return nil, fmt.Errorf("attribute %s: %q is not a type with flags", name, text)
	}
	var rest string
	var err error
	if a.Type, rest, err = parse(words[0]); err != nil || rest != "" {
		return nil, fmt.Errorf("attribute %s: type %q: %v", name, words[0], err)
	}
	for _, flag := range words[1:] {
		switch flag {
		case "required":
			a.Required = true
		case "optional":
			a.Optional = true
		case "computed":
			a.Computed = true
		case "sensitive":
			a.Sensitive = true
		case "deprecated":
			a.Deprecated = true
		default:
			return nil, fmt.Errorf("attribute %s: flag %q", name, flag)
		}
	}
	return a, nil
}

// parse reads a type from the beginning of a text without spaces.
func parse(text string) (t tftypes.Type, rest string, err error) {
	for name, t := range map[string]tftypes.Type{"string": tftypes.String, "number": tftypes.Number, "bool": tftypes.Bool} {
		if after, ok := strings.CutPrefix(text, name); ok {
			return t, after, nil
		}
	}
	if after, ok := strings.CutPrefix(text, "object({"); ok {
		fields := map[string]tftypes.Type{}
		for !strings.HasPrefix(after, "})") {
			name, value, ok := strings.Cut(after, "=")
			if !ok {
				return nil, "", errors.New("an object ends without })")
			}
			if fields[name], after, err = parse(value); err != nil {
				return nil, "", err
			}
			after = strings.TrimPrefix(after, ",")
		}
		return tftypes.Object{AttributeTypes: fields}, after[2:], nil
	}
	kind, inner, ok := strings.Cut(text, "(")
	if !ok {
		return nil, "", fmt.Errorf("%q is no type", text)
	}
	element, rest, err := parse(inner)
	if err != nil {
		return nil, "", err
	}
	if rest, ok = strings.CutPrefix(rest, ")"); !ok {
		return nil, "", fmt.Errorf("%q has no )", text)
	}
	switch kind {
	case "list":
		return tftypes.List{ElementType: element}, rest, nil
	case "set":
		return tftypes.Set{ElementType: element}, rest, nil
	case "map":
		return tftypes.Map{ElementType: element}, rest, nil
	}
	return nil, "", fmt.Errorf("%q is no type", kind)
}

// maker gives the value of a computed attribute, of which an example may be recorded.
type maker func(name string, t tftypes.Type, recorded json.RawMessage) (tftypes.Value, error)

// fill gives each computed attribute that has no value what made says.
func (b block) fill(value tftypes.Value, made maker) (tftypes.Value, error) {
	if value.IsNull() || !value.IsKnown() {
		return value, nil
	}
	fields := map[string]tftypes.Value{}
	if err := value.As(&fields); err != nil {
		return value, err
	}
	for name, text := range b.Attributes {
		a, err := attribute(name, text)
		if err != nil {
			return value, err
		}
		if a.Computed && (fields[name].IsNull() || !fields[name].IsKnown()) {
			if fields[name], err = made(name, a.Type, b.Values[name]); err != nil {
				return value, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for name, inner := range b.Blocks {
		var err error
		if fields[name], err = inner.fillAll(fields[name], made); err != nil {
			return value, fmt.Errorf("%s: %w", name, err)
		}
	}
	return tftypes.NewValue(value.Type(), fields), nil
}

// fillAll is fill for a nested block, of which there may be several.
func (b block) fillAll(value tftypes.Value, made maker) (tftypes.Value, error) {
	if b.Nesting == "single" || value.IsNull() || !value.IsKnown() {
		return b.fill(value, made)
	}
	var items []tftypes.Value
	if err := value.As(&items); err != nil {
		return value, err
	}
	for i := range items {
		var err error
		if items[i], err = b.fill(items[i], made); err != nil {
			return value, err
		}
	}
	return tftypes.NewValue(value.Type(), items), nil
}

// unknown is what a plan has for what is computed.
func unknown(_ string, t tftypes.Type, _ json.RawMessage) (tftypes.Value, error) {
	return tftypes.NewValue(t, tftypes.UnknownValue), nil
}

// example is what an apply, and a data source, make up.
func example(name string, t tftypes.Type, recorded json.RawMessage) (tftypes.Value, error) {
	if recorded != nil {
		return tftypes.ValueFromJSON(recorded, t) //nolint:staticcheck // the only reader of JSON that there is
	}
	one := func(element tftypes.Type) ([]tftypes.Value, error) {
		value, err := example(name, element, nil)
		return []tftypes.Value{value}, err
	}
	switch kind := t.(type) {
	case tftypes.List:
		items, err := one(kind.ElementType)
		return tftypes.NewValue(t, items), err
	case tftypes.Set:
		items, err := one(kind.ElementType)
		return tftypes.NewValue(t, items), err
	case tftypes.Map:
		return tftypes.NewValue(t, map[string]tftypes.Value{}), nil
	case tftypes.Object:
		fields := map[string]tftypes.Value{}
		for field, inner := range kind.AttributeTypes {
			value, err := example(field, inner, nil)
			if err != nil {
				return value, err
			}
			fields[field] = value
		}
		return tftypes.NewValue(t, fields), nil
	}
	switch {
	case t.Is(tftypes.String):
		return tftypes.NewValue(t, "recorded-"+name), nil
	case t.Is(tftypes.Number):
		return tftypes.NewValue(t, big.NewFloat(1)), nil
	case t.Is(tftypes.Bool):
		return tftypes.NewValue(t, true), nil
	}
	return tftypes.Value{}, fmt.Errorf("nothing is made up for a %s", t)
}
