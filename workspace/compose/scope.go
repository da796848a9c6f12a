package compose

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
)

// scope is what the expressions of one installation can read.
type scope struct {
	vars    map[string]any
	secrets []origin
	unknown []pending
	// shut are sealed files that could not be opened: values that come from them are not in vars.
	shut []string
}

// origin says that what stands at a path is secret, and which sealed files it comes from.
type origin struct{ path, files []string }

// pending says that what stands at a path is not known before steps have run.
type pending struct{ path, steps []string }

// reading is what an expression, or several, would read.
type reading struct {
	waiting []string
	// secret says that something of it is, and files are where it comes from.
	secret bool
	files  []string
	// called are paths of what is called secret, and comes from nothing that is.
	called [][]string
}

func (s *scope) reads(refs []expr.Ref) reading {
	var r reading
	for _, ref := range refs {
		for _, p := range s.unknown {
			if ref.Touches(p.path...) {
				r.waiting = append(r.waiting, p.steps...)
			}
		}
		for _, o := range s.secrets {
			if ref.Touches(o.path...) {
				r.secret = true
				r.files = append(r.files, o.files...)
				if len(o.files) == 0 {
					r.called = append(r.called, o.path)
				}
			}
		}
	}
	r.waiting, r.files = sorted(r.waiting), sorted(r.files)
	return r
}

