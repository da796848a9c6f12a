package pkg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/packs"
)

// maxAnswers bounds a file of answers, in bytes.
const maxAnswers = 1 << 20

// Given are the answers that a command was given.
type Given struct {
	f    *cmdutil.Factory
	set  []string
	file string
	ask  bool
	// otherwise are answers that count where none was given, by installation and question.
	otherwise map[string]map[string]any
	// fromFile is what the file holds, once it was read: standard input is there once.
	fromFile map[string]any
}

// NewGiven are the answers of --set and of a file of --answers, with PACKAGE. before each name.
func NewGiven(f *cmdutil.Factory, set []string, file string) *Given {
	return &Given{f: f, set: set, file: file}
}

// Says says whether a question of an installation was answered.
func (g *Given) Says(installation, question string) (bool, error) {
	texts, values, err := g.read("")
	_, text := texts[installation][question]
	_, value := values[installation][question]
	return text || value, err
}

// Otherwise gives answers of an installation that count where none was given.
func (g *Given) Otherwise(installation string, answers map[string]any) {
	if g.otherwise == nil {
		g.otherwise = map[string]map[string]any{}
	}
	g.otherwise[installation] = answers
}

func (g *Given) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&g.set, "set", nil, "answer a question: `NAME=VALUE` or PACKAGE.NAME=VALUE; may be repeated")
	flags.StringVar(&g.file, "answers", "", "a `FILE` of answers in YAML; - is stdin")
	flags.BoolVar(&g.ask, "ask", false, "ask also what has a default")
}

// read gives the answers by installation and question: texts of flags as they are, to be parsed by their questions, and values
// of the file. main is the installation that names without a package are meant for; empty when that is not clear.
func (g *Given) read(main string) (texts map[string]map[string]string, values map[string]map[string]any, err error) {
	texts, values = map[string]map[string]string{}, map[string]map[string]any{}
	where := func(name string) (string, string, error) {
		installation, question, dotted := strings.Cut(name, ".")
		switch {
		case dotted:
			return installation, question, nil
		case main == "":
			return "", "", &ui.Err{
				Msg: fmt.Sprintf("of which package is the question %q?", name), Fix: "PACKAGE." + name, Doc: ui.DocPackageAnswers,
			}
		}
		return main, name, nil
	}
	for _, text := range g.set {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, nil, &ui.Err{
				Msg: fmt.Sprintf("%q answers nothing", name), Fix: "--set NAME=VALUE", Doc: ui.DocPackageAnswers,
			}
		}
		installation, question, err := where(name)
		if err != nil {
			return nil, nil, err
		}
		if texts[installation] == nil {
			texts[installation] = map[string]string{}
		}
		texts[installation][question] = value
	}
	fromFile, err := g.readFile()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fromFile)) {
		installation, question, err := where(name)
		if err != nil {
			return nil, nil, err
		}
		if values[installation] == nil {
			values[installation] = map[string]any{}
		}
		values[installation][question] = fromFile[name]
	}
	return texts, values, nil
}

func (g *Given) readFile() (map[string]any, error) {
	if g.file == "" || g.fromFile != nil {
		return g.fromFile, nil
	}
	in := g.f.IO.In
	if g.file != "-" {
		file, err := os.Open(g.file)
		if err != nil {
			return nil, &ui.Err{
				Msg: "cannot read the answers", Cause: err.Error(), Fix: "--answers FILE", Doc: ui.DocPackageAnswers, Err: err,
			}
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxAnswers+1))
	if err != nil {
		return nil, fmt.Errorf("read answers: %w", err)
	}
	if len(text) > maxAnswers {
		return nil, &ui.Err{Msg: fmt.Sprintf("the answers are larger than %d MiB", maxAnswers>>20), Fix: "give only what the package asks for: plural package show NAME", Doc: ui.DocPackageAnswers}
	}
	var answers map[string]any
	if err := yaml.Unmarshal(text, &answers); err != nil {
		// The library quotes what it could not read, which may be a secret.
		return nil, &ui.Err{
			Msg: "the answers are no mapping of YAML", Fix: "write them as NAME: VALUE, one a line", Doc: ui.DocPackageAnswers,
		}
	}
	g.fromFile = answers
	return answers, nil
}

