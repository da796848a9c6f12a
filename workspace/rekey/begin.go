package rekey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/schema"
)

// Beginning is what a repository's sealing starts with: one group for one person and every cluster.
type Beginning struct {
	Person Person
	// Group is the first group's name.
	Group string
	// Patterns are sealed for it.
	Patterns []string
	// PostQuantum makes the group's identity a hybrid one.
	PostQuantum bool
}

// Begin plans the sealing of a repository that has no policy yet. Files that the patterns match and that are committed
// already are sealed in the same commit; what history holds of them stays readable.
func Begin(ctx context.Context, repo *workspace.Repo, keys workspace.Keys, confirmed trust.Store, b Beginning) (*Plan, error) {
	keys.Confirmed = confirmed
	root := os.DirFS(repo.Root())
	head, err := repo.Head()
	if err != nil {
		return nil, err
	}
	if _, err := policy.Load(root); !errors.Is(err, policy.ErrNone) {
		return nil, errors.Join(err, fmt.Errorf("%s is there already", policy.File))
	}
	changes, err := b.person(root)
	if err != nil {
		return nil, err
	}
	seal, err := policy.New(nil, nil)
	if err != nil {
		return nil, err
	}
	changes[policy.File] = append(schema.Line(root, policy.File, schema.Seal), seal...)
	files := overlay.New(root, changes)
	p, err := policy.Load(files)
	if err != nil {
		return nil, err
	}
	group := NewGroup{
		Name: b.Group, Members: []groups.Member{{Kind: groups.Person, Name: b.Person.Name}}, PostQuantum: b.PostQuantum,
		Clusters: &policy.Selector{All: true}, Patterns: b.Patterns,
	}
	made, joins, err := group.changes(files, p.Repository, repo)
	if err != nil {
		return nil, err
	}
	maps.Copy(changes, made)
	repo.UseKeys(keys)
	v, err := repo.Vault(changes)
	if err != nil {
		return nil, err
	}
	plan := &Plan{
		Changes: changes, Message: "Seal secrets", After: v.Statement().WithKeys(joins.names),
		repository: p.Repository, repo: repo, confirmed: confirmed, head: head,
	}
	return plan, plan.reseal(ctx, keys, nil)
}

// person is the file of the first person.
func (b Beginning) person(root fs.FS) (groups.Changes, error) {
	set, err := groups.Load(root)
	if err != nil {
		return nil, err
	}
	return set.SetPerson(b.Person.Name, b.Person.Keys)
}

// readOptional is a file's content, nil when there is none.
func readOptional(files fs.FS, name string) ([]byte, error) {
	text, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}
