package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/selector"
	"github.com/pluralsh/plural/internal/yamlerror"
)

var repositoryID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// parseDocument gives the root of the one document in text.
func parseDocument(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s:1: the file is empty: plural crypto init writes one", File)
	case err != nil:
		return nil, syntaxError(err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, fault(&second, "a second document: put everything into the first")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(err)
	}
	return document.Content[0], nil
}

func syntaxError(err error) error {
	line, message := yamlerror.Line(err.Error())
	return fmt.Errorf("%s:%d: not YAML: %s", File, max(line, 1), message)
}

func fault(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", File, max(n.Line, 1), fmt.Sprintf(format, args...))
}

func decode(root *yaml.Node) (*Policy, error) {
	p := &Policy{}
	err := mapping(root, "the document", fields{
		"apiVersion": constant("apiVersion", apiVersion),
		"kind":       constant("kind", kind),
		"metadata": func(n *yaml.Node) error {
			return mapping(n, "metadata", fields{"name": constant("metadata.name", name)}, "name")
		},
		"spec": p.decodeSpec,
	}, "apiVersion", "kind", "spec")
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Policy) decodeSpec(n *yaml.Node) error {
	return mapping(n, "spec", fields{
		"repository": func(n *yaml.Node) error {
			// 32 digits without a letter are a number to YAML, and so are some with an e.
			if n.Kind != yaml.ScalarNode || !repositoryID.MatchString(n.Value) {
				return fault(n, "repository must be 32 hex digits in lower case, found %s: plural crypto init makes one", describe(n))
			}
			p.Repository = n.Value
			return nil
		},
		"groups": func(n *yaml.Node) error { return sequence(n, "groups", MaxGroups, p.decodeGroup) },
		"paths":  func(n *yaml.Node) error { return sequence(n, "paths", MaxPatterns, p.decodePattern) },
	}, "repository", "paths")
}

func (p *Policy) decodeGroup(n *yaml.Node) error {
	g := Group{Line: n.Line}
	err := mapping(n, "a group", fields{
		"name": text("name", &g.Name),
		"clusters": func(n *yaml.Node) error {
			g.Clusters = &Selector{}
			return g.Clusters.decode(n)
		},
	}, "name")
	if err != nil {
		return err
	}
	if err := CheckName(g.Name); err != nil {
		return fault(n, "%v", err)
	}
	for _, other := range p.Groups {
		if SameFile(other.Name, g.Name) {
			return fault(n, "the group %q is already set in line %d: keep one of them", g.Name, other.Line)
		}
	}
	p.Groups = append(p.Groups, g)
	return nil
}

func (p *Policy) decodePattern(n *yaml.Node) error {
	one := Pattern{Line: n.Line}
	err := mapping(n, "a path", fields{
		"pattern": text("pattern", &one.Pattern),
		"groups":  texts("groups", &one.Groups),
	}, "pattern", "groups")
	if err != nil {
		return err
	}
	if err := checkPattern(one.Pattern); err != nil {
		return fault(n, "%v", err)
	}
	if len(one.Groups) == 0 {
		return fault(n, "the pattern %q names no group", one.Pattern)
	}
	for _, group := range one.Groups {
		if err := CheckName(group); err != nil {
			return fault(n, "%v", err)
		}
	}
	for _, other := range p.Paths {
		if other.Pattern == one.Pattern {
			return fault(n, "the pattern %q is already set in line %d: keep one of them", one.Pattern, other.Line)
		}
	}
	p.Paths = append(p.Paths, one)
	return nil
}

func (s *Selector) decode(n *yaml.Node) error {
	err := mapping(n, "clusters", fields{
		"all":         truth("all", &s.All),
		"names":       texts("names", &s.Names),
		"matchLabels": dictionary("matchLabels", &s.MatchLabels),
		"matchExpressions": func(n *yaml.Node) error {
			return sequence(n, "matchExpressions", MaxGroups, s.decodeRequirement)
		},
	})
	switch {
	case err != nil:
		return err
	case s.empty():
		return fault(n, "clusters without a condition picks none: write all: true, names, matchLabels or matchExpressions")
	case s.All && !(Selector{Names: s.Names, MatchLabels: s.MatchLabels, MatchExpressions: s.MatchExpressions}).empty():
		return fault(n, "all: true stands beside other conditions: keep one of them")
	}
	return nil
}

