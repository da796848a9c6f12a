// Package compose owns what an installation of a package becomes in the installation repo.
//
// It refuses to know where packages are found, what was deployed, and git: it reads one state of a repository and says what
// that should be made of.
//
// A World goes in. The package in the installation's payload folder is read, its questions are answered from values.yaml and
// values.secret.yaml, and its steps are evaluated one after the other, each as far as what it reads is known: outputs of steps
// that have not run yet make it wait. What runs on clusters becomes Services of the fleet; what is secret in their values goes
// into sealed files beside them. The same World gives the same bytes, whoever asks; and composing once more, with the result
// in place, changes nothing.
package compose

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

// World is one state of an installation repo. It is read only, and safe for concurrent use.
type World struct {
	Fleet *fleet.Fleet
	// Repo is the repository's root, with sealed files opened as far as there are keys.
	Repo fs.FS
	Lock *lockfile.Lock
	// Stored is the id of the blob that git keeps at a path, empty where it keeps none. It stands in the place of secrets in
	// digests; without it, steps that read a secret have no digest.
	Stored func(path string) (string, error)
	// Blind leaves sealed files that nobody here opens as they are, where they still say what they have to. Otherwise one that
	// is needed is a *LockedError.
	Blind bool

	mu     sync.Mutex // guards what follows
	loaded map[string]*loaded
}

// Values are outputs by name, those that are secret apart.
type Values struct{ Plain, Secret map[string]any }

// Outputs are what steps gave: installation -> step -> outputs.
type Outputs map[string]map[string]Values

// Composed is an installation as far as it can be told.
type Composed struct {
	Name string
	// Package is what lies in the payload folder, Version its own, and PayloadDigest that of the folder.
	Package       *packages.Package
	Version       string
	PayloadDigest string
	// DependsOn are installations, in the order of the package's dependencies.
	DependsOn []string
	// Protected says that it refuses to be removed.
	Protected bool
	Answers   *packages.Answers
	// Steps are sorted so that each comes after those that it needs.
	Steps []Step
	// Files are the generated ones that are not in the repo as they should be: path from the root to content in clear, nil for
	// a file to be removed.
	Files map[string][]byte
	// Outputs are the package's own, as far as they are known.
	Outputs Values
}

// Step is one step of an installation.
type Step struct {
	Name string
	// Kind is Terraform, Service or Wait.
	Kind string
	// Needs are steps of the same package, whether they were named or their outputs are read.
	Needs []string
	// Skipped says that the step's condition is false.
	Skipped bool
	// Waiting are the steps ("INSTALLATION/STEP") whose outputs have to be known first. What follows is empty then.
	Waiting []string
	// Terraform, Services and Wait are evaluated; which of them is set says Kind.
	Terraform *packages.Terraform
	// SecretInputs are the names of terraform's inputs that are secret.
	SecretInputs []string
	Services     []fleet.Service
	Wait         *packages.Wait
	// Digest changes when what the step does changes. It is empty while that cannot be told: the step waits, or a sealed file
	// that it reads is not committed yet.
	Digest string
}

// Kinds of steps.
const (
	Terraform = "terraform"
	Service   = "service"
	Wait      = "wait"
)

// loaded is a package in the repo with its expressions compiled.
type loaded struct{}

// LockedError says that a sealed file is needed that nobody here opens.
type LockedError struct{ Path string }

// Error names the file.
func (e *LockedError) Error() string { return "\"" + e.Path + "\" is sealed, and was not opened" }

// Fix says what to do.
func (e *LockedError) Fix() string { return "plural crypto unlock" }

// MissingError says that questions have no answer.
type MissingError struct {
	Installation string
	Questions    []packages.Question
}

// Error names the questions.
func (e *MissingError) Error() string { return e.Installation }

// Installation composes one installation, and whatever it has to know of those that it depends on. What is wrong with a
// package is a fleet.Errors with places in its payload's files.
func Installation(w *World, name string, known Outputs) (*Composed, error) {
	return nil, errors.ErrUnsupported
}

// All composes every installation of the fleet, each after those that it depends on. The error joins what is wrong with single
// ones, which are left out.
func All(w *World, known Outputs) ([]*Composed, error) { return nil, errors.ErrUnsupported }

// Vendor is a package as it lies in the repo: packages/NAME/payload/**. What git or the sealing would not keep as it is, is an
// error.
func Vendor(payload fs.FS, name string) (map[string][]byte, error) {
	return nil, errors.ErrUnsupported
}

// Upgrade merges the changes from base to next, two versions of a package, into the payload of an installation, which people
// may have changed. It returns what has to be written, with nil for what has to be removed, and the files in conflict.
func Upgrade(repo fs.FS, name string, base, next fs.FS) (changes map[string][]byte, conflicts []string, err error) {
	return nil, nil, errors.ErrUnsupported
}

// Payload is the folder of an installation's package in the repo.
func Payload(name string) string { return "packages/" + name + "/payload" }
