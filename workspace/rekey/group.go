package rekey

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
)

// NewGroup is a group to be made.
type NewGroup struct {
	Name    string
	Members []groups.Member
	// People are written into .plural/members first: those among Members who are not known yet.
	People []Person
	// PostQuantum makes a hybrid identity; Identity, if there is one, becomes the group's instead of a fresh one.
	PostQuantum bool
	Identity    age.Identity
	// Clusters picks clusters for the group; nil picks none. Those that are registered already are members at once.
	Clusters *policy.Selector
	// Patterns are sealed for the group alone. Files that they take over are sealed again.
	Patterns []string
}

// CreateGroup makes a group.
func (e *Editor) CreateGroup(ctx context.Context, g NewGroup) (*Plan, error) {
	changes, joining, err := g.changes(os.DirFS(e.repo.Root()), e.vault.Policy().Repository, e.repo)
	if err != nil {
		return nil, err
	}
	plan, err := e.plan(changes, "Create group "+g.Name, joining.names)
	if err != nil {
		return nil, err
	}
	return plan, plan.reseal(ctx, e.keys, e.vault)
}

// changes are the group's files, and seal.yaml with what it says of the group, over files.
func (g NewGroup) changes(files fs.FS, repository string, repo *workspace.Repo) (groups.Changes, joining, error) {
	joins := joining{keys: clusterKeys(repo, nil), names: map[string]string{}}
	set, err := groups.Load(files)
	if err != nil {
		return nil, joins, err
	}
	people := groups.Changes{}
	for _, p := range g.People {
		person, err := set.SetPerson(p.Name, p.Keys)
		if err != nil {
			return nil, joins, err
		}
		maps.Copy(people, person)
	}
	if set, err = set.With(people); err != nil {
		return nil, joins, err
	}
	members := slices.Clone(g.Members)
	if g.Clusters != nil {
		picked, err := registered(repo, g.Clusters)
		if err != nil {
			return nil, joins, err
		}
		members = append(members, picked...)
	}
	changes, err := set.Create(repository, g.Name, members, groups.CreateOptions{
		PostQuantum: g.PostQuantum, Identity: g.Identity, ClusterKey: joins.key,
	})
	if err != nil {
		return nil, joins, err
	}
	maps.Copy(changes, people)
	if g.Clusters == nil && len(g.Patterns) == 0 {
		return changes, joins, nil
	}
	return changes, joins, g.addPolicy(files, changes)
}

// addPolicy adds to changes what seal.yaml says of the group, and what git is told of seal.yaml.
func (g NewGroup) addPolicy(files fs.FS, changes groups.Changes) error {
	text, err := fs.ReadFile(files, policy.File)
	if err != nil {
		return fmt.Errorf("read policy: %w", err)
	}
	if g.Clusters != nil {
		if text, err = policy.WithGroup(text, policy.Group{Name: g.Name, Clusters: g.Clusters}); err != nil {
			return err
		}
	}
	for _, pattern := range g.Patterns {
		if text, err = policy.WithPattern(text, pattern, []string{g.Name}); err != nil {
			return err
		}
	}
	changes[policy.File] = text
	return tellGit(files, changes)
}

// DeleteGroup takes away a group that nothing is sealed for.
func (e *Editor) DeleteGroup(name string) (*Plan, error) {
	if err := e.unused(name); err != nil {
		return nil, err
	}
	changes := groups.Changes{}
	root := os.DirFS(e.repo.Root())
	err := fs.WalkDir(root, path.Dir(groups.RecipientFile(name)), func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			changes[file] = nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list files of group %q: %w", name, err)
	}
	if slices.ContainsFunc(e.vault.Policy().Groups, func(g policy.Group) bool { return g.Name == name }) {
		text, err := fs.ReadFile(root, policy.File)
		if err != nil {
			return nil, fmt.Errorf("read policy: %w", err)
		}
		if changes[policy.File], err = policy.WithGroup(text, policy.Group{Name: name}); err != nil {
			return nil, err
		}
	}
	return e.plan(changes, "Delete group "+name, nil)
}

// InUseError means that a group cannot go.
type InUseError struct{ Reason, Solution string }

// Error says what needs the group.
func (e *InUseError) Error() string { return e.Reason }

// Fix says what to do first.
func (e *InUseError) Fix() string { return e.Solution }

// unused refuses a group that is still needed.
func (e *Editor) unused(name string) error {
	if _, ok := e.vault.Groups().Group(name); !ok {
		return fmt.Errorf("there is no group %q; there are %s", name, strings.Join(e.vault.Groups().Names(), ", "))
	}
	for _, p := range e.vault.Policy().Paths {
		if slices.Contains(p.Groups, name) {
			return &InUseError{fmt.Sprintf("%s:%d: files that match %q are sealed for the group %q", policy.File, p.Line, p.Pattern, name), "seal them for another group first"}
		}
	}
	for _, outer := range e.vault.Groups().Names() {
		if g, ok := e.vault.Groups().Group(outer); ok && g.Has(groups.Member{Kind: groups.Subgroup, Name: name}) {
			return &InUseError{fmt.Sprintf("the group %q is a member of %q", name, outer), fmt.Sprintf("plural crypto revoke group/%s --group %s", name, outer)}
		}
	}
	return nil
}

// tellGit adds to changes, which hold a policy, the .gitattributes and .gitignore that go with it.
func tellGit(files fs.FS, changes groups.Changes) error {
	all := overlay.New(files, changes)
	old, err := readOptional(all, workspace.AttributesFile)
	if err != nil {
		return err
	}
	if changes[workspace.AttributesFile], err = workspace.Attributes(all, old); err != nil {
		return err
	}
	if old, err = readOptional(all, workspace.IgnoreFile); err != nil {
		return err
	}
	changes[workspace.IgnoreFile], err = workspace.Ignore(old)
	return err
}