func sorted(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// isSecret is the scope's judgement for errors of expressions.
func (s *scope) isSecret(ref expr.Ref) bool { return s.reads([]expr.Ref{ref}).secret }

// locked is the first of the files that could not be opened, or "".
func (s *scope) locked(files []string) string {
	for _, file := range files {
		if slices.Contains(s.shut, file) {
			return file
		}
	}
	return ""
}

// evaluated is a tree with values.
type evaluated struct {
	reading
	value any
	// leaves are the paths of texts that read something secret. Where that could not be opened, they hold nothing.
	leaves [][]string
}

// writing says how texts are written that have values of expressions in them: secret are the leaves that read a secret.
type writing func(raw any, secret [][]string) func(path []string, parts []expr.Part) (string, error)

// eval evaluates a tree, unless it has to wait. What reads a file that could not be opened is a *LockedError, or becomes nothing.
func (s *scope) eval(raw any, t *expr.Tree, blind bool, write writing) (evaluated, error) {
	out := evaluated{reading: s.reads(t.Refs())}
	if len(out.waiting) > 0 {
		return out, nil
	}
	shut := false
	for _, leaf := range t.Leaves() {
		if r := s.reads(leaf.Refs); r.secret {
			out.leaves = append(out.leaves, leaf.Path)
			if file := s.locked(r.files); file != "" {
				if !blind {
					return out, &LockedError{file}
				}
				raw, shut = without(raw, leaf.Path), true
			}
		}
	}
	if shut {
		var err error
		if t, err = expr.Compile(raw); err != nil {
			return out, err
		}
	}
	var err error
	o := expr.Options{Secret: s.isSecret}
	if write != nil {
		o.Text = write(raw, out.leaves)
	}
	out.value, err = t.EvalWith(s.vars, o)
	return out, err
}

// without is a tree with nothing at a path.
func without(tree any, path []string) any {
	if len(path) == 0 {
		return nil
	}
	switch v := tree.(type) {
	case map[string]any:
		v = maps.Clone(v)
		v[path[0]] = without(v[path[0]], path[1:])
		return v
	case []any:
		v = slices.Clone(v)
		for i := range v {
			if fmt.Sprint(i) == path[0] {
				v[i] = without(v[i], path[1:])
			}
		}
		return v
	}
	return tree
}

// answers reads what people answered, and lets the package judge it.
func (i *installing) answers() error {
	given, fields, err := i.values("values.yaml")
	if err != nil {
		return err
	}
	file := i.path("values.secret.yaml")
	secret, secretFields, err := i.values("values.secret.yaml")
	var locked *LockedError
	if errors.As(err, &locked) && i.w.Blind {
		i.scope.shut = append(i.scope.shut, file)
		return i.judge(given, fields, file)
	}
	if err != nil {
		return err
	}
	for name, value := range secret {
		if _, twice := given[name]; twice {
			return fleet.Errors{{
				Position: secretFields[name], Message: fmt.Sprintf("%q is answered in values.yaml too", name), Fix: "remove one of them",
			}}
		}
		given[name] = value
		fields[name] = secretFields[name]
	}
	for name := range given {
		if q, ok := i.loaded.pkg.Question(name); ok && q.Type == packages.TypeSecret && secret[name] == nil && given[name] != nil {
			return fleet.Errors{{
				Position: fields[name], Message: fmt.Sprintf("the answer to %q is a secret, and stands in clear", name),
				Fix: "move it to values.secret.yaml, and let it be changed where it is used: the history keeps it",
			}}
		}
	}
	return i.judge(given, fields, file)
}

// values reads a plain mapping; a file that is not there has nothing in it.
func (i *installing) values(file string) (map[string]any, map[string]fleet.Position, error) {
	values, fields, _, err := i.w.mapping(i.path(file))
	return values, fields, err
}

// mapping reads a plain mapping of one document.
func (w *World) mapping(name string) (values map[string]any, fields map[string]fleet.Position, there bool, err error) {
	values = map[string]any{}
	text, err := fs.ReadFile(w.Repo, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return values, map[string]fleet.Position{}, false, nil
	case err != nil:
		return nil, nil, false, fmt.Errorf("read %q: %w", name, err)
	case seal.IsSealed(text):
		return nil, nil, true, &LockedError{name}
	case len(text) > fleet.MaxFile:
		at := fleet.Position{File: name}
		return nil, nil, true, fleet.Errors{{Position: at, Message: fmt.Sprintf("file is larger than %d MiB", fleet.MaxFile>>20)}}
	}
	values, fields, err = parseMapping(name, text)
	return values, fields, true, err
}

func parseMapping(name string, text []byte) (map[string]any, map[string]fleet.Position, error) {
	values, fields := map[string]any{}, map[string]fleet.Position{}
	faults, first := &yamlstrict.Faults{}, true
	yamlstrict.Read(name, text, faults, func(d *yamlstrict.Document) bool {
		switch {
		case d.Root == nil:
		case !first:
			d.Fault("", "put everything into the first", "a second document")
			return false
		default:
			first = false
			d.Decode(&values)
			fields = d.Fields
		}
		return true
	})
	return values, fields, faults.Err()
}

// judge takes answers up into the scope. file is where secret ones come from.
func (i *installing) judge(given map[string]any, fields map[string]fleet.Position, file string) error {
	p := i.loaded.pkg
	shut := i.scope.locked([]string{file}) != ""
	if shut {
		var err error
		if p, err = i.unseen(given, file); err != nil {
			return err
		}
	}
	answers, err := p.Answers(given, i.scope.vars)
	if err != nil {
		return i.badAnswers(err, fields)
	}
	if len(answers.Missing) > 0 {
		return &MissingError{i.name(), answers.Missing}
	}
	for name := range answers.Secret {
		i.scope.secrets = append(i.scope.secrets, origin{[]string{"answers", name}, []string{file}})
		if shut {
			answers.Values[name] = nil
		}
	}
	slices.SortFunc(i.scope.secrets, func(a, b origin) int { return slices.Compare(a.path, b.path) })
	i.scope.vars["answers"] = answers.Values
	i.result.composed.Answers = answers
	return nil
}

// unseen is the package with secret questions that take any answer, and gives them one that nobody reads. What would depend on
// the real one is a *LockedError.
func (i *installing) unseen(given map[string]any, file string) (*packages.Package, error) {
	p := *i.loaded.pkg
	p.Spec.Questions = slices.Clone(p.Spec.Questions)
	for n := range p.Spec.Questions {
		q := &p.Spec.Questions[n]
		for _, text := range []any{q.When, q.Default} {
			t, err := expr.Compile(text)
			if err != nil {
				return nil, i.loaded.fault(fmt.Sprintf("spec.questions[%d]", n), "", "%v", err)
			}
			for _, ref := range t.Refs() {
				if s, ok := p.Question(last(ref.Path)); ok && ref.Touches("answers", s.Name) && s.Type == packages.TypeSecret {
					return nil, &LockedError{file}
				}
			}
		}
		if q.Type == packages.TypeSecret {
			q.Pattern, q.Min, q.Max = "", nil, nil
			given[q.Name] = "sealed"
		}
	}
	return &p, nil
}

// last is the question that a reference to an answer names.
func last(path []string) string {
	if len(path) < 2 || path[0] != "answers" {
		return ""
	}
	return path[1]
}

// badAnswers sets the place of each answer that will not do before it.
func (i *installing) badAnswers(err error, fields map[string]fleet.Position) error {
	all := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		all = joined.Unwrap()
	}
	var faults []error
	for _, one := range all {
		var bad *packages.AnswerError
		if !errors.As(one, &bad) {
			return fmt.Errorf("answers of package %s: %w", i.name(), err)
		}
		at, ok := fields[bad.Question]
		if !ok {
			at = fleet.Position{File: i.path("values.yaml")}
		}
		faults = append(faults, &AnswerError{Position: at, AnswerError: bad})
	}
	return errors.Join(faults...)
}

// AnswerError is an answer that will not do, and where it is written.
type AnswerError struct {
	fleet.Position
	*packages.AnswerError
}

// Error names the place, the question and the rule.
func (e *AnswerError) Error() string { return e.Position.String() + ": " + e.AnswerError.Error() }

// Unwrap is what the package says.
func (e *AnswerError) Unwrap() error { return e.AnswerError }
