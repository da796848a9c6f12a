// Package rekey owns changes of who can open which sealed files.
//
// It refuses to know terminals: who asks for a change sees the Plan, decides, and has it carried out.
//
// A change starts from what the person has confirmed of the repository as it stands. It becomes a Plan: files to write,
// with everything in them sealed already, and who can read what afterwards. Apply notes the plan in a journal inside
// git's folder before it touches anything, makes it one commit, and takes the journal away; after a kill at any point
// Resume carries out the same plan to the same end.
package rekey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Editor plans changes for one repository.
type Editor struct {
	repo      *workspace.Repo
	keys      workspace.Keys
	confirmed trust.Store
	vault     *sealer.Vault
	// head is the commit that the branch was at before anything was read.
	head string
	// known is what the person has confirmed, with the clusters' keys.
	known groups.Statement
}

// Plan is a change that nobody has made yet.
type Plan struct {
	// Changes are the files to write, by path; nil removes one.
	Changes map[string][]byte
	// Message is the commit's.
	Message string
	// Before and After are who can read what.
	Before, After groups.Statement
	// Rotated are the groups that get new identities, Resealed the files that are sealed again for them.
	Rotated, Resealed []string
	// Unreachable are groups that the change should reach, and cannot: the person is no member of them.
	Unreachable []string

	repository string
	repo       *workspace.Repo
	confirmed  trust.Store
	// size is what Resealed come to, in bytes.
	size int
	// head is the commit that all of this was made for.
	head string
}

// Empty says whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 }

// Differences are what changes in who can read what.
func (p *Plan) Differences() []trust.Change { return trust.Diff(p.Before, p.After) }

// Open prepares changes to repo with keys, which the repo uses from now on. Without a policy the error is
// policy.ErrNone; with one that the person has not confirmed as it stands, a *trust.UnconfirmedError.
func Open(repo *workspace.Repo, keys workspace.Keys, confirmed trust.Store) (*Editor, error) {
	keys.Confirmed = confirmed
	repo.UseKeys(keys)
	head, err := repo.Head()
	if err != nil {
		return nil, err
	}
	v, err := repo.Vault(nil)
	if err != nil {
		return nil, err
	}
	if err := v.Confirm(); err != nil {
		return nil, err
	}
	known, err := confirmed.Confirmed(v.Policy().Repository)
	return &Editor{repo, keys, confirmed, v, head, known}, err
}

// Vault is what the person can seal and open as the repository stands.
func (e *Editor) Vault() *sealer.Vault { return e.vault }

// plan is the plan that writes changes; joining are the keys of clusters that it lets in.
func (e *Editor) plan(changes map[string][]byte, message string, joining map[string]string) (*Plan, error) {
	after, err := e.repo.Vault(changes)
	if err != nil {
		return nil, err
	}
	keys := e.known.Keys()
	maps.Copy(keys, joining)
	maps.DeleteFunc(keys, func(name, _ string) bool { return len(after.Groups().GroupsOf(clusterMember(name))) == 0 })
	return &Plan{
		Changes: changes, Message: message, Before: e.known, After: after.Statement().WithKeys(keys),
		repository: e.vault.Policy().Repository, repo: e.repo, confirmed: e.confirmed, head: e.head,
	}, nil
}

// Person is somebody to be written into .plural/members.
type Person struct {
	Name string
	// Keys is the file's text: public keys, one in a line, with comments.
	Keys []byte
}

// Share lets a member open what the named groups can. A person who is not known yet comes with keys.
func (e *Editor) Share(member groups.Member, person *Person, names []string) (*Plan, error) {
	changes := groups.Changes{}
	set := e.vault.Groups()
	if person != nil {
		var err error
		if changes, err = set.SetPerson(person.Name, person.Keys); err != nil {
			return nil, err
		}
		if set, err = set.With(changes); err != nil {
			return nil, err
		}
	}
	ring, err := e.vault.Keyring()
	if err != nil {
		return nil, err
	}
	joining := joining{keys: clusterKeys(e.repo, nil), names: map[string]string{}}
	for _, name := range names {
		added, err := set.Add(e.vault.Policy().Repository, ring, name, member, joining.key)
		if err != nil {
			return nil, err
		}
		maps.Copy(changes, added)
	}
	return e.plan(changes, fmt.Sprintf("Share %s with %s", strings.Join(names, ", "), member), joining.names)
}

