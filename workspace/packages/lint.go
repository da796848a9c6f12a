package packages

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Problem is something that Lint found.
type Problem struct {
	*fleet.Error
	// Advice says that the package works in spite of it.
	Advice bool
}

// Lint says everything that Load would, and what would make the package better, sorted by place. The error is one of
// reading.
func Lint(files fs.FS) ([]Problem, error) {
	p, faults, err := read(files)
	if err != nil {
		return nil, err
	}
	problems := hard(faults.Err())
	if _, err := Contents(files); err != nil {
		var mistakes fleet.Errors
		if !errors.As(err, &mistakes) {
			return nil, err
		}
		problems = append(problems, hard(err)...)
	}
	if p == nil {
		return problems, nil
	}
	advice := &yamlstrict.Faults{}
	p.advise(advice)
	if _, err := fs.Stat(files, "README.md"); errors.Is(err, fs.ErrNotExist) {
		advice.Add(fleet.Position{File: "README.md"}, "say what the package installs, and how it is looked after", "there is no README.md")
	}
	for _, one := range mistakesOf(advice.Err()) {
		problems = append(problems, Problem{one, true})
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems, nil
}

func hard(err error) []Problem {
	var problems []Problem
	for _, one := range mistakesOf(err) {
		problems = append(problems, Problem{one, false})
	}
	return problems
}

// mistakesOf are the mistakes of an error.
func mistakesOf(err error) fleet.Errors {
	var mistakes fleet.Errors
	errors.As(err, &mistakes)
	return mistakes
}

var (
	// secretive are names of what is mostly a secret.
	secretive = regexp.MustCompile(`(?i)(password|passwd|secret|token|apikey|privatekey|credential)`)
	// floating is an image that means another one every day.
	floating = regexp.MustCompile(`^[\w./:-]+:(latest|main|master|edge|nightly)$`)
)

// advise says what would make a package better.
func (p *Package) advise(out *yamlstrict.Faults) {
	add := func(field, fix, format string, args ...any) { out.Add(p.Place(field), fix, format, args...) }
	if p.Spec.Description == "" {
		add("spec", "add description: what the package is for, on one line", "there is no description")
	}
	if len(p.Spec.Steps) == 0 && len(p.Spec.Dependencies) == 0 {
		add("spec", "add steps, or dependencies", "the package does nothing")
	}
	read := p.answersRead()
	for i := range p.Spec.Questions {
		q, field := &p.Spec.Questions[i], fmt.Sprintf("spec.questions[%d]", i)
		switch {
		case q.Type != TypeSecret && q.Type != TypeBool && secretive.MatchString(q.Name) && q.Options == nil && !strings.HasSuffix(strings.TrimSuffix(q.Name, "s"), "Secret"):
			add(field+".type", "make it a secret, so that its answer is sealed", "question %s sounds like a secret", yamlstrict.Quote(q.Name))
		case !read["*"] && !read[q.Name]:
			add(field, "remove it, or use answers."+q.Name, "nothing reads the answer to %s", yamlstrict.Quote(q.Name))
		case q.Prompt == "" && q.Default == nil && q.Generate == nil:
			add(field, "add prompt: what a person is asked", "question %s has no prompt", yamlstrict.Quote(q.Name))
		}
	}
	for i := range p.Spec.Steps {
		p.adviseStep(fmt.Sprintf("spec.steps[%d]", i), &p.Spec.Steps[i], add)
	}
	for name := range p.Spec.Outputs {
		if p.Spec.Outputs[name].Description == "" {
			add("spec.outputs."+name, "add description", "output %s does not say what it is", yamlstrict.Quote(name))
		}
	}
}

func (p *Package) adviseStep(field string, s *Step, add func(field, fix, format string, args ...any)) {
	if s.Terraform != nil && s.Terraform.Version == "" {
		add(field+".terraform", `add version: ">=1.5"`, "any version of terraform would be taken")
	}
	if s.Helm != nil && s.Helm.Namespace == "" {
		add(field+".helm", "add namespace", "the chart goes into no namespace of its own")
	}
	walk(tree(parts(s)), field+"."+s.Kind(), func(at, text string) {
		if floating.MatchString(text) {
			add(at, "name a version", "image %s means another one every day", yamlstrict.Quote(text))
		}
	})
}

// parts is what a step does.
func parts(s *Step) any {
	switch {
	case s.Terraform != nil:
		return s.Terraform
	case s.Helm != nil:
		return s.Helm
	case s.Manifests != nil:
		return s.Manifests
	case s.Service != nil:
		return s.Service
	}
	return s.Wait
}

// walk calls each for every text of a tree, with its dotted path.
func walk(v any, at string, each func(at, text string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			walk(item, at+"."+key, each)
		}
	case []any:
		for i, item := range v {
			walk(item, fmt.Sprintf("%s[%d]", at, i), each)
		}
	case string:
		each(at, v)
	}
}

// answersRead are the questions whose answers some expression reads; "*" when any may be.
func (p *Package) answersRead() map[string]bool {
	read := map[string]bool{}
	note := func(v any) {
		compiled, err := expr.Compile(v)
		if err != nil {
			return // reported as a mistake
		}
		for _, r := range compiled.Refs() {
			switch {
			case r.Path[0] == "answers" && len(r.Path) > 1:
				read[r.Path[1]] = true
			case r.Path[0] == "answers":
				read["*"] = true
			}
		}
	}
	for i := range p.Spec.Questions {
		note(p.Spec.Questions[i].When)
		note(p.Spec.Questions[i].Default)
	}
	for i := range p.Spec.Steps {
		note(p.Spec.Steps[i].When)
		note(tree(parts(&p.Spec.Steps[i])))
	}
	if o := p.Spec.OIDC; o != nil {
		note(o.When)
		note(o.Secret)
		note(o.Spec)
	}
	for name := range p.Spec.Outputs {
		note(p.Spec.Outputs[name].Value)
	}
	return read
}
