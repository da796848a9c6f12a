package packages

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/expr"
)

// Answers are what a package's questions got.
type Answers struct {
	// Values has every question's answer; nil where there is none: not asked, optional, missing, or not known before what is
	// missing is there. A whole number is an int64,
	// a list a []any of texts, a map a map[string]any of texts.
	Values map[string]any
	// Secret are the names of those that are secrets.
	Secret map[string]bool
	// Missing are the questions that somebody has to answer. One with Generate may be answered by Generate.Make.
	Missing []Question
}

// AnswerError is an answer that will not do.
type AnswerError struct {
	// Question is the question's name, Rule what is wrong, Fix what to do.
	Question, Rule, Fix string
}

// Error names question, rule and fix. It tells no answer.
func (e *AnswerError) Error() string {
	return "question " + yamlstrict.Quote(e.Question) + ": " + yamlstrict.Printable(e.Rule) + ": " + yamlstrict.Printable(e.Fix)
}

// Answers judges what was given against the questions, and fills defaults in. Defaults and conditions see facts (the
// variables of workspace/expr besides answers, steps and packages) and the answers to the questions before their own. The
// error holds an *AnswerError for each that will not do, and there are no answers then.
func (p *Package) Answers(given, facts map[string]any) (*Answers, error) {
	a := &Answers{Values: map[string]any{}, Secret: map[string]bool{}}
	vars := maps.Clone(facts)
	if vars == nil {
		vars = map[string]any{}
	}
	vars["answers"] = a.Values
	var faults []error
	unknown := unknown{}
	for i := range p.Spec.Questions {
		if err := a.take(&p.Spec.Questions[i], given, vars, unknown); err != nil {
			faults = append(faults, err)
		}
	}
	faults = append(faults, p.Unasked(given)...)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return a, nil
}

// take finds the answer to one question.
func (a *Answers) take(q *Question, given, vars map[string]any, unknown unknown) error {
	a.Values[q.Name] = nil
	if q.Type == TypeSecret {
		a.Secret[q.Name] = true
	}
	if unknown.readBy(q.When) {
		unknown[q.Name] = true
		return nil
	}
	asked, err := expr.Bool(q.When, vars)
	if err != nil {
		return &AnswerError{q.Name, "its condition cannot be evaluated: " + err.Error(), "answer the questions before it, or tell the package's author"}
	}
	if !asked {
		return nil
	}
	value := given[q.Name]
	if value == nil && unknown.readBy(q.Default) {
		unknown[q.Name] = true
		return nil
	}
	if value == nil {
		if value, err = q.initial(vars); err != nil {
			return err
		}
	}
	switch {
	case value == nil && q.Optional:
		return nil
	case value == nil:
		unknown[q.Name] = true
		a.Missing = append(a.Missing, *q)
		return nil
	}
	judged, rule := q.judge(value)
	if rule != "" {
		return &AnswerError{q.Name, "the answer " + rule, "answer it anew: " + q.Flag()}
	}
	a.Values[q.Name] = judged
	return nil
}

// unknown are the questions whose answers are missing, or not known before what is missing is there.
type unknown map[string]bool

// readBy says whether an expression reads one of them.
func (u unknown) readBy(tree any) bool {
	if len(u) == 0 {
		return false
	}
	compiled, err := expr.Compile(tree)
	if err != nil {
		return false // told by who evaluates it
	}
	return slices.ContainsFunc(compiled.Refs(), func(r expr.Ref) bool {
		return r.Path[0] == "answers" && (len(r.Path) == 1 || u[r.Path[1]])
	})
}

// initial is the default's value; nil when there is none.
func (q *Question) initial(vars map[string]any) (any, error) {
	if q.Default == nil {
		return nil, nil
	}
	tree, err := expr.Compile(q.Default)
	if err != nil {
		return nil, &AnswerError{q.Name, "its default cannot be read: " + err.Error(), "answer it: " + q.Flag()}
	}
	value, err := tree.Eval(vars)
	if err != nil {
		return nil, &AnswerError{q.Name, "its default cannot be evaluated: " + err.Error(), "answer it: " + q.Flag()}
	}
	return value, nil
}

// Unasked are an *AnswerError for each answer to what the package does not ask.
func (p *Package) Unasked(given map[string]any) []error {
	var known []string
	for i := range p.Spec.Questions {
		known = append(known, p.Spec.Questions[i].Name)
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			fix := yamlstrict.DidYouMean(name, known, "questions")
			if fix == "" {
				fix = "plural package show lists the questions"
			}
			faults = append(faults, &AnswerError{name, "the package does not ask it", fix})
		}
	}
	return faults
}

// Question finds a question by name. The result is shared: do not change it.
func (p *Package) Question(name string) (*Question, bool) {
	for i := range p.Spec.Questions {
		if p.Spec.Questions[i].Name == name {
			return &p.Spec.Questions[i], true
		}
	}
	return nil, false
}

// Flag is how the question is answered on a command line. A secret is not: it would stand in the list of processes.
func (q *Question) Flag() string {
	if q.Type == TypeSecret {
		return "write it into a file for --answers"
	}
	return "--set " + q.Name + "="
}

// Ask is what a person is asked.
func (q *Question) Ask() string {
	if q.Prompt != "" {
		return q.Prompt
	}
	return q.Name
}

// Judge is an answer as its type has it; the error is an *AnswerError.
func (q *Question) Judge(value any) (any, error) {
	judged, rule := q.judge(value)
	if rule != "" {
		return nil, &AnswerError{q.Name, "the answer " + rule, "answer it anew: " + q.Flag()}
	}
	return judged, nil
}

// Parse is an answer from a text that a person typed: entries of lists are parted by commas, those of maps are KEY=VALUE. The
// error is an *AnswerError.
func (q *Question) Parse(text string) (any, error) {
	value := any(text)
	switch q.Type {
	case TypeInt:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			value = n
		}
	case TypeNumber:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			value = n
		}
	case TypeBool:
		if b, err := strconv.ParseBool(text); err == nil {
			value = b
		}
	case TypeList:
		value = entries(text)
	case TypeMap:
		m := map[string]any{}
		for _, entry := range entries(text) {
			key, item, ok := strings.Cut(entry.(string), "=")
			if !ok || key == "" {
				return nil, &AnswerError{q.Name, "the answer must be KEY=VALUE, with commas between several", "answer it anew: " + q.Flag()}
			}
			m[key] = item
		}
		value = m
	}
	return q.Judge(value)
}

func entries(text string) []any {
	list := []any{}
	if text == "" {
		return list
	}
	for entry := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(entry))
	}
	return list
}

// How long a secret may be that is made up.
const (
	minGenerated     = 8
	defaultGenerated = 32
	maxGenerated     = 1024
)

// Make makes a secret up.
func (g *Generate) Make() (string, error) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	length := g.Length
	if length == 0 {
		length = defaultGenerated
	}
	secret := make([]byte, length)
	for i := range secret {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", fmt.Errorf("make a secret up: %w", err)
		}
		secret[i] = letters[n.Int64()]
	}
	return string(secret), nil
}
