package groups

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/seal"
)

// NotMemberError means that none of the identities at hand reaches a group.
type NotMemberError struct {
	Group string
	// Readers are the people and clusters that do reach it; none when that is not known.
	Readers []Member
}

// Error names the first who could help.
func (e *NotMemberError) Error() string {
	const most = 5
	text := fmt.Sprintf("no identity here reaches the group %q", e.Group)
	if len(e.Readers) == 0 {
		return text
	}
	var names []string
	for _, m := range e.Readers[:min(most, len(e.Readers))] {
		names = append(names, m.String())
	}
	text += "; its readers are " + strings.Join(names, ", ")
	if more := len(e.Readers) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Keyring opens the identities of groups, each when it is first asked for. It is safe for concurrent use.
type Keyring struct {
	repository string
	ids        []age.Identity
	// set is nil for a keyring of OpenEnvelopes, which reads no files.
	set *Set

	mu   sync.Mutex
	held map[string]*held // by group; guarded by mu
}

// held is what a keyring knows of one group: the identities of its epochs, or why there is none.
type held struct {
	epoch int
	ids   map[int]private
	err   error
}

type current struct {
	id    private
	epoch int
}

func newHeld(id private, epoch int) *held {
	return &held{epoch: epoch, ids: map[int]private{epoch: id}}
}

func (h *held) current() current { return current{h.ids[h.epoch], h.epoch} }

// Unlock makes a keyring of a person's identities. Nothing is opened yet. An identity finds its envelopes by its public
// half; only for one that does not tell its public half, as those of plugins, the envelopes of all people are tried.
func (s *Set) Unlock(repository string, ids []age.Identity) *Keyring {
	return &Keyring{repository: repository, ids: slices.Clone(ids), set: s, held: map[string]*held{}}
}

// Identity is the identity of one epoch of a group; epoch 0 is the current one. The error is a *NotMemberError when no
// envelope of the group was sealed for the identities at hand, and a *seal.BindingError when the one that was had been
// sealed for another place.
func (k *Keyring) Identity(group string, epoch int) (age.Identity, error) {
	return k.private(group, epoch)
}

// Groups are the groups that the identities at hand reach, sorted.
func (k *Keyring) Groups() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set != nil {
		for _, name := range k.set.names {
			k.open(name)
		}
	}
	var names []string
	for name, h := range k.held {
		if h.err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// String hides the keys.
func (k *Keyring) String() string { return "[redacted]" }

// GoString hides the keys.
func (k *Keyring) GoString() string { return "[redacted]" }

// LogValue hides the keys.
func (k *Keyring) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalJSON hides the keys.
func (k *Keyring) MarshalJSON() ([]byte, error) { return []byte(`"[redacted]"`), nil }

func (k *Keyring) private(group string, epoch int) (private, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.open(group)
	switch {
	case h.err != nil:
		return nil, h.err
	case epoch == 0:
		return h.current().id, nil
	case epoch < 0 || epoch > h.epoch:
		return nil, fmt.Errorf("the group %q has no epoch %d here, it is at %d: pull the newest commits", group, epoch, h.epoch)
	}
	return k.walk(group, h, epoch)
}

// walk goes down the chain of retired identities, each sealed to the next.
func (k *Keyring) walk(group string, h *held, epoch int) (private, error) {
	for at := h.epoch - 1; at >= epoch; at-- {
		if h.ids[at] != nil {
			continue
		}
		if k.set == nil {
			return nil, fmt.Errorf("the identity of epoch %d of the group %q is not here, it is at %d", epoch, group, h.epoch)
		}
		file := retiredFile(group, at)
		sealed, err := readBounded(k.set.files, file, maxEnvelope)
		if err != nil {
			return nil, err
		}
		id, err := openIdentity(label{k.repository, file, seal.Epoch{Group: group, Number: at}}, sealed, h.ids[at+1])
		if err != nil {
			return nil, err
		}
		h.ids[at] = id
	}
	return h.ids[epoch], nil
}

// open is what is known of a group, after looking for it once.
func (k *Keyring) open(group string) *held {
	h, known := k.held[group]
	switch {
	case known:
		return h
	case k.set == nil:
		return &held{err: &NotMemberError{Group: group}}
	}
	g, ok := k.set.Group(group)
	if !ok {
		return &held{err: fmt.Errorf("there is no group %q", group)}
	}
	h = k.search(g)
	k.held[group] = h
	return h
}

// search tries the ways to a group's identity: to be it, an envelope of one's own, one of a group that can be opened, and
// at last the envelopes of everybody, for identities that do not say whose they are.
func (k *Keyring) search(g *Group) *held {
	if id := k.itself(g); id != nil {
		return newHeld(id, g.Epoch)
	}
	var problem error
	for _, try := range k.ways(g) {
		with := try.with()
		if len(with) == 0 {
			continue
		}
		id, err := k.openOf(g, try.member, with)
		if err == nil {
			return newHeld(id, g.Epoch)
		}
		if problem == nil && !errors.Is(err, seal.ErrNoMatch) && !errors.Is(err, fs.ErrNotExist) {
			problem = err
		}
	}
	if problem != nil {
		return &held{err: problem}
	}
	return &held{err: &NotMemberError{Group: g.Name, Readers: k.set.ReadersOf(g.Name)}}
}

// itself finds the group's own identity among those at hand.
func (k *Keyring) itself(g *Group) private {
	for _, id := range k.ids {
		if own, ok := asPrivate(id); ok && publicOf(id) == g.Recipient.Text {
			return own
		}
	}
	return nil
}

// envelopeKey is one envelope with the identities that may open it, which are looked for when its turn has come.
type envelopeKey struct {
	member Member
	with   func() []age.Identity
}

func (k *Keyring) ways(g *Group) []envelopeKey {
	own, strangers := k.owners()
	var first, nested, last []envelopeKey
	for _, m := range g.Members {
		switch {
		case m.Kind == Subgroup:
			nested = append(nested, envelopeKey{m, func() []age.Identity { return k.through(m.Name) }})
		case m.Kind == Person && own[m.Name] != nil:
			first = append(first, envelopeKey{m, func() []age.Identity { return own[m.Name] }})
		case m.Kind == Person && len(strangers) > 0:
			last = append(last, envelopeKey{m, func() []age.Identity { return strangers }})
		}
	}
	return slices.Concat(first, nested, last)
}

// owners sorts the identities at hand by the people whose public keys they belong to; those that do not tell are strangers.
func (k *Keyring) owners() (own map[string][]age.Identity, strangers []age.Identity) {
	own = map[string][]age.Identity{}
	for _, id := range k.ids {
		public := publicOf(id)
		if public == "" {
			strangers = append(strangers, id)
		}
		for _, name := range k.set.owners[public] {
			own[name] = append(own[name], id)
		}
	}
	return own, strangers
}

// through is the identity of a group that is a member. Groups do not contain each other, so this ends.
func (k *Keyring) through(group string) []age.Identity {
	if h := k.open(group); h.err == nil {
		return []age.Identity{h.current().id}
	}
	return nil
}

// openOf opens a member's envelope. What is inside must be the private half of what stands in recipient.txt: everybody can
// seal something for a member.
func (k *Keyring) openOf(g *Group, m Member, with []age.Identity) (private, error) {
	file := EnvelopeFile(g.Name, m)
	sealed, err := readBounded(k.set.files, file, maxEnvelope)
	if err != nil {
		return nil, err
	}
	id, err := openIdentity(label{k.repository, file, seal.Epoch{Group: g.Name, Number: g.Epoch}}, sealed, with...)
	if err != nil {
		return nil, err
	}
	if publicOf(id) != g.Recipient.Text {
		return nil, fmt.Errorf("%s: the identity inside does not belong to %s: let a member share the group again", file, RecipientFile(g.Name))
	}
	return id, nil
}
