// Package packages owns what a package is, as its author writes it.
//
// It refuses to know where packages are found, which versions fit together, and what is done with them: it reads a folder and
// judges it.
package packages

import (
	"errors"
	"io/fs"

	"github.com/pluralsh/plural/workspace/fleet"
)

var errUnfinished = errors.New("unfinished")

// Load reads the package in a folder. When its author is to blame the error is a fleet.Errors; anything else comes from
// files.
func Load(files fs.FS) (*Package, error) { return nil, errUnfinished }

// Digest is over every file of a package: its path, whether it is executable, and its content.
func Digest(files fs.FS) (string, error) { return "", errUnfinished }

// Answers are what a package's questions got.
type Answers struct {
	// Values has every question's answer; nil where there is none (not asked, optional, missing).
	Values map[string]any
	// Secret are the names of those that are secrets.
	Secret map[string]bool
	// Missing are the questions that somebody has to answer. Those with Generate may be answered by Generate.Make.
	Missing []Question
}

// AnswerError is an answer that will not do.
type AnswerError struct {
	// Question is the question's name, Rule what an answer must be, Fix what to say instead.
	Question, Rule, Fix string
}

// Error names question, rule and fix.
func (e *AnswerError) Error() string { return e.Question + ": " + e.Rule + ": " + e.Fix }

// Answers judges what was given against the questions, and fills defaults in. Defaults and conditions see facts (the
// variables of workspace/expr besides answers, steps and packages) and the answers before their own. The error holds an
// *AnswerError for each that will not do.
func (p *Package) Answers(given map[string]any, facts map[string]any) (*Answers, error) {
	return nil, errUnfinished
}

// Make makes a secret up.
func (g *Generate) Make() string { panic(errUnfinished) }

// BreakingBetween lists what somebody has to agree to before an upgrade from one version to this package's.
func (p *Package) BreakingBetween(from string) []Breaking { return nil }

// Problem is something that Lint found.
type Problem struct {
	*fleet.Error
	// Advice says that the package works in spite of it.
	Advice bool
}

// Lint says everything that Load would, and what would make the package better.
func Lint(files fs.FS) ([]Problem, error) { return nil, errUnfinished }

// Schema is the JSON Schema of package.yaml.
func Schema() []byte { return nil }

// Scaffold is a package to begin with, by path.
func Scaffold(name string) map[string][]byte { return nil }
