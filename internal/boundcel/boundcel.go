// Package boundcel owns CEL expressions with bounds on size and cost.
//
// It refuses to know what expressions are for. Whoever wrote them may be a stranger: their length, nesting, cost and time have
// limits, and so has what they can make, which leave the longest that people write well inside.
package boundcel

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

const (
	// MaxText is the longest expression, in bytes.
	MaxText = 8 << 10
	// maxCost is counted as weights says.
	maxCost = 1_000_000
	// nearlyAll is what has to be left of that for an expression to be let have all of it once more.
	nearlyAll = maxCost / 10 * 9
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

// Environment is the language: CEL's own functions and macros, those of strings, `sum`, and optional fields (`self.?status`), over
// the named variables, whose types are known only when they have values. What makes long lists or texts out of numbers is
// not in it.
func Environment(variables ...string) (*cel.Env, error) {
	options := []cel.EnvOption{
		matching(),
		sum(),
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

// Expression is one compiled expression. It does not change, and is safe for concurrent use.
type Expression struct {
	// Tree is what the expression says.
	Tree *cel.Ast
	env  *cel.Env
	// program may cost all that a new Budget has, and is used while nearly that is left: it costs more to plan another one.
	program cel.Program
}

// Compile refuses an expression that is over a limit, or can never give what is wanted. A nil type wants anything.
func Compile(env *cel.Env, text string, wanted *cel.Type) (*Expression, error) {
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
	e := &Expression{Tree: tree, env: env}
	var err error
	if e.program, err = e.costing(maxCost); err != nil {
		return nil, err
	}
	return e, nil
}

// costing is the expression as a program that ends when it has cost more than so much.
func (e *Expression) costing(most uint64) (cel.Program, error) {
	return e.env.Program(e.Tree, cel.CostTracking(weights{}), cel.CostLimit(most), cel.CustomDecoratorV2(bound),
		cel.InterruptCheckFrequency(checkEvery))
}

// MissingError says that an expression refers to a field or an item that is not there.
type MissingError struct{ Key string }

func (e *MissingError) Error() string { return "no such key: " + e.Key }

// Budget is what several expressions may take together: no more than one, or a tenth above that. It is for one goroutine.
type Budget struct {
	left  uint64
	until time.Time
}

var errSpent = errors.New("with the expressions before it, it takes more than they may together")

// NewBudget begins now.
func NewBudget() *Budget { return &Budget{maxCost, time.Now().Add(maxTime)} }

// Eval gives the expression's value. A field that is not there is a *MissingError.
func (e *Expression) Eval(vars map[string]any) (ref.Val, error) {
	return e.EvalWithin(NewBudget(), vars)
}

// EvalWithin is Eval where others have taken a part of the budget, of which this one takes its own. It is refused when nothing is
// left.
func (e *Expression) EvalWithin(b *Budget, vars map[string]any) (ref.Val, error) {
	if b.left == 0 || !time.Now().Before(b.until) {
		return nil, errSpent
	}
	ctx, cancel := context.WithDeadline(context.Background(), b.until)
	defer cancel()
	program, shared := e.program, b.left < maxCost
	if b.left < nearlyAll { // the library has the limit in the program
		var err error
		if program, err = e.costing(b.left); err != nil {
			return nil, err
		}
	}
	value, details, err := program.ContextEval(ctx, vars)
	if cost := details.ActualCost(); cost != nil {
		b.left -= min(b.left, *cost)
	}
	switch {
	case err != nil && shared && b.left == 0:
		return nil, errSpent
	case err != nil:
		return nil, missing(err)
	}
	return value, nil
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

// celError is how the library writes one mistake.
var celError = regexp.MustCompile(`(?m)^ERROR: <input>:\d+:\d+: (.*)$`)

// Brief is an error of the library on one line, without the drawing of where it is.
func Brief(err error) string {
	found := celError.FindAllStringSubmatch(err.Error(), -1)
	if len(found) == 0 {
		return strings.Join(strings.Fields(err.Error()), " ")
	}
	var all []string
	for _, f := range found {
		all = append(all, strings.ReplaceAll(f[1], " (in container '')", ""))
	}
	const few = 3
	return strings.Join(all[:min(few, len(all))], "; ")
}
