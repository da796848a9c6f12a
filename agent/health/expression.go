package health

import (
	"fmt"

	"cel.dev/cel-go/cel"

	"github.com/pluralsh/plural/internal/boundcel"
)

// MaxText is the longest expression or script, in bytes.
const MaxText = boundcel.MaxText

// Expression is one compiled expression of CEL with a limit on its cost. It does not change, and is safe for concurrent use.
type Expression struct{ bounded *boundcel.Expression }

// Compile reads an expression over the named variables, whose types are known only when they have values. An error says
// where the expression is wrong.
func Compile(text string, variables ...string) (*Expression, error) {
	env, err := boundcel.Environment(variables...)
	if err != nil {
		return nil, err
	}
	return compile(env, text, nil)
}

// compile refuses an expression that can never give what is wanted. A nil type wants anything.
func compile(env *cel.Env, text string, wanted *cel.Type) (*Expression, error) {
	e, err := boundcel.Compile(env, text, wanted)
	if err != nil {
		return nil, err
	}
	return &Expression{e}, nil
}

// MissingError says that an expression refers to a field or an item that is not there.
type MissingError = boundcel.MissingError

// Bool evaluates an expression that is true or false. A field that is not there is a *MissingError.
func (e *Expression) Bool(vars map[string]any) (bool, error) {
	return e.boolWithin(boundcel.NewBudget(), vars)
}

func (e *Expression) boolWithin(b *boundcel.Budget, vars map[string]any) (bool, error) {
	return evaluate[bool](e, b, vars, "true or false")
}

// textWithin evaluates an expression that gives text. A field that is not there is a *MissingError.
func (e *Expression) textWithin(b *boundcel.Budget, vars map[string]any) (string, error) {
	return evaluate[string](e, b, vars, "text")
}

func evaluate[T any](e *Expression, b *boundcel.Budget, vars map[string]any, wanted string) (T, error) {
	var none T
	value, err := e.bounded.EvalWithin(b, vars)
	if err != nil {
		return none, err
	}
	result, ok := value.Value().(T)
	if !ok {
		return none, fmt.Errorf("it gives a value of type %s, not %s", value.Type().TypeName(), wanted)
	}
	return result, nil
}
