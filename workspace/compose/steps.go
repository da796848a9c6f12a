package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
)

// steps evaluates all steps in the order of their needs.
func (i *installing) steps() error {
	i.services, i.documents = map[string]fleet.Service{}, map[string][]byte{}
	if err := i.readDocuments(); err != nil {
		return err
	}
	for _, p := range i.loaded.steps {
		s := Step{Name: p.step.Name, Kind: kindOf(p.step), Needs: p.needs}
		if err := i.step(p, &s); err != nil {
			return err
		}
		i.learnFrom(p, &s)
		i.result.composed.Steps = append(i.result.composed.Steps, s)
	}
	for step := range i.documents {
		if !i.wanted(step) {
			delete(i.documents, step)
		}
	}
	return nil
}

// wanted says whether a step's document belongs into services.yaml: it is made anew, or waits to be.
func (i *installing) wanted(step string) bool {
	return slices.ContainsFunc(i.result.composed.Steps, func(s Step) bool {
		return s.Name == step && s.Kind == Service && !s.Skipped
	})
}

func kindOf(s *packages.Step) string {
	switch {
	case s.Terraform != nil:
		return Terraform
	case s.Wait != nil:
		return Wait
	}
	return Service
}

func (i *installing) step(p *part, s *Step) error {
	skipped, waiting, err := i.condition(p)
	if err != nil {
		return err
	}
	if s.Skipped = skipped; skipped {
		return nil
	}
	if len(waiting) > 0 {
		s.Waiting = waiting
		return i.keepWaiting(p, s)
	}
	var write writing
	if s.Kind == Service {
		write = braces
	}
	got, err := i.scope.eval(p.raw, p.tree, i.w.Blind, write)
	if err != nil {
		return i.evaluation(p, err)
	}
	if s.Kind == Service {
		got.waiting = sorted(append(got.waiting, i.waitingServices(p)...))
	}
	if s.Waiting = got.waiting; len(s.Waiting) > 0 {
		return i.keepWaiting(p, s)
	}
	switch s.Kind {
	case Terraform:
		return i.terraform(p, s, got)
	case Wait:
		return i.wait(p, s, got)
	}
	return i.service(p, s, got)
}

// evaluation is an error of expressions with its place.
func (i *installing) evaluation(p *part, err error) error {
	var locked *LockedError
	if errors.As(err, &locked) {
		return err
	}
	return i.loaded.evaluation(p, err)
}

// condition evaluates a step's when.
func (i *installing) condition(p *part) (skipped bool, waiting []string, err error) {
	if p.when == nil {
		return false, nil, nil
	}
	r := i.scope.reads(p.when.Refs())
	if len(r.waiting) > 0 {
		return false, r.waiting, nil
	}
	if file := i.scope.locked(r.files); file != "" {
		return false, nil, &LockedError{file}
	}
	yes, err := expr.Bool(p.step.When, i.scope.vars)
	if err != nil {
		return false, nil, i.loaded.fault(fmt.Sprintf("spec.steps[%d].when", p.index), "", "%v", err)
	}
	return !yes, nil, nil
}

// keepWaiting leaves what there is of a step that waits: what runs on clusters must not go for that.
func (i *installing) keepWaiting(p *part, s *Step) error {
	if s.Kind != Service {
		return nil
	}
	if document, ok := i.documents[s.Name]; ok {
		old, err := fleet.ReadServices(i.path(servicesFile), document)
		if err != nil {
			return err
		}
		if len(old) == 1 {
			i.services[s.Name] = old[0]
			i.result.services = append(i.result.services, old[0])
		}
		i.sealed[i.path(s.Name+secretValues)] = nil
		return nil
	}
	i.result.waiting = sorted(append(i.result.waiting, s.Waiting...))
	return nil
}

// waitingServices are the steps for which the Services that this one depends on wait, as long as there are none.
func (i *installing) waitingServices(p *part) []string {
	var waiting []string
	for _, r := range i.upon {
		waiting = append(waiting, r.waiting...)
	}
	for _, name := range p.needs {
		for _, s := range i.result.composed.Steps {
			if _, there := i.services[name]; s.Name == name && s.Kind == Service && !there {
				waiting = append(waiting, s.Waiting...)
			}
		}
	}
	return waiting
}

// terraform takes an evaluated module up.
func (i *installing) terraform(p *part, s *Step, got evaluated) error {
	for _, leaf := range got.leaves {
		if leaf[0] != "inputs" {
			return i.loaded.fault(p.field(dotted(p.raw, leaf)), "give it to the program by its environment",
				"a secret in %s, which terraform keeps in clear", leaf[0])
		}
		s.SecretInputs = append(s.SecretInputs, leaf[1])
	}
	s.SecretInputs = sorted(s.SecretInputs)
	m := &packages.Terraform{}
	value, ok := got.value.(map[string]any)
	if !ok {
		return i.loaded.fault(p.field(""), "", "not a module")
	}
	if err := i.decode(p, value, m, "inputs", "backend"); err != nil {
		return err
	}
	m.Inputs, _ = value["inputs"].(map[string]any)
	m.Backend, _ = value["backend"].(map[string]any)
	s.Terraform = m
	shown := maps.Clone(value)
	shown["inputs"] = maps.Clone(m.Inputs)
	for _, name := range s.SecretInputs {
		shown["inputs"].(map[string]any)[name] = p.raw["inputs"].(map[string]any)[name] // as it is written, with its expressions
	}
	var called []any // it is no secret to who reads the repo
	for _, path := range got.called {
		called = append(called, at(i.scope.vars, path))
	}
	var err error
	s.Digest, err = i.digest(p, s.Kind, []string{m.Path}, got.files, shown, called)
	return err
}

// wait takes an evaluated wait up.
func (i *installing) wait(p *part, s *Step, got evaluated) error {
	if len(got.leaves) > 0 {
		return i.loaded.fault(p.field(dotted(p.raw, got.leaves[0])), "wait for something that can be told without it",
			"a secret in what is waited for, which is shown")
	}
	value, ok := got.value.(map[string]any)
	if !ok {
		return i.loaded.fault(p.field(""), "", "not a wait")
	}
	s.Wait = &packages.Wait{}
	if err := i.decode(p, value, s.Wait); err != nil {
		return err
	}
	var err error
	s.Digest, err = i.digest(p, s.Kind, nil, nil, value)
	return err
}

// decode fills a struct from a tree, but for keys of free shape.
func (i *installing) decode(p *part, from map[string]any, into any, free ...string) error {
	from = maps.Clone(from)
	for _, key := range free {
		delete(from, key)
	}
	text, err := json.Marshal(from)
	if err != nil {
		return i.loaded.fault(p.field(""), "", "%v", err)
	}
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(text, into); {
	case errors.As(err, &wrong):
		return i.loaded.fault(p.field(wrong.Field), "correct the expression",
			"%s must be %s, and its expression gives %s", wrong.Field, wrong.Type, wrong.Value)
	case err != nil:
		return i.loaded.fault(p.field(""), "", "%v", err)
	}
	return nil
}

// dotted is a leaf's path as fields are named.
func dotted(tree any, path []string) string {
	out := ""
	for _, key := range path {
		switch v := tree.(type) {
		case []any:
			out += "[" + key + "]"
			tree = nil
			for n := range v {
				if fmt.Sprint(n) == key {
					tree = v[n]
				}
			}
		case map[string]any:
			if out != "" {
				out += "."
			}
			out += key
			tree = v[key]
		}
	}
	return out
}
