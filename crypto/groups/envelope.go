package groups

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
)

// Envelope is the identity of one epoch of a group, sealed to one member.
type Envelope struct {
	Group string
	Epoch int
	// Path is the envelope's place in its repository. It names the member.
	Path   string
	Sealed []byte
}

// private is a group's identity in the two shapes that age has for one.
type private interface {
	age.Identity
	String() string
}

// label is what a sealed identity is: which epoch of which group, at which path of which repository.
type label struct {
	repository, path string
	seal.Epoch
}

// sealIdentity makes the content of an envelope, or of a retired identity.
func sealIdentity(l label, id private, to []age.Recipient) ([]byte, error) {
	text := fmt.Sprintf("# group %s epoch %d\n%s\n", l.Group, l.Number, id)
	b := seal.Binding{Repository: l.repository, Path: l.path, Groups: []seal.Epoch{l.Epoch}}
	sealed, err := seal.Seal([]byte(text), b, to...)
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", l.path, err)
	}
	return sealed, nil
}

// openIdentity opens what sealIdentity made, and refuses it when it was sealed as anything but l.
func openIdentity(l label, sealed []byte, with ...age.Identity) (private, error) {
	text, b, err := seal.Open(sealed, with...)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", l.path, err)
	}
	if err := b.Check(l.repository, l.path); err != nil {
		return nil, err
	}
	if !slices.Equal(b.Groups, []seal.Epoch{l.Epoch}) {
		return nil, fmt.Errorf("%s: holds %s, want epoch %d of the group %q: let a member share the group again", l.path, describe(b.Groups), l.Number, l.Group)
	}
	return parseIdentity(l.path, text)
}

func describe(groups []seal.Epoch) string {
	if len(groups) != 1 {
		return fmt.Sprintf("what is of %d groups", len(groups))
	}
	return fmt.Sprintf("epoch %d of the group %q", groups[0].Number, groups[0].Group)
}

func parseIdentity(path string, text []byte) (private, error) {
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil || len(ids) != 1 {
		return nil, fmt.Errorf("%s: does not hold one age identity: let a member share the group again", path) // the parser's error quotes the line
	}
	id, ok := asPrivate(ids[0])
	if !ok {
		return nil, fmt.Errorf("%s: holds an identity that no group has", path)
	}
	return id, nil
}

// asPrivate is false for identities that cannot be written down as one line: those of SSH and of plugins.
func asPrivate(id age.Identity) (private, bool) {
	switch id := id.(type) {
	case *age.X25519Identity:
		return id, true
	case *age.HybridIdentity:
		return id, true
	}
	return nil, false
}

// Envelopes are what m needs to reach all of its groups, each before those that need it. They are read, not opened.
func (s *Set) Envelopes(m Member) ([]Envelope, error) {
	type step struct {
		group  string
		member Member
	}
	var queue []step
	for _, name := range s.names {
		if s.groups[name].Has(m) {
			queue = append(queue, step{name, m})
		}
	}
	seen := map[string]bool{}
	var all []Envelope
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if seen[at.group] {
			continue
		}
		seen[at.group] = true
		file := EnvelopeFile(at.group, at.member)
		sealed, err := readBounded(s.files, file, maxEnvelope)
		if err != nil {
			return nil, err
		}
		all = append(all, Envelope{at.group, s.groups[at.group].Epoch, file, sealed})
		for _, outer := range s.within[at.group] {
			queue = append(queue, step{outer, Member{Subgroup, at.group}})
		}
	}
	return all, nil
}

// OpenEnvelopes opens what Envelopes gave, in its order, with a member's own identities. An envelope that does not open, or
// that is bound to another repository, path, group or epoch than it says, is an error; the keyring then still has the
// groups whose envelopes are good, so that one bad envelope takes one group away.
func OpenEnvelopes(repository string, list []Envelope, ids ...age.Identity) (*Keyring, error) {
	k := &Keyring{repository: repository, ids: ids, held: map[string]*held{}}
	if len(list) > MaxGroups {
		return k, fmt.Errorf("more than %d envelopes", MaxGroups)
	}
	var problems []error
	for _, e := range list {
		h := k.openEnvelope(e)
		problems = append(problems, h.err)
		if k.held[e.Group] == nil || h.err == nil {
			k.held[e.Group] = h
		}
	}
	return k, errors.Join(problems...)
}

func (k *Keyring) openEnvelope(e Envelope) *held {
	m, ok := memberOf(e)
	with := k.ids
	switch {
	case !ok:
		return &held{err: fmt.Errorf("%q is not the path of an envelope of the group %q", e.Path, e.Group)}
	case len(e.Sealed) > maxEnvelope:
		return &held{err: fmt.Errorf("%s: the file is larger than %d KiB", e.Path, maxEnvelope>>10)}
	case m.Kind == Subgroup:
		inner := k.held[m.Name]
		if inner == nil || inner.err != nil {
			return &held{err: fmt.Errorf("%s: sealed for the group %q, which is not open", e.Path, m.Name)}
		}
		with = []age.Identity{inner.current().id}
	}
	epoch := seal.Epoch{Group: e.Group, Number: e.Epoch}
	id, err := openIdentity(label{k.repository, e.Path, epoch}, e.Sealed, with...)
	if err != nil {
		return &held{err: err}
	}
	return newHeld(id, e.Epoch)
}

// memberOf reads the member from the path of an envelope.
func memberOf(e Envelope) (Member, bool) {
	if policy.CheckName(e.Group) != nil {
		return Member{}, false
	}
	for _, kind := range []Kind{Person, Cluster, Subgroup} {
		prefix := EnvelopeFile(e.Group, Member{Kind: kind})
		prefix = prefix[:len(prefix)-len(sealedExt)]
		if len(e.Path) <= len(prefix)+len(sealedExt) || e.Path[:len(prefix)] != prefix {
			continue
		}
		m := Member{kind, e.Path[len(prefix) : len(e.Path)-len(sealedExt)]}
		if _, err := ParseMember(m.String()); err == nil && EnvelopeFile(e.Group, m) == e.Path {
			return m, true
		}
	}
	return Member{}, false
}

// publicOf is the text of an identity's public half; it is empty for one that does not tell.
func publicOf(id age.Identity) string {
	text, ok := keys.RecipientOf(id)
	if !ok {
		return ""
	}
	return text
}