// parsed are an installation's answers.
func parsed(p *packages.Package, texts map[string]string, values map[string]any) (map[string]any, error) {
	all := maps.Clone(values)
	if all == nil {
		all = map[string]any{}
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		q, asked := p.Question(name)
		switch {
		case !asked:
			all[name] = texts[name] // the package says what it does ask
			continue
		case q.Type == packages.TypeSecret:
			faults = append(faults, &packages.AnswerError{
				Question: name, Rule: "a secret on the command line is there for everybody to read", Fix: q.Flag(),
			})
			continue
		}
		value, err := q.Parse(texts[name])
		if err != nil {
			faults = append(faults, err)
			continue
		}
		all[name] = value
	}
	if len(faults) > 0 {
		faults = append(faults, p.Unasked(all)...) // all at once
	}
	return all, errors.Join(faults...)
}

// answer answers the questions of what a proposal changes. main is the installation that was asked for, if it was one.
func (g *Given) answer(ctx context.Context, p *packs.Proposal, main string) error {
	texts, values, err := g.read(main)
	if err != nil {
		return err
	}
	var problems []ui.Problem
	answers := map[string]map[string]any{}
	for _, pick := range p.Changed() {
		all, err := parsed(pick.Package, texts[pick.As], g.with(pick.As, values[pick.As]))
		delete(texts, pick.As)
		delete(values, pick.As)
		if err == nil {
			all, err = g.complete(ctx, p, pick, all)
		}
		if err != nil {
			var open *openError
			switch {
			case errors.As(err, &open):
				problems = append(problems, open.problems(main)...)
				continue
			case isAnswer(err):
				problems = append(problems, wrong(pick.As, err)...)
				continue
			}
			return err
		}
		answers[pick.As] = all
	}
	for _, name := range slices.Sorted(maps.Keys(merged(texts, values))) {
		problems = append(problems, ui.Problem{Where: name, Message: "answers for a package that does not change", Fix: "plural package set " + name})
	}
	if len(problems) > 0 {
		return unanswered(problems)
	}
	for _, pick := range p.Changed() {
		if err := p.Answer(pick, answers[pick.As]); err != nil {
			return err
		}
	}
	return nil
}

// with are an installation's answers of the file, and those that count otherwise; those of flags go before both.
func (g *Given) with(installation string, values map[string]any) map[string]any {
	all := maps.Clone(g.otherwise[installation])
	if all == nil {
		return values
	}
	maps.Copy(all, values)
	return all
}

func merged(texts map[string]map[string]string, values map[string]map[string]any) map[string]bool {
	all := map[string]bool{}
	for name := range texts {
		all[name] = true
	}
	for name := range values {
		all[name] = true
	}
	return all
}

// unanswered is the error about questions that nothing answers, or not as they ask.
func unanswered(problems []ui.Problem) error {
	what := "a question has no good answer"
	if len(problems) > 1 {
		what = fmt.Sprintf("%d questions have no good answer", len(problems))
	}
	return &ui.Err{Msg: what, Problems: problems, Doc: ui.DocPackageAnswers}
}

func isAnswer(err error) bool {
	var one *packages.AnswerError
	return errors.As(err, &one)
}

// wrong are answers that will not do, each of them.
func wrong(installation string, err error) []ui.Problem {
	list := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		list = many.Unwrap()
	}
	var problems []ui.Problem
	for _, one := range list {
		var fault *packages.AnswerError
		if errors.As(one, &fault) {
			problems = append(problems, ui.Problem{Where: installation + "." + fault.Question, Message: fault.Rule, Fix: fault.Fix})
		}
	}
	return problems
}

