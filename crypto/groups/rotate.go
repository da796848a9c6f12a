package groups

import (
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/seal"
)

// Rotate gives groups a new identity, sealed for all of their members except those in remove. Groups that contain a
// rotated group, at any distance, rotate with it: whoever had its identity could open theirs. The identities that go are
// kept for history, each sealed to its successor. Rotated names all groups that got a new identity, sorted; what is
// sealed for them is to be sealed again.
//
// Remove may be empty. Whoever is in it must be a direct member of one of the groups, and no group may lose its last.
func (s *Set) Rotate(repository string, k *Keyring, groups []string, remove []Member, ck ClusterKey) (changes Changes, rotated []string, err error) {
	for _, name := range groups {
		if _, ok := s.groups[name]; !ok {
			return nil, nil, fmt.Errorf("there is no group %q", name)
		}
	}
	if err := s.checkRemoved(groups, remove); err != nil {
		return nil, nil, err
	}
	r := rotation{envelopeSealer: envelopeSealer{set: s, repository: repository, clusterKey: ck, recipients: map[string]age.Recipient{}}, changes: Changes{}}
	rotated = s.closure(groups)
	for _, name := range rotated {
		if err := r.renew(k, name); err != nil {
			return nil, nil, err
		}
	}
	for _, next := range r.next {
		leaving := remove
		if !slices.Contains(groups, next.group.Name) {
			leaving = nil
		}
		if err := r.reseat(next, leaving); err != nil {
			return nil, nil, err
		}
	}
	return r.changes, rotated, nil
}

// checkRemoved refuses to remove those who are no direct members: they would go on reading.
func (s *Set) checkRemoved(groups []string, remove []Member) error {
	for _, m := range remove {
		direct := func(name string) bool { return s.groups[name].Has(m) }
		if slices.ContainsFunc(groups, direct) {
			continue
		}
		named := strings.Join(groups, ", ")
		for _, name := range s.GroupsOf(m) {
			if direct(name) && slices.ContainsFunc(groups, func(outer string) bool { return s.contains(outer, name) }) {
				return fmt.Errorf("%q reaches %s through the group %q: remove it there", m, named, name)
			}
		}
		return fmt.Errorf("%q is no member of %s", m, named)
	}
	return nil
}

// contains says whether inner is a member of outer, at any distance.
func (s *Set) contains(outer, inner string) bool {
	return slices.Contains(s.closure([]string{inner}), outer)
}

// rotation is one Rotate under way.
type rotation struct {
	envelopeSealer
	changes Changes
	next    []succession
}

// succession is a group as it will be, without members yet, and the identity that it will have.
type succession struct {
	group *Group
	id    private
}

// renew makes the group's next identity and retires the present one.
func (r *rotation) renew(k *Keyring, name string) error {
	old := r.set.groups[name]
	retiring, err := k.private(name, 0)
	if err != nil {
		return err
	}
	if publicOf(retiring) != old.Recipient.Text {
		return fmt.Errorf("the keyring's identity of the group %q is not that of %s", name, RecipientFile(name))
	}
	if old.Epoch >= maxEpoch {
		return fmt.Errorf("the group %q has had %d epochs: make a new group", name, old.Epoch)
	}
	id, to, err := generate(old.postQuantum())
	if err != nil {
		return err
	}
	r.recipients[name] = to
	next := &Group{Name: name, Epoch: old.Epoch + 1}
	r.next = append(r.next, succession{next, id})
	r.changes[RecipientFile(name)] = recipientText(next.Epoch, publicOf(id))
	file := retiredFile(name, old.Epoch)
	r.changes[file], err = sealIdentity(label{r.repository, file, seal.Epoch{Group: name, Number: old.Epoch}}, retiring, []age.Recipient{to})
	return err
}

// reseat makes envelopes for the members who stay, and takes away those of the others.
func (r *rotation) reseat(next succession, leaving []Member) error {
	for _, m := range r.set.groups[next.group.Name].Members {
		if slices.Contains(leaving, m) {
			r.changes[EnvelopeFile(next.group.Name, m)] = nil
			continue
		}
		next.group.Members = append(next.group.Members, m)
	}
	if len(next.group.Members) == 0 {
		return fmt.Errorf("the group %q would have no member left, and nobody could open what is sealed for it: add another first", next.group.Name)
	}
	return r.sealAll(r.changes, next.group, next.id)
}
