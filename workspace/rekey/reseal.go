package rekey

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/workspace"
)

// maxResealed bounds what one plan seals anew, in bytes. It becomes one commit, and until then is in memory, and in the
// journal as base64.
const maxResealed = 256 << 20

// promise confirms what a plan leads to: whoever carries it out has confirmed it then.
type promise groups.Statement

// Confirmed implements sealer.Confirmations.
func (p promise) Confirmed(string) (groups.Statement, error) { return groups.Statement(p), nil }

// reseal adds to the plan the files that are to be sealed anew: those whose readers it changes, and those that are
// committed in clear and must not be. What is sealed already is opened with before, which may be nil when nothing is.
func (p *Plan) reseal(ctx context.Context, keys workspace.Keys, before *sealer.Vault) error {
	p.repo.UseKeys(workspace.Keys{Identities: keys.Identities, Confirmed: promise(p.After)})
	defer p.repo.UseKeys(keys)
	after, err := p.repo.Vault(p.Changes)
	if err != nil {
		return err
	}
	if err := p.repo.Sealed(ctx, p.Changes, func(path string, stored []byte) error {
		if len(stored) == 0 {
			return nil
		}
		plaintext, stale, err := p.stale(path, stored, before, after)
		if err != nil || !stale {
			return err
		}
		sealed, err := after.Seal(path, plaintext)
		if err != nil {
			return err
		}
		return p.replace(path, sealed)
	}); err != nil {
		return err
	}
	slices.Sort(p.Resealed)
	return nil
}

// replace puts what is sealed anew into the plan.
func (p *Plan) replace(path string, sealed []byte) error {
	if p.size += len(sealed); p.size > maxResealed {
		return &workspace.Error{
			Message: fmt.Sprintf("the files to seal anew are larger than %d MiB together, counted at %.300q", maxResealed>>20, path),
			Fix: "give some patterns of " + policy.File + " a group of their own (plural crypto groups create), " +
				"and change one group after the other",
		}
	}
	p.Changes[path] = sealed
	p.Resealed = append(p.Resealed, path)
	return nil
}

// stale is what the file at path holds, if it is not sealed for those who are to read it after the plan. A file of others,
// which the plan does not concern and the person cannot open, is left to them. One that was sealed for another place is an
// error: whoever put it there may be waiting for it to be sealed for others.
func (p *Plan) stale(path string, stored []byte, before, after *sealer.Vault) (plaintext []byte, stale bool, err error) {
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
	var locked *sealer.LockedError
	if errors.As(err, &locked) && !slices.ContainsFunc(wanted, p.rotates) {
		return nil, false, nil
	}
	if err == nil {
		err = bound.Check(p.repository, path)
	}
	return plaintext, true, err
}

func (p *Plan) rotates(e seal.Epoch) bool { return slices.Contains(p.Rotated, e.Group) }
