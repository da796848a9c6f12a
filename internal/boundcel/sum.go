package boundcel

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// sum adds up a list of whole numbers, as the function of this name does in Kubernetes' own expressions: CEL has none.
func sum() cel.EnvOption {
	return cel.Function("sum",
		cel.MemberOverload("list_sum", []*cel.Type{cel.ListType(cel.DynType)}, cel.IntType, cel.UnaryBinding(summed)))
}

func summed(value ref.Val) ref.Val {
	list, ok := value.(traits.Lister)
	if !ok {
		return types.NoSuchOverloadErr()
	}
	var total ref.Val = types.IntZero
	for items := list.Iterator(); items.HasNext() == types.True; {
		number, whole := items.Next().(types.Int)
		if !whole {
			return types.NewErr("sum: the list has something else than whole numbers in it")
		}
		if total = number.Add(total); types.IsError(total) {
			return total
		}
	}
	return total
}
