package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// real is what `terraform providers schema -json` says of the provider itself.
type real struct {
	Providers map[string]struct {
		Provider  realSchema            `json:"provider"`
		Resources map[string]realSchema `json:"resource_schemas"`
		Data      map[string]realSchema `json:"data_source_schemas"`
	} `json:"provider_schemas"`
}

type realSchema struct {
	Block realBlock `json:"block"`
}

type realBlock struct {
	Attributes map[string]struct {
		Type       json.RawMessage `json:"type"`
		Required   bool            `json:"required"`
		Optional   bool            `json:"optional"`
		Computed   bool            `json:"computed"`
		Sensitive  bool            `json:"sensitive"`
		Deprecated bool            `json:"deprecated"`
	} `json:"attributes"`
	Blocks map[string]struct {
		Nesting string    `json:"nesting_mode"`
		Block   realBlock `json:"block"`
		Min     int64     `json:"min_items"`
		Max     int64     `json:"max_items"`
	} `json:"block_types"`
}

// compare says where the schemas in a file differ from the provider's own. What is not recorded is no difference, unless
// the provider requires it.
func compare(file string, in io.Reader, out io.Writer) error {
	recorded, err := load(file)
	if err != nil {
		return err
	}
	var r real
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read schemas of the provider: %w", err)
	}
	if len(r.Providers) != 1 {
		return fmt.Errorf("read schemas of the provider: there are %d: run it in a folder that requires one", len(r.Providers))
	}
	c := &comparison{out: out}
	for _, p := range r.Providers {
		c.block("provider", recorded.Provider, p.Provider.Block)
		c.blocks("resource ", recorded.Resources, p.Resources)
		c.blocks("data ", recorded.Data, p.Data)
	}
	if c.found > 0 {
		return fmt.Errorf("%s: %d differences", file, c.found)
	}
	return nil
}

type comparison struct {
	out   io.Writer
	found int
}

func (c *comparison) say(format string, args ...any) {
	c.found++
	fmt.Fprintf(c.out, format+"\n", args...)
}

func (c *comparison) blocks(kind string, recorded map[string]block, there map[string]realSchema) {
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		if schema, ok := there[name]; ok {
			c.block(kind+name, recorded[name], schema.Block)
		} else {
			c.say("%s%s: the provider has none", kind, name)
		}
	}
}

func (c *comparison) block(place string, recorded block, there realBlock) {
	for _, name := range slices.Sorted(maps.Keys(recorded.Attributes)) {
		mine, err := attribute(name, recorded.Attributes[name])
		if err != nil {
			c.say("%s: %v", place, err)
			continue
		}
		theirs, ok := there.Attributes[name]
		if !ok {
			c.say("%s.%s: the provider has no such attribute", place, name)
			continue
		}
		t, err := tftypes.ParseJSONType(theirs.Type) //nolint:staticcheck // the only reader of JSON that there is
		if err != nil || !mine.Type.Equal(t) {
			c.say("%s.%s: recorded as %s, and the provider has %s", place, name, mine.Type, theirs.Type)
		}
		if mine.Required != theirs.Required || mine.Optional != theirs.Optional || mine.Computed != theirs.Computed ||
			mine.Sensitive != theirs.Sensitive || mine.Deprecated != theirs.Deprecated {
			c.say("%s.%s: recorded as %q, and the provider has required %t, optional %t, computed %t, sensitive %t, deprecated %t", place, name,
				recorded.Attributes[name], theirs.Required, theirs.Optional, theirs.Computed, theirs.Sensitive, theirs.Deprecated)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(recorded.Blocks)) {
		mine := recorded.Blocks[name]
		theirs, ok := there.Blocks[name]
		if !ok {
			c.say("%s.%s: the provider has no such block", place, name)
			continue
		}
		if mine.Nesting != theirs.Nesting || mine.Min != theirs.Min || mine.Max != theirs.Max {
			c.say("%s.%s: recorded as %s from %d to %d, and the provider has %s from %d to %d", place, name,
				mine.Nesting, mine.Min, mine.Max, theirs.Nesting, theirs.Min, theirs.Max)
		}
		c.block(place+"."+name, mine, theirs.Block)
	}
	for _, name := range slices.Sorted(maps.Keys(there.Attributes)) {
		if _, ok := recorded.Attributes[name]; !ok && there.Attributes[name].Required {
			c.say("%s.%s: the provider requires this attribute", place, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there.Blocks)) {
		if _, ok := recorded.Blocks[name]; !ok && there.Blocks[name].Min > 0 {
			c.say("%s.%s: the provider requires this block", place, name)
		}
	}
}

// comparing is the program called by its own name: compare FILE, with the provider's schemas on standard input.
func comparing(args []string) (asked bool, err error) {
	if len(args) != 3 || args[1] != "compare" {
		return false, nil
	}
	return true, compare(args[2], os.Stdin, os.Stdout)
}
