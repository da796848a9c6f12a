// Package compose owns the Services that an installation of a package becomes.
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
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

// World is one state of an installation repo. It is read only, and safe for concurrent use; what it has read it remembers.
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
	loaded map[string]func() (*loaded, error)
	policy func() (*policy.Policy, error)
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
	// that it reads is not committed as it should be.
	Digest string
}

// Kinds of steps.
const (
	Terraform = "terraform"
	Service   = "service"
	Wait      = "wait"
)

// Installation composes one installation, and whatever it has to know of those that it depends on. What is wrong with a
// package or its answers is a fleet.Errors with places in the repo, or one of the errors of this package.
func Installation(w *World, name string, known Outputs) (*Composed, error) {
	r, err := (&composer{w: w, known: known, done: map[string]*result{}, brought: map[string]*brought{}}).installation(name)
	if err != nil {
		return nil, err
	}
	return r.composed, nil
}

// All composes every installation of the fleet, each after those that it depends on. The error joins what is wrong with single
// ones, which are left out together with those that depend on them.
func All(w *World, known Outputs) ([]*Composed, error) {
	w.loadAll()
	c := &composer{w: w, known: known, done: map[string]*result{}, brought: map[string]*brought{}}
	for i := range w.Fleet.Installations {
		if _, err := c.installation(w.Fleet.Installations[i].Metadata.Name); err != nil {
			continue // it is among the faults, or what it depends on is
		}
	}
	return c.order, errors.Join(c.faults...)
}

// composer composes installations, each once.
type composer struct {
	w     *World
	known Outputs
	done  map[string]*result
	// order are those that could be composed; faults say why others could not.
	order  []*Composed
	faults []error
	// brought are Sources that the fleet has not, by name.
	brought map[string]*brought
	// open are the installations that are being composed, each for the one before it.
	open []string
}

// result is what others have to know of a composed installation.
type result struct {
	composed *Composed
	err      error
	outputs  map[string]output
	// services are those that are, or will be, in the fleet; waiting are steps without which there are none yet.
	services []fleet.Service
	waiting  []string
	// shut are sealed files that could not be opened.
	shut []string
}

// output is one of a package's own.
type output struct {
	value   any
	secret  bool
	files   []string // sealed ones that it comes from
	waiting []string
}

// installation composes one, and before it those that it depends on.
func (c *composer) installation(name string) (*result, error) {
	if r, ok := c.done[name]; ok {
		return r, r.err
	}
	if at := slices.Index(c.open, name); at >= 0 {
		err := fleet.Errors{{
			Position: fleet.Position{File: lockfile.File},
			Message:  "packages depend on each other: " + strings.Join(append(slices.Clone(c.open[at:]), name), " -> "),
			Fix:      "plural package remove one of them, or choose another for its dependency",
		}}
		c.faults = append(c.faults, err)
		return nil, err
	}
	c.open = append(c.open, name)
	r := &result{outputs: map[string]output{}}
	r.err = c.compose(name, r)
	c.open = c.open[:len(c.open)-1]
	c.done[name] = r
	switch blocked := new(blockedError); {
	case errors.As(r.err, &blocked):
		r.err = blocked.err
	case r.err != nil:
		c.faults = append(c.faults, r.err)
	}
	if r.err != nil {
		return r, r.err
	}
	c.order = append(c.order, r.composed)
	return r, nil
}

// blockedError says that an installation depends on one that cannot be composed.
type blockedError struct{ err error }

func (e *blockedError) Error() string { return e.err.Error() }

// compose fills the result.
func (c *composer) compose(name string, r *result) error {
	in, ok := c.w.Fleet.Installation(name)
	if !ok {
		return &UnknownError{Installation: name}
	}
	l, err := c.w.load(name)
	if err != nil {
		return err
	}
	entry, err := c.w.locked(in, l)
	if err != nil {
		return err
	}
	one := &installing{composer: c, in: in, loaded: l, result: r, scope: &scope{vars: c.w.facts(name, l.pkg)}}
	r.composed = &Composed{
		Name: name, Package: l.pkg, Version: l.pkg.Spec.Version, PayloadDigest: l.digest,
		Protected: in.Spec.Protected || l.pkg.Spec.Protected, Files: map[string][]byte{},
	}
	return firstError(
		func() error { return one.dependencies(entry) },
		one.answers,
		one.readOutputs,
		one.steps,
		one.ownOutputs,
		one.application,
		one.files,
	)
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// installing is the composition of one installation.
type installing struct {
	*composer
	in     *fleet.Installation
	loaded *loaded
	result *result
	scope  *scope
	// upon are the results of those that it depends on.
	upon []*result
	// given is what each step gave, as far as it is known.
	given map[string]Values
	// services are those of each step that has one.
	services map[string]fleet.Service
	// documents are what services.yaml holds, by step.
	documents map[string][]byte
	// sealed are the wanted sealed files; a nil content stays as it is.
	sealed map[string][]byte
}

// name is the installation's.
func (i *installing) name() string { return i.in.Metadata.Name }

// path is that of a file of the installation.
func (i *installing) path(file string) string { return "packages/" + i.name() + "/" + file }

// dependencies composes what the installation depends on, and lets expressions see their outputs.
func (i *installing) dependencies(entry *lockfile.Entry) error {
	seen := map[string]any{}
	i.scope.vars["packages"] = seen
	for n := range i.loaded.pkg.Spec.Dependencies {
		d := &i.loaded.pkg.Spec.Dependencies[n]
		by := entry.Requires[d.Key()]
		outputs := map[string]any{}
		seen[d.Key()] = map[string]any{"outputs": outputs}
		if by == "" {
			if d.Optional {
				continue
			}
			return &LockError{Installation: i.name(), Message: fmt.Sprintf("nothing satisfies its dependency %q", d.Key())}
		}
		r, err := i.installation(by)
		if err != nil {
			return &blockedError{err}
		}
		if !slices.Contains(i.result.composed.DependsOn, by) {
			i.result.composed.DependsOn = append(i.result.composed.DependsOn, by)
			i.upon = append(i.upon, r)
		}
		i.scope.shut = append(i.scope.shut, r.shut...)
		for _, name := range slices.Sorted(maps.Keys(r.outputs)) {
			o := r.outputs[name]
			at := []string{"packages", d.Key(), "outputs", name}
			if len(o.waiting) > 0 {
				i.scope.unknown = append(i.scope.unknown, pending{at, o.waiting})
				continue
			}
			outputs[name] = o.value
			if o.secret {
				i.scope.secrets = append(i.scope.secrets, origin{at, o.files})
			}
		}
	}
	return nil
}

// facts are what expressions know besides answers and outputs.
func (w *World) facts(name string, p *packages.Package) map[string]any {
	ws := &w.Fleet.Workspace
	facts := map[string]any{
		"workspace": map[string]any{
			"name": ws.Metadata.Name, "hubURL": ws.Spec.Hub.URL, "issuerURL": ws.Issuer(),
			"repoURL": ws.Spec.Repo.URL, "branch": ws.Spec.Repo.Branch,
		},
		"self":         map[string]any{"name": p.Metadata.Name, "version": p.Spec.Version},
		"installation": map[string]any{"name": name},
	}
	cluster := map[string]any{"name": "", "tags": map[string]any{}, "parameters": map[string]any{}}
	if c, ok := w.Fleet.Cluster(ws.Spec.Management); ok {
		cluster = map[string]any{"name": c.Metadata.Name, "tags": texts(c.Spec.Tags), "parameters": texts(c.Spec.Parameters)}
	}
	facts["cluster"] = cluster
	return facts
}

func texts(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		out[key] = value
	}
	return out
}
