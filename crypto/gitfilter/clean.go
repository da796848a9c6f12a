package gitfilter

import (
	"bytes"
	"context"
	"errors"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
)

// clean is what git is to keep of a file of the work tree. Nothing in clear leaves it, except what git has in clear, and
// what the confirmed policy does not cover.
func (f *Filter) clean(ctx context.Context, path string, content []byte) ([]byte, error) {
	if seal.IsSealed(content) {
		if _, err := seal.Inspect(content); err == nil {
			return content, nil
		}
		return f.known(ctx, path, content, &Refusal{"it begins like a sealed file, and is damaged", "git checkout the file, or write its content in clear"})
	}
	if f.config.Locked {
		return f.known(ctx, path, content, &Refusal{"the work tree is locked, and takes no file in clear", "plural crypto unlock"})
	}
	v, err := f.cleanVault(ctx)
	switch {
	case errors.Is(err, policy.ErrNone):
		return f.known(ctx, path, content, &Refusal{"this clone's settings say that it is to be sealed, and there is no " + policy.File + " here that says for whom", "merge a branch that has one"})
	case err != nil:
		return nil, err
	}
	must, err := v.Must(path)
	switch {
	case err != nil:
		return nil, err
	case must:
		return f.keep(ctx, v, path, content)
	}
	// The path was to be sealed once, or is in another work tree. That it is not here may be somebody else's doing.
	if err := v.Confirm(); err != nil {
		return f.unchanged(ctx, v, path, content, err)
	}
	return content, nil
}

// unchanged is what git has of content, sealed or in clear, and fails with otherwise where it has something else.
func (f *Filter) unchanged(ctx context.Context, v *sealer.Vault, path string, content []byte, otherwise error) ([]byte, error) {
	for _, look := range f.stored.places() {
		old, err := look(ctx, path)
		if err != nil {
			return nil, err
		}
		if !seal.IsSealed(old.content) {
			continue
		}
		if plaintext, _, err := v.Read(path, old.content); err == nil && bytes.Equal(plaintext, content) {
			return old.content, nil
		}
	}
	return f.known(ctx, path, content, otherwise)
}

// known lets content through that git has in clear already, and fails with otherwise for any other.
func (f *Filter) known(ctx context.Context, path string, content []byte, otherwise error) ([]byte, error) {
	for _, look := range f.stored.places() {
		old, err := look(ctx, path)
		if err != nil {
			return nil, err
		}
		if old.content != nil && bytes.Equal(old.content, content) {
			return content, nil
		}
	}
	return nil, otherwise
}

// keep is the ciphertext that git has of the content, and a new one when it has none that fits.
func (f *Filter) keep(ctx context.Context, v *sealer.Vault, path string, content []byte) (sealed []byte, err error) {
	if stored, err := f.foreseen(ctx, v, path, content); stored != nil || err != nil {
		return stored, err
	}
	tried := map[string]bool{"": true}
	for _, look := range f.stored.places() {
		old, lookErr := look(ctx, path)
		if lookErr != nil {
			return nil, lookErr
		}
		if tried[old.oid] {
			continue
		}
		tried[old.oid] = true
		var kept []byte
		if kept, _, err = v.Keep(path, content, old.content); err == nil && bytes.Equal(kept, old.content) {
			return kept, nil
		}
		sealed = kept
	}
	if len(tried) == 1 {
		return v.Seal(path, content)
	}
	return sealed, err
}

// foreseen is the ciphertext that git has of the content, when that was found ahead.
func (f *Filter) foreseen(ctx context.Context, v *sealer.Vault, path string, content []byte) ([]byte, error) {
	if f.cleaned++; f.cleaned < patience {
		return nil, nil
	}
	if f.ahead == nil {
		var err error
		if f.ahead, err = newAhead(ctx, f, v); err != nil {
			return nil, err
		}
	}
	return f.ahead.take(path, content), nil
}
