package packs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
)

// Files of an installation that hold its answers.
func plainFile(name string) string  { return "packages/" + name + "/values.yaml" }
func secretFile(name string) string { return "packages/" + name + "/values.secret.yaml" }

// Judge says what is answered when these answers are given besides those that are there. Secrets that cannot be opened here
// count as answered.
func (p *Proposal) Judge(pick *Pick, given map[string]any) (*packages.Answers, error) {
	all, locked, err := answersOf(p.world.Repo, pick.As)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, given)
	for name := range all { // an older version may have asked more
		if _, asked := pick.Package.Question(name); !asked && given[name] == nil {
			delete(all, name)
		}
	}
	answers, err := pick.Package.Answers(all, p.world.Facts(pick.As, pick.Package))
	if err == nil && locked {
		answers.Missing = slices.DeleteFunc(answers.Missing, func(q packages.Question) bool { return q.Type == packages.TypeSecret })
	}
	return answers, err
}

// Answer keeps answers to a pick's questions. Secrets that are missing and can be made up, are.
func (p *Proposal) Answer(pick *Pick, given map[string]any) error {
	answers, err := p.Judge(pick, given)
	if err != nil {
		return err
	}
	given = maps.Clone(given)
	if given == nil {
		given = map[string]any{}
	}
	for _, q := range answers.Missing {
		if q.Generate == nil {
			continue
		}
		if given[q.Name], err = q.Generate.Make(); err != nil {
			return err
		}
	}
	files, err := answered(p.world.Repo, pick.As, pick.Package, given, nil)
	if err != nil {
		return err
	}
	maps.Copy(p.files, files)
	p.world, err = p.shelf.with(p.files)
	return err
}

// Set plans other answers for an installation that is there. What is generated follows.
func (s *Snapshot) Set(name string, given map[string]any, unset []string) (map[string][]byte, error) {
	if err := s.known([]string{name}); err != nil {
		return nil, err
	}
	p, err := s.installed(name)
	if err != nil {
		return nil, err
	}
	all, locked, err := answersOf(s.World.Repo, name)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, given)
	for _, one := range unset {
		delete(all, one)
	}
	answers, err := p.Answers(all, s.World.Facts(name, p))
	if err != nil {
		return nil, err
	}
	if len(answers.Missing) > 0 && !locked {
		return nil, &compose.MissingError{Installation: name, Questions: answers.Missing}
	}
	changes, err := answered(s.World.Repo, name, p, given, unset)
	if err != nil {
		return nil, err
	}
	return changes, pkgupgrade.Generate(s.World, s.World.Lock, changes, name)
}

// Installed is the package of an installation, as it lies in the repo.
func (s *Snapshot) Installed(name string) (*packages.Package, error) {
	if err := s.known([]string{name}); err != nil {
		return nil, err
	}
	return s.installed(name)
}

// answersOf are the answers that an installation has; locked says that there are secrets besides which cannot be opened.
func answersOf(repo fs.FS, name string) (all map[string]any, locked bool, err error) {
	all = map[string]any{}
	for _, file := range []string{plainFile(name), secretFile(name)} {
		text, err := readIf(repo, file)
		if err != nil {
			return nil, false, err
		}
		if seal.IsSealed(text) {
			locked = true
			continue
		}
		var values map[string]any
		if err := yaml.Unmarshal(text, &values); err != nil {
			return nil, false, &Error{fmt.Sprintf("%s is no mapping of answers: %v", file, err), "mend it by hand"}
		}
		maps.Copy(all, values)
	}
	return all, locked, nil
}

// answered are the files of answers when some are given or taken away. An answer that is the default of its question is written
// all the same: somebody gave it, and the default may change.
func answered(repo fs.FS, name string, p *packages.Package, given map[string]any, unset []string) (map[string][]byte, error) {
	changes := map[string][]byte{}
	for file, secret := range map[string]bool{plainFile(name): false, secretFile(name): true} {
		before, err := readIf(repo, file)
		if err != nil {
			return nil, err
		}
		mine := map[string]any{}
		for question, value := range given {
			if q, asked := p.Question(question); asked && (q.Type == packages.TypeSecret) == secret {
				mine[question] = value
			}
		}
		gone := slices.Clone(unset)
		for question := range given {
			if _, here := mine[question]; !here {
				gone = append(gone, question) // its question became a secret, or stopped being one
			}
		}
		if seal.IsSealed(before) {
			if len(mine) > 0 {
				return nil, &Error{fmt.Sprintf("%s is sealed, and was not opened", file), "plural crypto unlock"}
			}
			continue
		}
		after, err := edited(before, p, mine, gone)
		if err != nil {
			return nil, &Error{fmt.Sprintf("%s cannot be changed by a program: %v", file, err), "change it by hand"}
		}
		if string(after) != string(before) || (after == nil) != (before == nil) {
			changes[file] = after
		}
	}
	return changes, nil
}

// edited is a file of answers with some set, in the order of the questions, and some taken away; nil when none are left.
func edited(text []byte, p *packages.Package, set map[string]any, gone []string) ([]byte, error) {
	var order []string
	for i := range p.Spec.Questions {
		order = append(order, p.Spec.Questions[i].Name)
	}
	var before map[string]any
	if err := yaml.Unmarshal(text, &before); err != nil {
		return nil, err
	}
	var err error
	for _, name := range order {
		value, ok := set[name]
		if !ok || reflect.DeepEqual(plain(before[name]), plain(value)) && before[name] != nil {
			continue
		}
		if text, err = put(text, []string{name}, value); err != nil {
			return nil, err
		}
	}
	for _, name := range gone {
		if _, there := before[name]; there {
			if text, err = take(text, name); err != nil {
				return nil, err
			}
		}
	}
	return text, nil
}

// plain makes numbers of one size, for comparisons.
func plain(v any) any {
	switch n := v.(type) {
	case int:
		return int64(n)
	case float64:
		if n == float64(int64(n)) {
			return int64(n)
		}
	}
	return v
}

// readIf is a file's text; nil where there is none.
func readIf(repo fs.FS, name string) ([]byte, error) {
	text, err := fs.ReadFile(repo, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}