func (s *Selector) decodeRequirement(n *yaml.Node) error {
	var r Requirement
	err := mapping(n, "a condition", fields{
		"key": text("key", &r.Key), "operator": text("operator", &r.Operator), "values": texts("values", &r.Values),
	}, "key", "operator")
	if err != nil {
		return err
	}
	wantsValues := r.Operator == selector.In || r.Operator == selector.NotIn
	switch {
	case !wantsValues && r.Operator != selector.Exists && r.Operator != selector.DoesNotExist:
		return fault(n, "unknown operator %q: known operators are In, NotIn, Exists, DoesNotExist", r.Operator)
	case wantsValues != (len(r.Values) > 0):
		return fault(n, "the operator %s takes %s", r.Operator, map[bool]string{true: "values: [...]", false: "no values"}[wantsValues])
	}
	s.MatchExpressions = append(s.MatchExpressions, r)
	return nil
}

// fields say what to do with the value of each field that a mapping may have.
type fields map[string]func(*yaml.Node) error

// mapping hands the values of n to known, each once.
func mapping(n *yaml.Node, what string, known fields, required ...string) error {
	lines := map[string]int{}
	err := pairs(n, what, func(key, val *yaml.Node) error {
		each, ok := known[key.Value]
		if !ok {
			return fault(key, "unknown field %q in %s: known fields are %s", key.Value, what, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		lines[key.Value] = key.Line
		return each(val)
	})
	if err != nil {
		return err
	}
	for _, field := range required {
		if lines[field] == 0 {
			return fault(n, "missing field %q in %s", field, what)
		}
	}
	return nil
}

// pairs calls each with every key and value of a mapping, and refuses a key that comes twice.
func pairs(n *yaml.Node, what string, each func(key, val *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return fault(n, "%s must be fields, found %s: write them as name: value", what, describe(n))
	}
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		switch line := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			return fault(key, "a key in %s is %s: write it as plain text", what, describe(key))
		case line > 0:
			return fault(key, "the field %q is already set in line %d: keep one of them", key.Value, line)
		}
		lines[key.Value] = key.Line
		if err := each(key, val); err != nil {
			return err
		}
	}
	return nil
}

func sequence(n *yaml.Node, what string, most int, each func(*yaml.Node) error) error {
	switch {
	case n.Kind != yaml.SequenceNode:
		return fault(n, `%s must be a list, found %s: begin each entry with "- "`, what, describe(n))
	case len(n.Content) > most:
		return fault(n, "%s has more than %d entries", what, most)
	}
	for _, item := range n.Content {
		if err := each(item); err != nil {
			return err
		}
	}
	return nil
}

func constant(what, want string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Value != want {
			return fault(n, "%s must be %s, found %s", what, want, describe(n))
		}
		return nil
	}
}

func text(what string, into *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			return fault(n, "%s must be text, found %s: put it in quotes", what, describe(n))
		}
		*into = n.Value
		return nil
	}
}

func texts(what string, into *[]string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return sequence(n, what, MaxGroups, func(n *yaml.Node) error {
			var one string
			if err := text("an entry of "+what, &one)(n); err != nil {
				return err
			}
			*into = append(*into, one)
			return nil
		})
	}
}

func dictionary(what string, into *map[string]string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		*into = map[string]string{}
		return pairs(n, what, func(key, val *yaml.Node) error {
			var one string
			if err := text(what+"."+key.Value, &one)(val); err != nil {
				return err
			}
			(*into)[key.Value] = one
			return nil
		})
	}
}

func truth(what string, into *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Value != "true" {
			return fault(n, "%s must be true, found %s", what, describe(n))
		}
		*into = true
		return nil
	}
}

// describe says what stands in the file.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return fmt.Sprintf("%.60q", n.Value)
}
