package packages

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/expr"
)

// scope is what an expression may read besides workspace, self, installation and cluster.
type scope struct {
	// asking: only the answers to the first so many questions. Otherwise all of them, and what dependencies give.
	asking    bool
	questions int
	// steps: what steps give. step is the one that reads, if it is one.
	steps bool
	step  string
}

// stepRefs are the steps that each step reads from.
type stepRefs map[string][]string

// expressions checks those of a tree. The result is nil when some cannot be compiled.
func (c *checker) expressions(field string, tree any, s scope) *expr.Tree {
	compiled, err := expr.Compile(tree)
	if err != nil {
		for _, one := range single(err) {
			c.badExpression(field, one)
		}
		return nil
	}
	for _, leaf := range compiled.Leaves() {
		for _, r := range leaf.Refs {
			c.reference(field+dotted(tree, leaf.Path), r, s)
		}
	}
	return compiled
}

func single(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

func (c *checker) badExpression(field string, err error) {
	var e *expr.Error
	if !errors.As(err, &e) {
		c.Fault(field, "", "%v", err)
		return
	}
	if e.At != "" && !strings.HasPrefix(e.At, "[") {
		field += "."
	}
	c.Fault(field+e.At, "for ${ itself write $${", "expression %s: %s", yamlstrict.Quote(e.Text), e.Cause())
}

// dotted is the way to a leaf as fields are named.
func dotted(tree any, path []string) string {
	var b strings.Builder
	for _, key := range path {
		switch v := tree.(type) {
		case map[string]any:
			b.WriteString("." + key)
			tree = v[key]
		case []any:
			b.WriteString("[" + key + "]")
			tree = nil
			for i := range v {
				if key == itoa(i) {
					tree = v[i]
				}
			}
		}
	}
	return b.String()
}

// condition checks a when.
func (c *checker) condition(field, text string, s scope) {
	if text == "" {
		return
	}
	if !expr.Whole(text) {
		c.Fault(field, `write ${...} and nothing else, such as "${answers.create}"`, "a condition is one expression")
		return
	}
	c.expressions(field, text, s)
}

// reference checks that what is read can be there.
func (c *checker) reference(field string, r expr.Ref, s scope) {
	names := func(known []string, what string) {
		if len(r.Path) > 1 && !slices.Contains(known, r.Path[1]) {
			c.Fault(field, yamlstrict.DidYouMean(r.Path[1], known, what), "%s reads %s, which does not exist", r, yamlstrict.Quote(r.Path[1]))
		}
	}
	switch r.Path[0] {
	case "answers":
		c.answer(field, r, s)
	case "self":
		names([]string{"name", "version"}, "fields of self")
	case "installation":
		names([]string{"name"}, "fields of installation")
	case "workspace":
		names([]string{"branch", "hubURL", "issuerURL", "name", "repoURL"}, "fields of workspace")
	case "cluster":
		names([]string{"name", "parameters", "tags"}, "fields of cluster")
	case "packages":
		if s.asking {
			c.Fault(field, "use answers, workspace, self, installation or cluster", "%s is not known when questions are asked", r)
			return
		}
		var known []string
		for i := range c.pkg.Spec.Dependencies {
			known = append(known, c.pkg.Spec.Dependencies[i].Key())
		}
		names(known, "dependencies")
		c.outputsOf(field, r, nil)
	case "steps":
		c.stepReference(field, r, s)
	}
}

func (c *checker) answer(field string, r expr.Ref, s scope) {
	known, earlier := []string{}, []string{}
	for i := range c.pkg.Spec.Questions {
		known = append(known, c.pkg.Spec.Questions[i].Name)
		if !s.asking || i < s.questions {
			earlier = append(earlier, c.pkg.Spec.Questions[i].Name)
		}
	}
	switch {
	case len(r.Path) == 1:
		if s.asking {
			c.Fault(field, "name the question: answers.NAME", "answers as a whole are not known while questions are asked")
		}
	case !slices.Contains(known, r.Path[1]):
		c.Fault(field, yamlstrict.DidYouMean(r.Path[1], known, "questions"), "%s reads the answer to %s, which is no question", r, yamlstrict.Quote(r.Path[1]))
	case !slices.Contains(earlier, r.Path[1]):
		c.Fault(field, "move that question before this one", "%s is not answered yet", r)
	case s.asking && strings.HasSuffix(field, ".default") && c.isSecret(r.Path[1]):
		c.Fault(field, "have it answered, or use the answer where it is needed", "a default must not read the secret %s: it would be written down in clear", r)
	}
}

func (c *checker) isSecret(question string) bool {
	return slices.ContainsFunc(c.pkg.Spec.Questions, func(q Question) bool { return q.Name == question && q.Type == TypeSecret })
}

func (c *checker) stepReference(field string, r expr.Ref, s scope) {
	if !s.steps {
		c.Fault(field, "use answers, workspace, self, installation or cluster", "%s is not known before the steps are done", r)
		return
	}
	if len(r.Path) == 1 {
		c.Fault(field, `name the step: steps["NAME"].outputs.OUTPUT`, "steps as a whole cannot be read: what waits for which would not be known")
		return
	}
	var known []string
	for i := range c.pkg.Spec.Steps {
		known = append(known, c.pkg.Spec.Steps[i].Name)
	}
	step, ok := c.pkg.Step(r.Path[1])
	if !ok {
		c.Fault(field, yamlstrict.DidYouMean(r.Path[1], known, "steps"), "%s reads from step %s, which does not exist", r, yamlstrict.Quote(r.Path[1]))
		return
	}
	if s.step != "" {
		c.refs[s.step] = append(c.refs[s.step], step.Name)
	}
	switch step.Kind() {
	case StepTerraform:
		c.outputsOf(field, r, nil)
	case StepWait:
		names := []string{}
		if step.Wait.Object != nil {
			names = slices.Sorted(maps.Keys(step.Wait.Object.Outputs))
		}
		c.outputsOf(field, r, names)
	case "":
	default:
		c.Fault(field, "read them with a wait step on the object that has them", "%s reads outputs of a %s step, which has none", r, step.Kind())
	}
}

// outputsOf checks what follows a step or a dependency: outputs, and one of known where they are.
func (c *checker) outputsOf(field string, r expr.Ref, known []string) {
	if len(r.Path) > 2 && r.Path[2] != "outputs" {
		c.Fault(field, "write .outputs.NAME", "%s has nothing but outputs", strings.Join(r.Path[:2], "."))
		return
	}
	if len(r.Path) > 3 && known != nil && !slices.Contains(known, r.Path[3]) {
		c.Fault(field, yamlstrict.DidYouMean(r.Path[3], known, "outputs"), "%s reads output %s, which does not exist", r, yamlstrict.Quote(r.Path[3]))
	}
}
