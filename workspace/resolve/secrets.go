package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sops"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// secretSet is all that the secrets of a service depend on: the state of the installation repo and the files declared.
type secretSet struct {
	root snapshot.Hash
	// plain work trees hold what must be sealed as people read it.
	plain    bool
	declared string
}

// secretFiles is what a secretSet leads to.
type secretFiles struct {
	inputs []string
	bundle string
	faults []*fault
}

// addSecrets finds the files of a service's secrets with their key, or all that is wrong with them.
func (r *Resolver) addSecrets(d *Deployment, s *fleet.Service, src Sources) []Problem {
	if len(d.Secrets) == 0 {
		return nil
	}
	own, err := src.Snapshot("", "")
	if err != nil {
		f := unreadable(err)
		f.field, f.own = "spec.secrets", true
		return []Problem{*f.problem(s)}
	}
	found := r.secretsOf(d.Secrets, own)
	var list []Problem
	for _, f := range found.faults {
		f.own = true
		list = append(list, *f.problem(s))
	}
	d.SecretsInputs, d.SecretsBundle, d.SecretsSnapshot = found.inputs, found.bundle, own
	return list
}

func first(list []Problem) *Problem {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// secretsOf computes or remembers the files of secrets.
func (r *Resolver) secretsOf(secrets []Secret, own *snapshot.Snapshot) secretFiles {
	root, _, err := own.Hash(".")
	if err != nil {
		return secretFiles{faults: []*fault{unreadable(err)}}
	}
	paths := make([]string, len(secrets))
	for i := range secrets {
		paths[i] = secrets[i].Path
	}
	set := secretSet{root, own.Commit().ID == "", fmt.Sprintf("%q", paths)}
	if found, ok := r.secrets.get(set); ok {
		return found
	}
	found := r.findSecrets(paths, own)
	if !slices.ContainsFunc(found.faults, func(f *fault) bool { return f.unread }) {
		r.secrets.set(set, found)
	}
	return found
}

func (r *Resolver) findSecrets(paths []string, own *snapshot.Snapshot) secretFiles {
	var found secretFiles
	ids := make(map[string]snapshot.Hash, len(paths))
	for i, name := range paths {
		id, f := r.findSecret(own, name)
		if f != nil {
			f.field, f.own = fmt.Sprintf("spec.secrets[%d].from", i), true
			found.faults = append(found.faults, f)
			continue
		}
		ids[name] = id
	}
	if len(found.faults) > 0 {
		return found
	}
	found.inputs = slices.Compact(slices.Sorted(slices.Values(paths)))
	list := make([]bundle.Input, len(found.inputs))
	for i, name := range found.inputs {
		list[i] = bundle.Input{Path: name, Hash: string(ids[name])}
	}
	found.bundle = bundle.Key(list)
	return found
}

// findSecret wants a file that the hub cannot read. In a work tree it may be plain where it will be sealed on its way
// into git.
func (r *Resolver) findSecret(own *snapshot.Snapshot, name string) (snapshot.Hash, *fault) {
	id, mode, err := own.Hash(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &fault{message: fmt.Sprintf("path %q does not exist", name), fix: "correct or remove it"}
	case err != nil:
		return "", unreadable(err)
	case !mode.IsRegular():
		return "", notPlain("", name, mode, "name a file")
	}
	_, must, f := r.sealedFor(own, name)
	if f != nil || must && own.Commit().ID == "" {
		return id, f
	}
	form, err := r.formOf(own, name, id)
	switch {
	case err != nil:
		return "", unreadable(err)
	case form.sealed && must, form.sops:
		return id, nil
	case must:
		return "", &fault{message: fmt.Sprintf("%q must be sealed, and is not", name), fix: "plural crypto encrypt " + name}
	}
	fix := "add a pattern for it there, or move it to where one covers it"
	return "", &fault{message: fmt.Sprintf("no pattern of %s covers %q, and sops did not write it", policy.File, name), fix: fix}
}

// policyOrNone is the policy of what must be sealed, nil when there is none, or why it is no policy.
type policyOrNone struct {
	policy *policy.Policy
	err    error
}

// sealedFor asks the policy about a path: whether it must be sealed, and for which groups.
func (r *Resolver) sealedFor(own *snapshot.Snapshot, name string) (groups []string, must bool, f *fault) {
	id, _, err := own.Hash(policy.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, unreadable(err)
	}
	p, ok := r.policies.get(id)
	if !ok {
		text, err := fs.ReadFile(own.FS(), policy.File)
		if err != nil {
			return nil, false, unreadable(err)
		}
		p.policy, p.err = policy.Parse(text)
		r.policies.set(id, p)
	}
	if p.err != nil {
		return nil, false, &fault{message: fmt.Sprintf("whether %q is sealed cannot be told: %v", name, p.err), fix: "correct " + policy.File}
	}
	groups, must, err = p.policy.Match(name)
	if err != nil {
		return nil, false, &fault{message: err.Error(), fix: "correct " + policy.File}
	}
	return groups, must, nil
}

// formOf names a file's content, and what tells its format.
type formOf struct {
	id   snapshot.Hash
	base string
}

// sealFormat says who can read a file.
type sealFormat struct{ sealed, sops bool }

// formOf reads a file once for each content.
func (r *Resolver) formOf(own *snapshot.Snapshot, name string, id snapshot.Hash) (sealFormat, error) {
	key := formOf{id, path.Base(name)}
	if known, ok := r.forms.get(key); ok {
		return known, nil
	}
	data, err := fs.ReadFile(own.FS(), name)
	if err != nil {
		return sealFormat{}, err
	}
	_, err = seal.Inspect(data)
	found := sealFormat{err == nil, sops.IsSOPS(name, data)}
	r.forms.set(key, found)
	return found, nil
}
