package sharing

import (
	"errors"
	"maps"
	"slices"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/vault"
	"github.com/pluralsh/plural/workspace"
)

// promise confirms what a plan leads to: whoever carries it out has confirmed it then.
type promise groups.Statement

// Confirmed implements vault.Confirmations.
func (p promise) Confirmed(string) (groups.Statement, error) { return groups.Statement(p), nil }

// reseal adds to the plan the files that are to be sealed anew: those whose readers it changes, and those that are
// committed in clear and must not be. What is sealed already is opened with before, which may be nil when nothing is.
func (p *Plan) reseal(keys workspace.Keys, before *vault.Vault) error {
	p.repo.UseKeys(workspace.Keys{Identities: keys.Identities, Confirmed: promise(p.After)})
	defer p.repo.UseKeys(keys)
	after, err := p.repo.Vault(p.Changes)
	if err != nil {
		return err
	}
	files, err := p.repo.Sealed(p.Changes)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if len(files[path]) == 0 {
			continue
		}
		plaintext, stale, err := p.stale(path, files[path], before, after)
		if err != nil {
			return err
		}
		if !stale {
			continue
		}
		if p.Changes[path], err = after.Seal(path, plaintext); err != nil {
			return err
		}
		p.Resealed = append(p.Resealed, path)
	}
	return nil
}

// stale is what the file at path holds, if it is not sealed for those who are to read it after the plan. A file of others,
// which the plan does not concern and the person cannot open, is left to them. One that was sealed for another place is an
// error: whoever put it there may be waiting for it to be sealed for others.
func (p *Plan) stale(path string, stored []byte, before, after *vault.Vault) (plaintext []byte, stale bool, err error) {
	if !seal.IsSealed(stored) {
		return stored, true, nil
	}
	claims, err := seal.Inspect(stored)
	if err != nil || before == nil {
		return nil, false, err
	}
	wanted, err := after.Epochs(path)
	if err != nil || claims != nil && slices.Equal(claims.Groups, wanted) {
		return nil, false, err
	}
	plaintext, bound, err := before.Read(path, stored)
	var locked *vault.LockedError
	if errors.As(err, &locked) && !slices.ContainsFunc(wanted, p.rotates) {
		return nil, false, nil
	}
	if err == nil {
		err = bound.Check(p.repository, path)
	}
	return plaintext, true, err
}

func (p *Plan) rotates(e seal.Epoch) bool { return slices.Contains(p.Rotated, e.Group) }
