package boundcel

import (
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// What one match may be. It cannot be stopped.
const (
	// maxMatched is the longest text, in bytes.
	maxMatched = 64 << 10
	// maxPattern is the longest pattern, in bytes.
	maxPattern = 512
	// maxProgram is the largest compiled pattern, in instructions: {1000} makes a thousand out of one.
	maxProgram = 500
	// maxWork is the largest product of text and instructions, which is what a match takes: some hundredths of a second.
	maxWork = 2 << 20
)

// matching is CEL's standard library, with a function `matches` of ours that has limits.
func matching() cel.EnvOption {
	without := env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction(overloads.Matches))
	return func(e *cel.Env) (*cel.Env, error) {
		e, err := cel.StdLib(cel.StdLibSubset(without))(e)
		if err != nil {
			return nil, err
		}
		parts := []*cel.Type{cel.StringType, cel.StringType}
		return cel.Function(overloads.Matches,
			cel.Overload(overloads.Matches, parts, cel.BoolType),
			cel.MemberOverload(overloads.MatchesString, parts, cel.BoolType),
			cel.SingletonBinaryBinding(matches),
		)(e)
	}
}

func matches(left, right ref.Val) ref.Val {
	text, textual := left.(types.String)
	pattern, patterned := right.(types.String)
	if !textual || !patterned {
		return types.NoSuchOverloadErr()
	}
	if len(text) > maxMatched {
		return types.NewErr("matches: the text has %d bytes, more than %d", len(text), maxMatched)
	}
	if len(pattern) > maxPattern {
		return types.NewErr("matches: the pattern has %d bytes, more than %d", len(pattern), maxPattern)
	}
	instructions, err := sizeOf(string(pattern))
	if err != nil {
		return types.NewErr("matches: %v", err)
	}
	if instructions > maxProgram {
		return types.NewErr("matches: the pattern counts too far")
	}
	if len(text)*instructions > maxWork {
		return types.NewErr("matches: the text has %d bytes, too many for this pattern", len(text))
	}
	found, err := regexp.MatchString(string(pattern), string(text))
	if err != nil {
		return types.NewErr("matches: %v", err)
	}
	return types.Bool(found)
}

// sizeOf is how many instructions a pattern has.
func sizeOf(pattern string) (int, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, err
	}
	return len(program.Inst), nil
}
