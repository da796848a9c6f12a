package expr_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pluralsh/plural/workspace/expr"
)

func TestAVariableIsSeenThroughAMacrosNameForIt(t *testing.T) {
	for _, text := range []string{
		`${[0].map(answers, .answers.secret)[0]}`,
		`${[0].map(answers, .answers["secret"])[0]}`,
		`${[0].map(answers, .answers["se" + "cret"])[0]}`,
		`${[0].map(answers, .answers)[0].secret}`,
		`${[0].map(x, [x].map(answers, dyn(.answers)))[0][0].secret}`,
		`${[0].map(answers, [.answers].map(answers, answers.secret))[0][0]}`,
		`${[0].filter(answers, .answers.secret == "a")}`,
		`${[0].exists(answers, has(.answers.secret))}`,
		`${optional.of(0).optMap(answers, .answers.secret).orValue("")}`,
		`${optional.of(0).optFlatMap(answers, .answers.?secret).orValue("")}`,
		`${["a"].map(self, self + .answers.secret)[0]}`,
	} {
		if tree, err := expr.Compile(text); err != nil || !readsSecret(tree) {
			t.Errorf("%s: the secret is not among what is read (%v)", text, err)
		}
	}
}

func readsSecret(tree *expr.Tree) bool {
	return slices.ContainsFunc(tree.Refs(), func(r expr.Ref) bool { return r.Touches("answers", "secret") })
}

// writer writes expressions that choose by choose.
type writer struct{ choose func(n int) int }

// write gives an expression in which locals may be named, as deep as depth.
func (w writer) write(depth int, locals []string) string {
	leaves := append([]string{
		`answers.secret`, `.answers.secret`, `answers["secret"]`, `.answers["se" + "cret"]`, `answers[.answers.which]`,
		`.answers.?secret.orValue(0)`,
		`answers`, `.answers`, `answers.other`, `.answers.other`, `self.name`, `.self.name`, `.answers.l`,
		`has(.answers.secret)`, `"a"`, `0`,
	}, locals...)
	if depth == 0 {
		return leaves[w.choose(len(leaves))]
	}
	e := func() string { return w.write(depth-1, locals) }
	name := []string{"answers", "self", "x", "y"}[w.choose(4)]
	in := func() string { return w.write(depth-1, append(slices.Clip(locals), name)) }
	switch w.choose(20) {
	case 0:
		return fmt.Sprintf("[%s]", e())
	case 1:
		return fmt.Sprintf("[%s, %s]", e(), e())
	case 2:
		return fmt.Sprintf(`{"secret": %s}`, e()) // of one item: maps have no order
	case 3:
		return fmt.Sprintf("dyn(%s).secret", e())
	case 4:
		return fmt.Sprintf("dyn(%s)[%s]", e(), e())
	case 5:
		return fmt.Sprintf("dyn(%s)[0]", e())
	case 6, 7, 8:
		return fmt.Sprintf("[%s].map(%s, %s)", e(), name, in())
	case 9:
		return fmt.Sprintf("dyn(%s).map(%s, %s)", e(), name, in())
	case 10:
		return fmt.Sprintf("[%s].map(%s, dyn(%s) == %s, %s)", e(), name, in(), in(), in())
	case 11:
		return fmt.Sprintf("[%s].filter(%s, dyn(%s) == %s)", e(), name, in(), in())
	case 12:
		return fmt.Sprintf("[%s].exists_one(%s, dyn(%s) != %s)", e(), name, in(), in())
	case 13:
		return fmt.Sprintf("[%s].all(%s, dyn(%s) == %s)", e(), name, in(), in())
	case 14:
		return fmt.Sprintf(`optional.of(%s).optMap(%s, %s).orValue(0)`, e(), name, in())
	case 15:
		return fmt.Sprintf(`optional.of(%s).optFlatMap(%s, optional.ofNonZeroValue(%s)).orValue(0)`, e(), name, in())
	case 16:
		return fmt.Sprintf("(dyn(%s) == %s ? dyn(%s) : dyn(%s))", e(), e(), e(), e())
	case 17:
		return fmt.Sprintf("size(%s)", e())
	case 18:
		return fmt.Sprintf("(dyn(%s) + %s)", e(), e())
	default:
		return fmt.Sprintf("string(%s)", e())
	}
}

// shows says whether what an expression gives, its errors among it, tells values of the secret from each other; false with
// an expression that does not compile.
func shows(text string) (tree *expr.Tree, differs bool) {
	tree, err := expr.Compile(text)
	if err != nil {
		return nil, false
	}
	var outcomes []string
	for _, secret := range []any{"a", "other", []any{"a", "b"}, nil} {
		answers := map[string]any{"secret": secret, "which": "secret", "other": "b", "l": []any{"c", "d"}}
		if secret == nil {
			delete(answers, "secret")
		}
		value, err := tree.Eval(map[string]any{"answers": answers, "self": map[string]any{"name": "secret"}})
		outcomes = append(outcomes, fmt.Sprintf("%#v %v", value, err))
	}
	return tree, len(slices.Compact(outcomes)) > 1
}

func TestWhatASecretChangesIsKnownToReadIt(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	shown, wrong := 0, 0
	for range 6_000 {
		text := "${" + writer{random.IntN}.write(1+random.IntN(3), nil) + "}"
		tree, differs := shows(text)
		if !differs {
			continue
		}
		if shown++; !readsSecret(tree) && wrong < 10 {
			wrong++
			t.Errorf("%s shows the secret, and reads %v", text, tree.Refs())
		}
	}
	if shown < 500 {
		t.Errorf("only %d of the expressions show the secret: too few to tell anything", shown)
	}
}

func FuzzWhatASecretChangesIsKnownToReadIt(f *testing.F) {
	f.Add([]byte{2, 6, 0, 15, 0, 1})
	f.Fuzz(func(t *testing.T, choices []byte) {
		choose := func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		}
		const deep = 4
		text := "${" + writer{choose}.write(choose(deep), nil) + "}"
		if tree, differs := shows(text); differs && !readsSecret(tree) {
			t.Errorf("%s shows the secret, and reads %v", text, tree.Refs())
		}
	})
}
