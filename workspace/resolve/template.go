package resolve

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/pluralsh/plural/workspace/fleet"
)

// Bounds of one template, but for texts that it holds as {{ "..." }}. With no loops in the language they bound its time too.
const (
	maxTemplate = 4 << 10  // bytes of a text with {{ in it
	maxOutput   = 64 << 10 // bytes of its result, and of every step on the way
)

// scope is what a chain of fields walks through: texts at its end, scopes on the way.
type scope struct {
	values map[string]string
	fields map[string]scope
}

func clusterScope(c *fleet.Cluster) scope {
	return scope{fields: map[string]scope{"cluster": {
		values: map[string]string{"name": c.Metadata.Name},
		fields: map[string]scope{"tags": {values: c.Spec.Tags}, "parameters": {values: c.Spec.Parameters}},
	}}}
}

// compiled is a parsed template, or why it is none. It depends on the text alone.
type compiled struct {
	pieces []segment
	err    error
}

// segment is a text that stays as it is, or, when it has a node, a piece of a template.
type segment struct {
	literal string
	node    parse.Node
}

// templatePlace is what the parser puts before its message: the line inside a text helps nobody.
var templatePlace = regexp.MustCompile(`^template: template:\d+: `)

// compile parses the language of parameters: text, fields, string literals and the functions below.
func compile(text string) compiled {
	var c compiled
	code := 0
	for found := true; found; {
		var before, value string
		before, value, text, found = cutLiteral(text)
		if code += len(before); code > maxTemplate {
			return compiled{err: fmt.Errorf("template is longer than %d bytes", maxTemplate)}
		}
		nodes, err := nodesOf(before)
		if err != nil {
			return compiled{err: err}
		}
		for _, node := range nodes {
			c.pieces = append(c.pieces, segment{node: node})
		}
		c.pieces = append(c.pieces, segment{literal: value})
	}
	return c
}

func nodesOf(text string) ([]parse.Node, error) {
	if text == "" {
		return nil, nil
	}
	names := make(map[string]any)
	for name := range functions() {
		names[name] = true // only its presence counts
	}
	trees, err := parse.Parse("template", text, "{{", "}}", names)
	switch {
	case err != nil:
		return nil, errors.New(templatePlace.ReplaceAllString(err.Error(), ""))
	case len(trees) > 1:
		return nil, errors.New("define is not allowed")
	case trees["template"] == nil || trees["template"].Root == nil:
		return nil, nil
	}
	return trees["template"].Root.Nodes, nil
}

// value is what an expression gives: a text, a scope, or the complaint that a field is missing, which only default
// forgives.
type value struct {
	text    string
	scope   *scope
	missing error
}

// missingError names a value that the cluster does not have.
type missingError struct{ name string }

func (e *missingError) Error() string { return e.name + " has no value" }

// errSecrets is for whoever looks for a secret where it would end up in a key, a poll and the hub's memory.
var errSecrets = errors.New("secrets are known to the agent only")

