package terraform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// state is what is read of a state to know which of two is newer, and what in it is secret.
type state struct {
	Lineage string `json:"lineage"`
	Serial  int64  `json:"serial"`
	Outputs map[string]struct {
		Value     any  `json:"value"`
		Sensitive bool `json:"sensitive"`
	} `json:"outputs"`
	Resources []struct {
		Instances []struct {
			Attributes any     `json:"attributes"`
			Sensitive  []steps `json:"sensitive_attributes"`
		} `json:"instances"`
	} `json:"resources"`
}

// steps lead to a value within another one.
type steps []struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

func (s *state) String() string { return fmt.Sprintf("lineage %s, serial %d", s.Lineage, s.Serial) }

// read is a state; nil where there is none, which a backend may tell as one of no lineage.
func read(raw []byte) (*state, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	var s state
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("read terraform state: %w", err)
	}
	switch {
	case s.Lineage == "" && len(s.Resources)+len(s.Outputs) == 0:
		return nil, nil
	case s.Lineage == "":
		return nil, errors.New("read terraform state: it has no lineage")
	}
	return &s, nil
}

// secrets calls do with each value that a state calls sensitive.
func (s *state) secrets(do func(any)) {
	if s == nil {
		return
	}
	for _, output := range s.Outputs {
		if output.Sensitive {
			do(output.Value)
		}
	}
	for _, resource := range s.Resources {
		for _, instance := range resource.Instances {
			for _, to := range instance.Sensitive {
				do(to.in(instance.Attributes))
			}
		}
	}
}

// in is the value at their end; nil where they lead nowhere.
func (to steps) in(value any) any {
	for _, step := range to {
		key := step.Value
		if typed, ok := key.(map[string]any); ok { // an index says its type
			key = typed["value"]
		}
		switch inner := value.(type) {
		case map[string]any:
			name, _ := key.(string)
			value = inner[name]
		case []any:
			i, ok := key.(float64)
			if !ok || i < 0 || int(i) >= len(inner) {
				return nil
			}
			value = inner[int(i)]
		default:
			return nil
		}
	}
	return value
}

// newest is the one of two states that followed the other. Found is what a run left in the folder, which file names;
// before says that there was something in it before that run.
func newest(kept, found []byte, file string, before bool) ([]byte, error) {
	mine, err := read(kept)
	if err != nil {
		return nil, fmt.Errorf("the kept one: %w", err)
	}
	theirs, err := read(found)
	if err != nil {
		return nil, &StateError{Kept: name(mine), Found: "not readable", File: file, Cause: "cannot be compared: " + err.Error() +
			": terraform was killed while it wrote"}
	}
	switch {
	case theirs == nil && found != nil && before:
		// Terraform makes an empty file before its first state, and empties one before each other.
		return nil, &StateError{
			Kept: name(mine), Found: "empty", File: file,
			Cause: "cannot be compared: terraform was killed while it wrote",
		}
	case theirs == nil:
		return kept, nil
	case mine == nil:
		return found, nil
	case mine.Lineage != theirs.Lineage:
		return nil, &StateError{Kept: name(mine), Found: name(theirs), File: file, Cause: "are not of the same things"}
	case mine.Serial == theirs.Serial && !same(kept, found):
		return nil, &StateError{Kept: name(mine), Found: name(theirs), File: file, Cause: "differ, and neither followed the other"}
	case mine.Serial >= theirs.Serial:
		return kept, nil
	}
	return found, nil
}

func name(s *state) string {
	if s == nil {
		return "none"
	}
	return s.String()
}

// same compares what two states say, not how it is written.
func same(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
