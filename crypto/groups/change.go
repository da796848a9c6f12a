package groups

import (
	"errors"
	"fmt"
	"slices"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
)

// CreateOptions say how a group is made.
type CreateOptions struct {
	// PostQuantum makes a hybrid identity. Members' own keys decide how well the way to it is protected.
	PostQuantum bool
	// Identity, when it is not nil, becomes the group's identity: an age identity that files are encrypted for already.
	Identity age.Identity
	// ClusterKey is needed when a member is a cluster.
	ClusterKey ClusterKey
}

// SetPerson writes the public keys of a person who is new, or whose keys changed; text is the file's content. Who can open
// what stays as it is until the person is added to groups.
func (s *Set) SetPerson(name string, text []byte) (Changes, error) {
	if _, err := parsePerson(name, text); err != nil {
		return nil, err
	}
	for _, other := range s.people {
		if other.Name != name && policy.SameFile(other.Name, name) {
			return nil, clash("person", name, other.Name)
		}
	}
	return Changes{PersonFile(name): text}, nil
}

// Create makes a group with its first members, at least one.
func (s *Set) Create(repository, name string, members []Member, o CreateOptions) (Changes, error) {
	if err := s.checkNew(name); err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("the group %q needs a member: nobody could ever open what is sealed for it", name)
	}
	id, err := newIdentity(o)
	if err != nil {
		return nil, err
	}
	public := publicOf(id)
	for _, other := range s.names {
		if s.groups[other].Recipient.Text == public {
			return nil, fmt.Errorf("the identity is already that of the group %q", other)
		}
	}
	g := &Group{Name: name, Epoch: 1}
	changes := Changes{RecipientFile(name): recipientText(1, public)}
	for _, m := range members {
		if err := s.checkMember(g, m); err != nil {
			return nil, err
		}
		g.Members = append(g.Members, m)
	}
	seats := envelopeSealer{set: s, repository: repository, clusterKey: o.ClusterKey}
	return changes, seats.sealAll(changes, g, id)
}

func (s *Set) checkNew(name string) error {
	if err := policy.CheckName(name); err != nil {
		return err
	}
	for _, other := range s.names {
		switch {
		case other == name:
			return fmt.Errorf("the group %q exists already", name)
		case policy.SameFile(other, name):
			return clash("group", name, other)
		}
	}
	if len(s.names) >= MaxGroups {
		return fmt.Errorf("there are %d groups already", len(s.names))
	}
	return nil
}

func clash(what, name, other string) error {
	return fmt.Errorf("the %s %q would be one file with %q on some systems: choose another name", what, name, other)
}

func newIdentity(o CreateOptions) (private, error) {
	if o.Identity == nil {
		id, _, err := generate(o.PostQuantum)
		return id, err
	}
	id, ok := asPrivate(o.Identity)
	_, isHybrid := id.(*age.HybridIdentity)
	switch {
	case !ok:
		return nil, errors.New("only an age identity (AGE-SECRET-KEY-...) can become a group: SSH keys and plugins belong to people")
	case o.PostQuantum && !isHybrid:
		return nil, errors.New("the identity is not post-quantum (AGE-SECRET-KEY-PQ-...)")
	}
	return id, nil
}

// generate makes an identity, and its public half.
func generate(postQuantum bool) (private, age.Recipient, error) {
	if postQuantum {
		id, err := age.GenerateHybridIdentity()
		if err != nil {
			return nil, nil, fmt.Errorf("generate group identity: %w", err)
		}
		return id, id.Recipient(), nil
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, nil, fmt.Errorf("generate group identity: %w", err)
	}
	return id, id.Recipient(), nil
}

func recipientText(epoch int, public string) []byte {
	return fmt.Appendf(nil, "# epoch %d\n%s\n", epoch, public)
}

