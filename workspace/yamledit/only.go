package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/workspace/fleet"
)

// Only wants two states of one file to differ in nothing but what Suspend, Agree and Joined write: whether a service is
// suspended, what somebody agreed to, and the keys of a cluster where a join token stood. The error names what else differs.
func Only(file string, before, after []byte) error {
	was, err := decoded(file, before)
	if err != nil {
		return err
	}
	is, err := decoded(file, after)
	if err != nil {
		return err
	}
	if len(was) != len(is) {
		return fmt.Errorf("%q has %d documents, and had %d", file, len(is), len(was))
	}
	for i := range was {
		if err := equalExceptProgramFields(was[i], is[i]); err != nil {
			return fmt.Errorf("%q, document %d: %w", file, i+1, err)
		}
	}
	return nil
}

// equalExceptProgramFields compares two documents without the fields that programs write. It changes them.
func equalExceptProgramFields(was, is map[string]any) error {
	if was["apiVersion"] != fleet.APIVersion || is["apiVersion"] != fleet.APIVersion {
		return errors.New("it is no document of a fleet")
	}
	switch was["kind"] {
	case "Service":
		for _, document := range []map[string]any{was, is} {
			spec := mapping(document, "spec")
			delete(spec, "suspend")
			delete(mapping(spec, "sync"), "acknowledged")
			prune(document, "spec", "sync")
		}
	case "Workspace":
		delete(mapping(was, "spec"), "acknowledged")
		delete(mapping(is, "spec"), "acknowledged")
	case "Cluster":
		before, after := mapping(was, "spec"), mapping(is, "spec")
		if before["join"] != nil && after["join"] == nil {
			for _, spec := range []map[string]any{before, after} {
				delete(spec, "join")
				delete(mapping(spec, "agent"), "auth")
				delete(mapping(spec, "agent"), "age")
			}
			prune(was, "spec", "agent")
			prune(is, "spec", "agent")
		}
	}
	if !reflect.DeepEqual(was, is) {
		return errors.New("more differs than what a program may change")
	}
	return nil
}

// prune takes a mapping out that has nothing in it, and then the one that held it.
func prune(document map[string]any, outer, inner string) {
	held := mapping(document, outer)
	if len(mapping(held, inner)) == 0 {
		delete(held, inner)
	}
	if len(held) == 0 {
		delete(document, outer)
	}
}

func mapping(in map[string]any, key string) map[string]any {
	m, _ := in[key].(map[string]any)
	return m
}

// decoded are the documents of a file that people write for a fleet.
func decoded(file string, text []byte) ([]map[string]any, error) {
	if len(text) > fleet.MaxFile {
		return nil, fmt.Errorf("%q is larger than %d bytes", file, fleet.MaxFile)
	}
	var list []map[string]any
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document map[string]any
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("%q is no document of a fleet: %w", file, err)
		}
		list = append(list, document)
	}
}
