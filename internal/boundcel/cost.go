package boundcel

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// perUnit is how many characters, or values inside a list or map, are looked at for one unit of cost.
const perUnit = 10

// weights are what calls cost: one unit, what their arguments and results are long, and for what looks inside lists and maps
// what is in there. The library's own are chosen by the types of arguments, which are not known here before they have
// values: to it every call over a live object would cost the same.
type weights struct{}

// CallCost is called after the call.
func (weights) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	var total uint64 = 1
	switch function {
	case operators.Index, operators.OptIndex, operators.OptSelect, overloads.Size:
		return &total // what is in there is not looked at
	case operators.Equals, operators.NotEquals, operators.In, operators.Add:
		// Of a sum, the left is what a macro has collected so far: it has been paid for.
		total += inside(args[len(args)-1])
	case overloads.Matches:
		total += work(args[0], args[len(args)-1])
	}
	for _, arg := range args {
		total += weight(arg)
	}
	total += weight(result)
	return &total
}

// work is what a match took. One that was refused took nothing.
func work(text, pattern ref.Val) uint64 {
	t, textual := text.(types.String)
	p, patterned := pattern.(types.String)
	if !textual || !patterned || len(p) > maxPattern {
		return 0
	}
	instructions, err := sizeOf(string(p))
	if err != nil || len(t)*instructions > maxWork {
		return 0
	}
	return uint64(len(t)*instructions) / perUnit
}

// weight is the size of a value: its items, or a part of its characters.
func weight(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return uint64(len(v))/perUnit + 1
	case types.Bytes:
		return uint64(len(v))/perUnit + 1
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok && n > 0 {
			return uint64(n)
		}
	}
	return 1
}

func inside(value ref.Val) uint64 {
	const most = maxCost * perUnit
	return uint64(most-room(value, most)) / perUnit
}

// bound keeps lists and maps that an expression makes from growing beyond measure. A list that holds the same list twice, in
// a list that holds that one twice, and so on, takes no memory: but who compares two of them never comes to an end, and
// cannot be stopped.
func bound(part interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if maker, ok := part.(interpreter.InterpretableConstructor); ok {
		return boundedMaker{maker}, nil
	}
	return part, nil
}

// boundedMaker makes a list or a map.
type boundedMaker struct {
	interpreter.InterpretableConstructor
}

// Exec makes it.
func (m boundedMaker) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	made := m.InterpretableConstructor.Exec(frame)
	if room(made, maxMade) <= 0 {
		return types.NewErr("a list or map with more than %d values inside", maxMade)
	}
	return made
}

// Eval makes it.
func (m boundedMaker) Eval(vars interpreter.Activation) ref.Val {
	return m.Exec(interpreter.AsFrame(vars))
}

// room is what remains of left when all values inside v are taken from it; it looks no further than that.
func room(v any, left int) int {
	left--
	switch v := v.(type) {
	case map[string]any:
		for _, item := range v {
			if left <= 0 {
				break
			}
			left = room(item, left)
		}
	case []any:
		for _, item := range v {
			if left <= 0 {
				break
			}
			left = room(item, left)
		}
	case []ref.Val:
		for _, item := range v {
			if left <= 0 {
				break
			}
			left = room(item, left)
		}
	case map[ref.Val]ref.Val:
		for _, item := range v {
			if left <= 0 {
				break
			}
			left = room(item, left)
		}
	case types.Error:
	case ref.Val:
		if held := v.Value(); left > 0 && !same(held) {
			left = room(held, left+1)
		}
	}
	return left
}

// same says that a value is held by itself: there is nothing further inside.
func same(held any) bool {
	_, itself := held.(ref.Val)
	return itself
}
