// Package sealer owns what one person can seal and open in one repository.
//
// It refuses to know git and where identities are kept: the repository is an fs.FS, identities come from a function that
// is called at most once, and only when something is to be opened.
//
// Sealing takes a path to its groups by the policy and to their recipients by .plural/groups, and stops unless the person
// has confirmed exactly this list of who can read what. Opening goes the other way: the file's stanza names groups
// and epochs, an identity opens their envelopes, and the group's identity opens the file. Nothing is returned of a file
// that was not verified to its last byte.
package sealer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/trust"
)

// Confirmations remember which statement a person has confirmed for a repository. An empty statement means none.
type Confirmations interface {
	Confirmed(repository string) (groups.Statement, error)
}

// Config is what a Vault works with.
type Config struct {
	// Files is the repository's root; .plural is read there.
	Files fs.FS
	// Identities are the person's. It is called at most once; nil means that there are none.
	Identities func() ([]age.Identity, error)
	// Confirmed is asked before anything is sealed; nil refuses to seal.
	Confirmed Confirmations
	// Elsewhere gives other states of the repository in which the envelopes of older or newer epochs may lie. It is
	// called at most once, when Files has them not; it may be nil.
	Elsewhere func() []fs.FS
	// Memory spares opening again what was opened before; nil remembers nothing.
	Memory *Memory
}

// Vault seals and opens. It is safe for concurrent use.
type Vault struct {
	config     Config
	policy     *policy.Policy
	groups     *groups.Set
	ring       func() (*groups.Keyring, error)
	elsewhere  func() []*groups.Keyring
	confirmed  func() error
	identities func() ([]age.Identity, error)

	mu     sync.Mutex
	opened map[seal.Epoch]age.Identity // guarded by mu
}

// Open reads the policy and the groups. Without a policy the error is policy.ErrNone.
func Open(c Config) (*Vault, error) {
	p, err := policy.Load(c.Files)
	if err != nil {
		return nil, err
	}
	set, err := groups.Load(c.Files)
	if err != nil {
		return nil, err
	}
	v := &Vault{config: c, policy: p, groups: set, opened: map[seal.Epoch]age.Identity{}}
	v.identities = sync.OnceValues(v.loadIdentities)
	v.ring = sync.OnceValues(func() (*groups.Keyring, error) { return v.unlock(set) })
	v.elsewhere = sync.OnceValue(v.unlockElsewhere)
	v.confirmed = sync.OnceValue(v.checkConfirmed)
	return v, nil
}

// Policy is which paths are sealed for whom.
func (v *Vault) Policy() *policy.Policy { return v.policy }

// Groups are the groups with their members.
func (v *Vault) Groups() *groups.Set { return v.groups }

// Must says whether the file at path must be sealed.
func (v *Vault) Must(path string) (bool, error) {
	_, must, err := v.policy.Match(path)
	return must, err
}

// Keyring is what the person's identities open of the groups.
func (v *Vault) Keyring() (*groups.Keyring, error) { return v.ring() }

func (v *Vault) loadIdentities() ([]age.Identity, error) {
	if v.config.Identities == nil {
		return nil, nil
	}
	return v.config.Identities()
}

func (v *Vault) unlock(set *groups.Set) (*groups.Keyring, error) {
	ids, err := v.identities()
	if err != nil {
		return nil, err
	}
	return set.Unlock(v.policy.Repository, ids), nil
}

// unlockElsewhere opens what it can of the repository's other states; one that does not read is left out, since whoever
// asks is told by the first what is missing.
func (v *Vault) unlockElsewhere() []*groups.Keyring {
	if v.config.Elsewhere == nil {
		return nil
	}
	var rings []*groups.Keyring
	for _, files := range v.config.Elsewhere() {
		set, err := groups.Load(files)
		if err != nil {
			continue
		}
		if ring, err := v.unlock(set); err == nil {
			rings = append(rings, ring)
		}
	}
	return rings
}

// Confirm fails with a *trust.UnconfirmedError when the person has not confirmed who can read what as it stands.
func (v *Vault) Confirm() error { return v.confirmed() }

func (v *Vault) checkConfirmed() error {
	var known groups.Statement
	if v.config.Confirmed != nil {
		var err error
		if known, err = v.config.Confirmed.Confirmed(v.policy.Repository); err != nil {
			return err
		}
	}
	return trust.Check(known.WithoutKeys(), v.Statement())
}

// Statement is who can read what, as it stands.
func (v *Vault) Statement() groups.Statement { return v.groups.Statement(v.policy) }

// Seal seals plaintext for path. The error is a *trust.UnconfirmedError when the person has not confirmed for whom.
func (v *Vault) Seal(path string, plaintext []byte) ([]byte, error) {
	binding, to, err := v.audience(path)
	if err != nil {
		return nil, err
	}
	if err := v.confirmed(); err != nil {
		return nil, err
	}
	if err := v.groups.Check(v.policy); err != nil {
		return nil, err
	}
	sealed, err := seal.Seal(plaintext, binding, to...)
	if err != nil {
		return nil, fmt.Errorf("seal %q: %w", path, err)
	}
	return sealed, nil
}

// Epochs are the group identities that a path is sealed for now, sorted by group; none for a path that no pattern covers.
func (v *Vault) Epochs(path string) ([]seal.Epoch, error) {
	if must, err := v.Must(path); err != nil || !must {
		return nil, err
	}
	binding, _, err := v.audience(path)
	return binding.Groups, err
}