// render evaluates a template.
func (c compiled) render(in scope) (string, error) {
	if c.err != nil {
		return "", c.err
	}
	var out strings.Builder
	size := 0
	for _, piece := range c.pieces {
		out.WriteString(piece.literal)
		if piece.node == nil {
			continue
		}
		text, err := renderNode(piece.node, in)
		if err != nil {
			return "", err
		}
		if size += len(text); size > maxOutput {
			return "", errTooLong()
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

func errTooLong() error { return fmt.Errorf("result is longer than %d bytes", maxOutput) }

func renderNode(node parse.Node, in scope) (string, error) {
	switch n := node.(type) {
	case *parse.TextNode:
		return string(n.Text), nil
	case *parse.ActionNode:
		v, err := evalPipe(n.Pipe, in)
		if err != nil {
			return "", err
		}
		return v.asText(n.Pipe)
	}
	return "", fmt.Errorf("%s is not allowed", printed(node))
}

func (v value) asText(node parse.Node) (string, error) {
	switch {
	case v.missing != nil:
		return "", v.missing
	case v.scope != nil:
		return "", fmt.Errorf("%s is a group of values, not one", printed(node))
	}
	return v.text, nil
}

// evalPipe passes each command's value to the next as its last argument.
func evalPipe(pipe *parse.PipeNode, in scope) (value, error) {
	if len(pipe.Decl) > 0 {
		return value{}, errors.New("variables are not allowed")
	}
	var last *value
	for _, command := range pipe.Cmds {
		v, err := evalCommand(command, last, in)
		if err != nil {
			return value{}, err
		}
		last = &v
	}
	if last == nil {
		return value{}, errors.New("empty braces")
	}
	return *last, nil
}

func evalCommand(command *parse.CommandNode, piped *value, in scope) (value, error) {
	name, isCall := command.Args[0].(*parse.IdentifierNode)
	if !isCall {
		if len(command.Args) > 1 || piped != nil {
			return value{}, fmt.Errorf("%s is not a function", printed(command.Args[0]))
		}
		return evalArgument(command.Args[0], in)
	}
	var args []value
	for _, arg := range command.Args[1:] {
		v, err := evalArgument(arg, in)
		if err != nil {
			return value{}, err
		}
		args = append(args, v)
	}
	if piped != nil {
		args = append(args, *piped)
	}
	return call(name.Ident, args)
}

func evalArgument(node parse.Node, in scope) (value, error) {
	switch n := node.(type) {
	case *parse.StringNode:
		return value{text: n.Text}, nil
	case *parse.FieldNode:
		if n.Ident[0] == "secrets" { // no default may stand in for a secret
			return value{}, errSecrets
		}
		return in.walk(n.Ident), nil
	case *parse.PipeNode:
		return evalPipe(n, in)
	case *parse.IdentifierNode:
		return call(n.Ident, nil)
	}
	return value{}, fmt.Errorf("%s is not allowed", printed(node))
}

// walk follows a chain of fields.
func (s scope) walk(chain []string) value {
	for i, name := range chain {
		if text, ok := s.values[name]; ok && i == len(chain)-1 {
			return value{text: text}
		}
		next, ok := s.fields[name]
		if !ok {
			return value{missing: &missingError{"." + strings.Join(chain, ".")}}
		}
		s = next
	}
	return value{scope: &s}
}

// function is one pure function of texts.
type function struct {
	args int
	call func(args []string) (string, error)
}

// functions lists those of texts only; default and index stand in call.
func functions() map[string]function {
	simple := func(f func(string) string) function {
		return function{1, func(args []string) (string, error) { return f(args[0]), nil }}
	}
	return map[string]function{
		"lower":   simple(strings.ToLower),
		"upper":   simple(strings.ToUpper),
		"trim":    simple(strings.TrimSpace),
		"quote":   simple(strconv.Quote),
		"replace": {3, replace},
		"default": {args: 2},
		"index":   {args: 2},
	}
}

func call(name string, args []value) (value, error) {
	f := functions()[name]
	if len(args) != f.args {
		return value{}, fmt.Errorf("%s takes %d arguments, not %d", name, f.args, len(args))
	}
	switch name {
	case "default":
		return firstText(args[1], args[0])
	case "index":
		return pick(args[0], args[1])
	}
	texts := make([]string, len(args))
	for i, arg := range args {
		text, err := arg.asText(parse.NewIdentifier("argument of " + name))
		if err != nil {
			return value{}, err
		}
		texts[i] = text
	}
	text, err := f.call(texts)
	if err == nil && len(text) > maxOutput {
		err = errTooLong()
	}
	return value{text: text}, err
}

// firstText is v, or the fallback where v is missing or empty.
func firstText(v, fallback value) (value, error) {
	if v.missing == nil && (v.text != "" || v.scope != nil) {
		return v, nil
	}
	return fallback, nil
}

// pick is for keys that cannot be written as a field, such as "my-tag".
func pick(group, key value) (value, error) {
	name, err := key.asText(parse.NewIdentifier("key of index"))
	switch {
	case err != nil:
		return value{}, err
	case group.missing != nil:
		return group, nil
	case group.scope == nil:
		return value{}, errors.New("index wants a group of values first, such as .cluster.tags")
	}
	v := group.scope.walk([]string{name})
	if v.missing != nil {
		v.missing = &missingError{strconv.Quote(name)}
	}
	return v, nil
}

// replace is replace OLD NEW TEXT. The size is known before anything is built.
func replace(args []string) (string, error) {
	old, with, text := args[0], args[1], args[2]
	if size := len(text) + strings.Count(text, old)*(len(with)-len(old)); size > maxOutput {
		return "", errTooLong()
	}
	return strings.ReplaceAll(text, old, with), nil
}

// printed is a node as it was written, short.
func printed(node parse.Node) string {
	const most = 60
	s := node.String()
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