// Add gives one more member the group's identity; one who is a member already gets a fresh envelope, for keys that
// changed. It is one file, however many members there are.
func (s *Set) Add(repository string, k *Keyring, group string, m Member, ck ClusterKey) (Changes, error) {
	g, ok := s.Group(group)
	if !ok {
		return nil, fmt.Errorf("there is no group %q: plural crypto groups create %s", group, group)
	}
	if err := s.checkMember(g, m); err != nil {
		return nil, err
	}
	id, err := k.private(group, 0)
	if err != nil {
		return nil, err
	}
	if publicOf(id) != g.Recipient.Text {
		return nil, fmt.Errorf("the keyring's identity of the group %q is not that of %s", group, RecipientFile(group))
	}
	changes := Changes{}
	seats := envelopeSealer{set: s, repository: repository, clusterKey: ck}
	return changes, seats.seal(changes, g, id, m)
}

// checkMember says why m cannot be a member of g.
func (s *Set) checkMember(g *Group, m Member) error {
	if _, err := ParseMember(m.String()); err != nil {
		return err
	}
	for _, other := range g.Members {
		if other.Kind == m.Kind && other.Name != m.Name && policy.SameFile(other.Name, m.Name) {
			return clash("member", m.Name, other.Name)
		}
	}
	if m.Kind != Subgroup {
		return nil
	}
	if m.Name == g.Name || slices.Contains(s.closure([]string{g.Name}), m.Name) {
		return fmt.Errorf("the group %q cannot be a member of %q, which it contains: groups do not contain each other", m.Name, g.Name)
	}
	return nil
}

// envelopeSealer seals groups' identities to members.
type envelopeSealer struct {
	set        *Set
	repository string
	clusterKey ClusterKey
	// recipients are those of groups that are getting new ones, by name.
	recipients map[string]age.Recipient
}

// sealAll makes the envelopes of all members of g.
func (t envelopeSealer) sealAll(changes Changes, g *Group, id private) error {
	for _, m := range g.Members {
		if err := t.seal(changes, g, id, m); err != nil {
			return err
		}
	}
	return nil
}

func (t envelopeSealer) seal(changes Changes, g *Group, id private, m Member) error {
	to, err := t.recipientsOf(m)
	if err != nil {
		return err
	}
	file := EnvelopeFile(g.Name, m)
	changes[file], err = sealIdentity(label{t.repository, file, seal.Epoch{Group: g.Name, Number: g.Epoch}}, id, to)
	return err
}

func (t envelopeSealer) recipientsOf(m Member) ([]age.Recipient, error) {
	switch m.Kind {
	case Cluster:
		return t.cluster(m.Name)
	case Subgroup:
		if r, ok := t.recipients[m.Name]; ok {
			return []age.Recipient{r}, nil
		}
		g, ok := t.set.Group(m.Name)
		if !ok {
			return nil, fmt.Errorf("there is no group %q", m.Name)
		}
		return []age.Recipient{g.Recipient.Recipient}, nil
	}
	person, ok := t.set.Person(m.Name)
	if !ok {
		return nil, fmt.Errorf("%q has no public key: write one to %s", m.Name, PersonFile(m.Name))
	}
	to := make([]age.Recipient, len(person.Keys))
	for i, key := range person.Keys {
		to[i] = key.Recipient
	}
	return to, nil
}

func (t envelopeSealer) cluster(name string) ([]age.Recipient, error) {
	if t.clusterKey == nil {
		return nil, fmt.Errorf("the key of the cluster %q is not at hand", name)
	}
	text, err := t.clusterKey(name)
	if err != nil {
		return nil, fmt.Errorf("find key of cluster %q: %w", name, err)
	}
	r, err := keys.ParseRecipient(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("key of cluster %q: %w", name, err)
	case r.Kind != keys.Age && r.Kind != keys.AgePQ:
		return nil, fmt.Errorf("key of cluster %q: want an age recipient (age1...), found one of the kind %s", name, r.Kind)
	}
	return []age.Recipient{r.Recipient}, nil
}