// audience is for whom a path is sealed now.
func (v *Vault) audience(path string) (seal.Binding, []age.Recipient, error) {
	names, must, err := v.policy.Match(path)
	if err != nil {
		return seal.Binding{}, nil, err
	}
	if !must {
		return seal.Binding{}, nil, fmt.Errorf("seal %q: no pattern of %s covers it", path, policy.File)
	}
	binding := seal.Binding{Repository: v.policy.Repository, Path: path}
	to := make([]age.Recipient, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		group, ok := v.groups.Group(name)
		if !ok {
			return seal.Binding{}, nil, fmt.Errorf("seal %q: %s names the group %q, which does not exist: plural crypto groups create %s", path, policy.File, name, name)
		}
		binding.Groups = append(binding.Groups, seal.Epoch{Group: name, Number: group.Epoch})
		to = append(to, group.Recipient.Recipient)
	}
	return binding, to, nil
}

// Keep is Seal, except that stored, what git holds at the path already, is returned when it says the same to the same
// groups: sealing is random, and what did not change must not look changed. Moved is a *seal.BindingError when stored
// fits in everything but its path. Content that is sealed already is returned as it is, and so is an empty file, which
// keeps no secret.
func (v *Vault) Keep(path string, content, stored []byte) (sealed []byte, moved, err error) {
	if len(content) == 0 {
		return content, nil, nil
	}
	if seal.IsSealed(content) {
		if _, err := seal.Inspect(content); err == nil {
			return content, nil, nil
		}
	}
	if stored != nil {
		fits, moved, err := v.fits(path, content, stored)
		if err != nil {
			return nil, nil, err
		}
		if fits {
			return stored, moved, nil
		}
	}
	sealed, err = v.Seal(path, content)
	return sealed, nil, err
}

// fits says whether stored holds content for those whom path is for now. What cannot be opened does not fit.
func (v *Vault) fits(path string, content, stored []byte) (ok bool, moved, err error) {
	want, _, err := v.audience(path)
	if err != nil {
		return false, nil, err
	}
	claims, err := seal.Inspect(stored)
	if err != nil || claims == nil || claims.Repository != want.Repository || !slices.Equal(claims.Groups, want.Groups) {
		return false, nil, nil
	}
	moved = claims.Check(want.Repository, path)
	if v.remembers(claims, stored, content) {
		return true, moved, nil
	}
	plaintext, _, err := v.Read(path, stored)
	var locked *LockedError
	switch {
	case errors.As(err, &locked), errors.Is(err, seal.ErrDamaged), errors.Is(err, seal.ErrNoMatch):
		return false, nil, nil
	case err != nil:
		return false, nil, err
	}
	return bytes.Equal(plaintext, content), moved, nil
}

// Open opens the file at path, and refuses one that was sealed for another path or repository, or for an identity that
// the group has retired. Errors are *LockedError, *seal.BindingError, *RetiredError, and those of seal.Open.
func (v *Vault) Open(path string, sealed []byte) ([]byte, error) {
	plaintext, binding, err := v.Read(path, sealed)
	if err != nil {
		return nil, err
	}
	if err := v.Check(path, binding); err != nil {
		return nil, err
	}
	return plaintext, nil
}

// Check judges the binding of the file at path as Open does.
func (v *Vault) Check(path string, binding *seal.Binding) error {
	if err := binding.Check(v.policy.Repository, path); err != nil {
		return err
	}
	for _, epoch := range binding.Groups {
		group, ok := v.groups.Group(epoch.Group)
		if !ok || group.Epoch != epoch.Number {
			return &RetiredError{Path: path, Group: epoch.Group, Epoch: epoch.Number, Exists: ok}
		}
	}
	return nil
}

// Read opens a file of any epoch and whatever it is bound to: the caller judges the binding, which is nil for a file that
// is bound to nothing.
func (v *Vault) Read(path string, sealed []byte) ([]byte, *seal.Binding, error) {
	claims, err := seal.Inspect(sealed)
	if err != nil {
		return nil, nil, fmt.Errorf("open %q: %w", path, err)
	}
	with, err := v.identitiesFor(path, claims)
	if err != nil {
		return nil, nil, err
	}
	plaintext, binding, err := seal.Open(sealed, with...)
	if err != nil {
		return nil, nil, fmt.Errorf("open %q: %w", path, err)
	}
	v.remember(binding, sealed, plaintext)
	return plaintext, binding, nil
}

// identitiesFor are the group identities that may open a file with these claims.
func (v *Vault) identitiesFor(path string, claims *seal.Binding) ([]age.Identity, error) {
	ring, err := v.ring()
	if err != nil {
		return nil, err
	}
	wanted := v.epochs(ring, claims)
	var with []age.Identity
	for _, epoch := range wanted {
		if id := v.identity(ring, epoch); id != nil {
			with = append(with, id)
		}
	}
	if len(with) == 0 {
		return nil, v.locked(path, claims)
	}
	return with, nil
}

// epochs are the group identities to try: those that the file names, and all current ones for a file that names none.
func (v *Vault) epochs(ring *groups.Keyring, claims *seal.Binding) []seal.Epoch {
	if claims != nil {
		return claims.Groups
	}
	var all []seal.Epoch
	for _, name := range ring.Groups() {
		if group, ok := v.groups.Group(name); ok {
			all = append(all, seal.Epoch{Group: name, Number: group.Epoch})
		}
	}
	return all
}

// identity is the identity of one epoch of a group, nil when the person cannot reach it.
func (v *Vault) identity(ring *groups.Keyring, epoch seal.Epoch) age.Identity {
	v.mu.Lock()
	id, known := v.opened[epoch]
	v.mu.Unlock()
	if known {
		return id
	}
	id, err := ring.Identity(epoch.Group, epoch.Number)
	if err != nil {
		id = nil
		for _, other := range v.elsewhere() {
			if id, err = other.Identity(epoch.Group, epoch.Number); err == nil {
				break
			}
			id = nil
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.opened[epoch] = id
	return id
}
