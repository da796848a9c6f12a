package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// What one expression may be and take. They bound what a stranger's expression costs the agent, and leave the longest that
// people write well inside.
const (
	// MaxText is the longest expression or script, in bytes.
	MaxText = 8 << 10
	// maxCost is counted as weights says.
	maxCost = 1_000_000
	// maxMade is how many values one list or map may hold that an expression makes, with all that is inside them.
	maxMade = 100_000
	// maxTime is the backstop for what the cost does not count.
	maxTime = time.Second
	// maxDepth bounds nesting.
	maxDepth = 100
	// stringsVersion is of CEL's library of functions for texts. Later ones format values of any size and depth.
	stringsVersion = 0
	// checkEvery is how many turns of a loop pass between two looks at the clock.
	checkEvery = 10
)

// Expression is one compiled expression of CEL with a limit on its cost. It does not change, and is safe for concurrent use.
type Expression struct{ program cel.Program }

// Compile reads an expression over the named variables, whose types are known only when they have values. An error says
// where the expression is wrong.
func Compile(text string, variables ...string) (*Expression, error) {
	env, err := environment(variables...)
	if err != nil {
		return nil, err
	}
	return compile(env, text, nil)
}

// environment is the language: CEL's own functions and macros, those of strings, and optional fields (`self.?status`).
// What makes long lists or texts out of numbers is not in it.
func environment(variables ...string) (*cel.Env, error) {
	options := []cel.EnvOption{
		matching(),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(stringsVersion)),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(MaxText),
		cel.ParserRecursionLimit(maxDepth),
	}
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewCustomEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("make CEL environment: %w", err)
	}
	return env, nil
}

// compile refuses an expression that can never give what is wanted. A nil type wants anything.
func compile(env *cel.Env, text string, wanted *cel.Type) (*Expression, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%d bytes are more than the %d of an expression", len(text), MaxText)
	}
	tree, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if gives := tree.OutputType(); wanted != nil && !gives.IsAssignableType(wanted) && !wanted.IsAssignableType(gives) {
		return nil, fmt.Errorf("it gives %s, not %s", gives, wanted)
	}
	program, err := env.Program(tree, cel.CostTracking(weights{}), cel.CostLimit(maxCost), cel.CustomDecoratorV2(bound),
		cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, err
	}
	return &Expression{program}, nil
}

// MissingError says that an expression refers to a field or an item that is not there.
type MissingError struct{ Key string }

func (e *MissingError) Error() string { return "no such key: " + e.Key }

// Bool evaluates an expression that is true or false. A field that is not there is a *MissingError.
func (e *Expression) Bool(vars map[string]any) (bool, error) {
	return evaluate[bool](e, vars, "true or false")
}

// Text evaluates an expression that gives text. A field that is not there is a *MissingError.
func (e *Expression) Text(vars map[string]any) (string, error) {
	return evaluate[string](e, vars, "text")
}

func evaluate[T any](e *Expression, vars map[string]any, wanted string) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	value, _, err := e.program.ContextEval(ctx, vars)
	if err != nil {
		return none, missing(err)
	}
	result, ok := value.Value().(T)
	if !ok {
		return none, fmt.Errorf("it gives a value of type %s, not %s", value.Type().TypeName(), wanted)
	}
	return result, nil
}

// missing gives the library's error a type where it means that a field is not there: it has only words for it.
func missing(err error) error {
	const words = "no such key: "
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if key, ok := strings.CutPrefix(cause.Error(), words); ok {
			return &MissingError{key}
		}
	}
	return err
}
