// Package gitfilter owns git's clean and smudge filter for sealed files.
//
// It refuses to know whose keys there are and how a clone is set up: identities come from a function, and which paths
// reach it git decides. It never makes a key and never guesses one.
//
// Serve reads requests from git and hands each to a Filter. Into git goes sealed content only: where the index or HEAD
// hold the same plaintext for the same groups already, their ciphertext, since sealing is random and what did not change
// must not look changed; else the vault seals it. Out of git comes plaintext that was verified to its last byte, or, for
// whom a file is not sealed, the sealed file as it is. A file that does not belong where it lies is refused. What is worth
// saying is gathered, and said once, when git is done.
package gitfilter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/sealer"
)

// Config is what a Filter works with.
type Config struct {
	// Repo is the work tree that git filters for.
	Repo *gitcmd.Repo
	// Locked says that the work tree holds files as git keeps them: nothing is opened, and nothing in clear is taken.
	Locked bool
	// Identities are the person's. It is called at most once, and not before something is to be opened.
	Identities func() ([]age.Identity, error)
	// Confirmed is asked before anything is sealed.
	Confirmed sealer.Confirmations
	// Memory is the clone's; nil remembers nothing. Close saves it.
	Memory *sealer.Memory
	// Notes takes what people are told; git shows a filter's standard error.
	Notes io.Writer
}

// Filter is a Handler for one run of git. It is not safe for concurrent use.
type Filter struct {
	config Config
	root   *os.Root // the work tree's
	stored *stored
	notes  notes

	cleaned int    // how many files were sealed or kept
	ahead   *ahead // nil until there were many

	cleaning *opened
	smudging *opened
	treeish  string // that smudging is for
}

// opened is a vault, or why there is none.
type opened struct {
	vault *sealer.Vault
	err   error
}

// New makes a Filter. Close must be called when git is done.
func New(c Config) (*Filter, error) {
	root, err := os.OpenRoot(c.Repo.Top)
	if err != nil {
		return nil, fmt.Errorf("open work tree: %w", err)
	}
	if c.Identities != nil {
		c.Identities = sync.OnceValues(c.Identities)
	}
	return &Filter{config: c, root: root, stored: &stored{repo: c.Repo}}, nil
}

// Close says what was gathered, and ends what was started.
func (f *Filter) Close() error {
	f.notes.print(f.config.Notes)
	f.ahead.stop()
	var forgotten error
	if f.config.Memory != nil {
		forgotten = f.config.Memory.Save()
	}
	return errors.Join(forgotten, f.stored.close(), f.root.Close())
}

// Explain tells the person at once why a file was refused: git stops there.
func (f *Filter) Explain(path string, err error) {
	fmt.Fprintf(f.config.Notes, "plural: %q is refused: %v%s\n", path, err, fixOf(err))
}

// Handle turns one file.
func (f *Filter) Handle(ctx context.Context, r Request) ([]byte, error) {
	if len(r.Content) == 0 {
		return r.Content, nil // an empty file keeps no secret
	}
	if f.stored.moved() {
		f.forget()
	}
	if r.Direction == Smudge {
		return f.smudge(ctx, r)
	}
	return f.clean(ctx, r.Path, r.Content)
}

// forget drops all that was read before git changed the repository, as it does many times in a rebase.
func (f *Filter) forget() {
	f.ahead.stop()
	f.ahead, f.cleaned, f.cleaning, f.smudging = nil, 0, nil, nil
	f.stored.forget()
}

// cleanVault is the vault of the work tree as it stands.
func (f *Filter) cleanVault(ctx context.Context) (*sealer.Vault, error) {
	if f.cleaning == nil {
		f.cleaning = f.openVault(ctx, "")
	}
	return f.cleaning.vault, f.cleaning.err
}

// smudgeVault is the vault of the tree that is being checked out, as far as git names it: its .plural need not be in the
// work tree yet.
func (f *Filter) smudgeVault(ctx context.Context, treeish string) (*sealer.Vault, error) {
	if f.smudging == nil || f.treeish != treeish {
		f.smudging, f.treeish = f.openVault(ctx, treeish), treeish
	}
	return f.smudging.vault, f.smudging.err
}

// Refusal is why a file is not taken, with what to do about it.
type Refusal struct{ Reason, Solution string }

func (e *Refusal) Error() string { return e.Reason }

// Fix says what to do.
func (e *Refusal) Fix() string { return e.Solution }

// fixOf is an error's advice, ready to be put behind it.
func fixOf(err error) string {
	var adviser interface{ Fix() string }
	if errors.As(err, &adviser) && adviser.Fix() != "" {
		return ": " + adviser.Fix()
	}
	return ""
}
