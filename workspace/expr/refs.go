package expr

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// refs are what an expression reads.
func refs(tree *cel.Ast) []Ref {
	r := &reader{}
	r.visit(tree.NativeRep().Expr(), nil)
	return r.refs
}

// reader collects what is read. Names that a macro brings are no variables, unless a dot before them says that the variable is
// meant: the compiler writes .answers where answers is another's name.
type reader struct{ refs []Ref }

func (r *reader) visit(e ast.Expr, local []string) {
	if path, ok := r.path(e, local); ok {
		r.refs = append(r.refs, Ref{path})
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		r.visit(e.AsSelect().Operand(), local)
	case ast.CallKind:
		if call := e.AsCall(); call.IsMemberFunction() {
			r.visit(call.Target(), local)
		}
		for _, arg := range e.AsCall().Args() {
			r.visit(arg, local)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			r.visit(item, local)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.visit(entry.AsMapEntry().Key(), local)
			r.visit(entry.AsMapEntry().Value(), local)
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			r.visit(f.AsStructField().Value(), local)
		}
	case ast.ComprehensionKind:
		r.comprehension(e.AsComprehension(), local)
	}
}

func (r *reader) comprehension(c ast.ComprehensionExpr, local []string) {
	r.visit(c.IterRange(), local)
	r.visit(c.AccuInit(), local)
	after := append(slices.Clip(local), c.AccuVar())
	inside := append(slices.Clip(after), c.IterVar())
	if c.HasIterVar2() {
		inside = append(inside, c.IterVar2())
	}
	r.visit(c.LoopCondition(), inside)
	r.visit(c.LoopStep(), inside)
	r.visit(c.Result(), after)
}

// path is what a chain of fields and indexes reads; false when e is something else. Of a computed index, what is read to
// compute it is collected on the way.
func (r *reader) path(e ast.Expr, local []string) ([]string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		name, global := strings.CutPrefix(e.AsIdent(), ".")
		return []string{name}, (global || !slices.Contains(local, name)) && slices.Contains(Names(), name)
	case ast.SelectKind:
		base, ok := r.whole(e.AsSelect().Operand(), local)
		return append(base, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		return r.index(e.AsCall(), local)
	}
	return nil, false
}

// whole is the path of e when it has one that does not end before e.
func (r *reader) whole(e ast.Expr, local []string) ([]string, bool) {
	if e.Kind() == ast.CallKind && computed(e) {
		return nil, false
	}
	path, ok := r.path(e, local)
	return slices.Clip(path), ok
}

func (r *reader) index(call ast.CallExpr, local []string) ([]string, bool) {
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
	default:
		return nil, false
	}
	base, ok := r.whole(call.Args()[0], local)
	if !ok {
		return nil, false
	}
	key, constant := constantKey(call.Args()[1])
	if !constant {
		r.visit(call.Args()[1], local)
		return base, true
	}
	return append(base, key), true
}

// computed says whether e is an index that is known only when it has a value.
func computed(e ast.Expr) bool {
	args := e.AsCall().Args()
	if len(args) != 2 {
		return false
	}
	_, constant := constantKey(args[1])
	return !constant
}

func constantKey(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	switch v := e.AsLiteral().(type) {
	case types.String:
		return string(v), true
	case types.Int:
		return strconv.FormatInt(int64(v), 10), true
	}
	return "", false
}

func unique(all []Ref) []Ref {
	slices.SortFunc(all, func(a, b Ref) int { return slices.Compare(a.Path, b.Path) })
	return slices.CompactFunc(all, func(a, b Ref) bool { return slices.Equal(a.Path, b.Path) })
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