// Revoke takes a member out of the named groups, or of all that it is in when none is named. The groups get new
// identities, and what they cover is sealed again.
func (e *Editor) Revoke(ctx context.Context, member groups.Member, names []string) (*Plan, error) {
	all := len(names) == 0
	if all {
		names = e.direct(member)
	}
	changes := map[string][]byte{}
	if _, known := e.vault.Groups().Person(member.Name); all && known && member.Kind == groups.Person {
		changes[groups.PersonFile(member.Name)] = nil
	}
	if len(names) == 0 && len(changes) == 0 {
		return nil, &workspace.Error{
			Message: fmt.Sprintf("%s is a member of no group", member), Fix: "see who is: plural crypto members list",
		}
	}
	return e.rotate(ctx, names, []groups.Member{member}, changes, "Revoke "+member.String())
}

// Rotate gives the named groups new identities, and seals again what they cover.
func (e *Editor) Rotate(ctx context.Context, names []string) (*Plan, error) {
	return e.rotate(ctx, names, nil, map[string][]byte{}, "Rotate "+strings.Join(names, ", "))
}

// direct are the groups that a member is in by itself.
func (e *Editor) direct(member groups.Member) []string {
	var names []string
	for _, name := range e.vault.Groups().Names() {
		if group, ok := e.vault.Groups().Group(name); ok && group.Has(member) {
			names = append(names, name)
		}
	}
	return names
}

// rotate adds to changes what new identities of groups, without the members to remove, come to.
func (e *Editor) rotate(
	ctx context.Context, names []string, remove []groups.Member, changes map[string][]byte, message string,
) (*Plan, error) {
	var rotated []string
	if len(names) > 0 {
		ring, err := e.vault.Keyring()
		if err != nil {
			return nil, err
		}
		files, all, err := e.vault.Groups().Rotate(e.vault.Policy().Repository, ring, names, remove, e.confirmedKey())
		if err != nil {
			return nil, err
		}
		maps.Copy(changes, files)
		rotated = all
	}
	plan, err := e.plan(changes, message, nil)
	if err != nil {
		return nil, err
	}
	plan.Rotated = rotated
	return plan, plan.reseal(ctx, e.keys, e.vault)
}

// confirmedKey gives the key of a cluster for a group's new identity, if it is the one that the person knows: whoever can
// push could have written another into the cluster's file.
func (e *Editor) confirmedKey() groups.ClusterKey {
	keys, known := clusterKeys(e.repo, nil), e.known.Keys()
	return func(name string) (string, error) {
		key, err := keys(name)
		if err != nil {
			return "", err
		}
		if known[name] != key {
			all := maps.Clone(known)
			all[name] = key
			return "", trust.Check(e.known, e.known.WithKeys(all))
		}
		return key, nil
	}
}

// joining notes the keys of the clusters that a plan lets in, so that they are shown and confirmed with it.
type joining struct {
	keys  groups.ClusterKey
	names map[string]string
}

func (j joining) key(name string) (string, error) {
	key, err := j.keys(name)
	if err == nil {
		j.names[name] = key
	}
	return key, err
}

// clusterKeys reads the fleet once, as changes will have it, when it is first asked for a cluster's key.
func clusterKeys(repo *workspace.Repo, changes map[string][]byte) groups.ClusterKey {
	load := sync.OnceValues(func() (*fleet.Fleet, error) { return fleet.Load(overlay.New(os.DirFS(repo.Root()), changes)) })
	return func(name string) (string, error) {
		f, err := load()
		if err != nil {
			return "", fmt.Errorf("read clusters: %w", err)
		}
		cluster, ok := f.Cluster(name)
		if !ok {
			return "", fmt.Errorf("cluster %q has no file: take it out with plural crypto revoke cluster/%s", name, name)
		}
		if cluster.Spec.Agent.Age == "" {
			return "", fmt.Errorf("cluster %q has no key: plural cluster register %s", name, name)
		}
		return cluster.Spec.Agent.Age, nil
	}
}

// notMember says whether err means that the person is no member of a group.
func notMember(err error) bool {
	var not *groups.NotMemberError
	return errors.As(err, &not)
}
