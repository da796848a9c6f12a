package gitfilter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
)

// smudge is what the work tree is to hold of a file of git's. What cannot be opened stays as it is; what is damaged, or
// does not belong where it lies, is an error.
func (f *Filter) smudge(ctx context.Context, r Request) ([]byte, error) {
	if f.config.Locked {
		return r.Content, nil
	}
	v, err := f.smudgeVault(ctx, r.Treeish)
	if !seal.IsSealed(r.Content) {
		f.noteClear(v, r.Path)
		return r.Content, nil
	}
	if err != nil {
		f.notes.add(staySealed, err.Error()+fixOf(err), r.Path)
		return r.Content, nil
	}
	plaintext, binding, err := f.open(ctx, v, r)
	switch {
	case errors.Is(err, seal.ErrDamaged), errors.Is(err, seal.ErrNoMatch):
		return nil, &Refusal{err.Error(), "restore an older version of it: git log -- " + r.Path}
	case err != nil:
		f.noteSealed(err, r.Path)
		return r.Content, nil
	}
	if err := f.place(ctx, v, r, binding); err != nil {
		return nil, err
	}
	if widened, err := widens(v, r.Path, binding); err != nil {
		return nil, err
	} else if widened {
		f.notes.add(staySealed, "sealed for others than read this path, where somebody has moved it; if it is meant to be there: plural crypto encrypt "+r.Path, r.Path)
		return r.Content, nil
	}
	return plaintext, nil
}

// widens says whether a file was moved to where others read it than those it was sealed for, or to where nothing is
// sealed: in clear there, the next "git add" would give it to them.
func widens(v *sealer.Vault, path string, binding *seal.Binding) (bool, error) {
	if binding == nil || binding.Path == path {
		return false, nil
	}
	wanted, err := v.Epochs(path)
	reads := func(e seal.Epoch) bool {
		return slices.ContainsFunc(binding.Groups, func(b seal.Epoch) bool { return b.Group == e.Group })
	}
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(e seal.Epoch) bool { return !reads(e) }), err
}

// open reads a file. One of a newer epoch than the vault's is tried again with a fresh vault: without being told what git
// checks out, the first was opened before the new .plural was in the work tree.
func (f *Filter) open(ctx context.Context, v *sealer.Vault, r Request) ([]byte, *seal.Binding, error) {
	plaintext, binding, err := v.Read(r.Path, r.Content)
	var locked *sealer.LockedError
	if r.Treeish != "" || !errors.As(err, &locked) || !isNewer(v, r.Content) {
		return plaintext, binding, err
	}
	f.smudging = nil
	fresh, openErr := f.smudgeVault(ctx, "")
	if openErr != nil {
		return nil, nil, openErr
	}
	return fresh.Read(r.Path, r.Content)
}

// isNewer says whether a file is sealed for an epoch that the vault does not know yet.
func isNewer(v *sealer.Vault, sealed []byte) bool {
	claims, err := seal.Inspect(sealed)
	if err != nil || claims == nil {
		return false
	}
	for _, epoch := range claims.Groups {
		if group, ok := v.Groups().Group(epoch.Group); !ok || group.Epoch < epoch.Number {
			return true
		}
	}
	return false
}

// place judges whether an opened file belongs where git puts it. One whose own place is empty was renamed; one whose own
// place is taken was put in another's stead.
func (f *Filter) place(ctx context.Context, v *sealer.Vault, r Request, binding *seal.Binding) error {
	var misplaced *seal.BindingError
	if err := binding.Check(v.Policy().Repository, r.Path); !errors.As(err, &misplaced) {
		return err
	}
	if binding == nil {
		f.notes.add(areBound, "to nothing, so anybody could have put it there: write it in clear and git add it", r.Path)
		return nil
	}
	if !misplaced.Moved() {
		return &Refusal{misplaced.Error(), "take it from the repository that it belongs to, in clear"}
	}
	taken, err := f.exists(ctx, r.Treeish, binding.Path)
	switch {
	case err != nil:
		return err
	case taken:
		return &Refusal{fmt.Sprintf("%v, and %q exists too", misplaced, binding.Path), "look at who did that: git log -- " + r.Path}
	}
	f.notes.add(areBound, "to a former path: the next commit seals it again", r.Path)
	return nil
}

// exists says whether there is a file at path in the tree that git checks out, or, when git does not say which, in the
// work tree, from which git removes files before it writes others.
func (f *Filter) exists(ctx context.Context, treeish, path string) (bool, error) {
	if treeish != "" {
		return f.stored.has(ctx, treeish, path)
	}
	_, err := f.root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return true, err
}

// noteClear says that git has in clear what must be sealed.
func (f *Filter) noteClear(v *sealer.Vault, path string) {
	if v == nil {
		return
	}
	if must, err := v.Must(path); must || err != nil {
		f.notes.add(areClear, "and "+policy.File+" wants it sealed: plural crypto status", path)
	}
}

// noteSealed says why a file cannot be opened.
func (f *Filter) noteSealed(err error, path string) {
	var locked *sealer.LockedError
	if !errors.As(err, &locked) {
		f.notes.add(staySealed, err.Error()+fixOf(err), path)
		return
	}
	why := "you are not a member of " + strings.Join(locked.Groups, ", ")
	switch {
	case locked.NoIdentity:
		why = "there is no identity here"
	case len(locked.Groups) == 0:
		why = "no identity here opens them"
	}
	if len(locked.Readers) > 0 {
		why += "; " + strings.Join(locked.Readers, ", ") + " can read them"
	}
	f.notes.add(staySealed, why+fixOf(err), path)
}