// openError says that questions have no answer, and that nobody can be asked.
type openError struct {
	installation string
	questions    []packages.Question
}

func (e *openError) Error() string {
	return fmt.Sprintf("%d questions have no answer", len(e.questions))
}

func (e *openError) problems(main string) []ui.Problem {
	var problems []ui.Problem
	for i := range e.questions {
		q := &e.questions[i]
		fix := q.Flag()
		if e.installation != main && q.Type != packages.TypeSecret {
			fix = "--set " + e.installation + "." + q.Name + "="
		}
		problems = append(problems, ui.Problem{Where: e.installation + "." + q.Name, Message: "no answer to: " + q.Ask(), Fix: fix})
	}
	return problems
}

// complete asks for what is missing, where somebody can be asked.
func (g *Given) complete(ctx context.Context, p *packs.Proposal, pick *packs.Pick, all map[string]any) (map[string]any, error) {
	asked := map[string]bool{}
	for {
		answers, err := p.Judge(pick, all)
		if err != nil {
			return nil, err
		}
		open := slices.DeleteFunc(slices.Clone(answers.Missing), func(q packages.Question) bool { return q.Generate != nil })
		next := g.next(pick.Package, answers, open, all, asked)
		switch {
		case next == nil:
			return all, nil
		case !g.f.Prompter().Able():
			return nil, &openError{pick.As, open}
		}
		asked[next.Name] = true
		value, err := g.askOne(ctx, pick, next, answers.Values[next.Name])
		if err != nil {
			return nil, err
		}
		if value != nil {
			all[next.Name] = value
		}
	}
}

// next is the question to be asked next: the first that is missing or, with --ask, the first that was not answered yet.
func (g *Given) next(p *packages.Package, a *packages.Answers, open []packages.Question, all map[string]any, asked map[string]bool) *packages.Question {
	if g.ask && g.f.Prompter().Able() {
		for i := range p.Spec.Questions {
			q := &p.Spec.Questions[i]
			_, answered := all[q.Name]
			missing := slices.ContainsFunc(a.Missing, func(m packages.Question) bool { return m.Name == q.Name })
			if !answered && !asked[q.Name] && (missing || a.Values[q.Name] != nil) {
				return q
			}
		}
	}
	for i := range open {
		if !asked[open[i].Name] || g.f.Prompter().Able() {
			return &open[i]
		}
	}
	return nil
}

// askOne asks one question on the terminal. What is typed as it was proposed, or nothing, leaves the default.
func (g *Given) askOne(ctx context.Context, pick *packs.Pick, q *packages.Question, proposed any) (any, error) {
	text := ""
	if proposed != nil {
		text = written(proposed)
	}
	before := text
	var help []string
	if q.Help != "" {
		help = append(help, ui.Clean(q.Help))
	}
	if q.Type == packages.TypeEnum {
		help = append(help, "one of "+strings.Join(q.Options, ", "))
	}
	err := g.f.Prompter().Ask(ctx, []ui.Question{{
		Flag: "set " + pick.As + "." + q.Name + "=", Title: pick.As + ": " + ui.Clean(q.Ask()), Help: strings.Join(help, "; "),
		Value: &text, Secret: q.Type == packages.TypeSecret, Optional: proposed != nil || q.Optional,
		Check: func(typed string) error {
			if typed == before && proposed != nil || typed == "" && q.Generate != nil {
				return nil
			}
			_, err := q.Parse(typed)
			var fault *packages.AnswerError
			if errors.As(err, &fault) {
				return errors.New(fault.Rule)
			}
			return err
		},
	}})
	if err != nil || text == before && proposed != nil || text == "" && q.Generate != nil {
		return nil, err
	}
	return q.Parse(text)
}

// written is a value as somebody would type it.
func written(value any) string {
	switch v := value.(type) {
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = fmt.Sprint(v[i])
		}
		return strings.Join(parts, ",")
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, fmt.Sprintf("%s=%v", key, v[key]))
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value)
}
