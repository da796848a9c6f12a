package committer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/gitsource"
	commits "github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// signatures are whose commits of the installation repo are believed: people's, whatever they change, and the hub's own as far as
// they change nothing but what yamledit.Only lets through since the last commit of a person. So whoever has the hub's key, and may
// push, deploys nothing with it.
type signatures struct {
	people *verify.Keys // nil where everybody's are
	// own signs the hub's commits; nil for a hub that makes none.
	own     *verify.Signer
	ownKeys *verify.Keys
}

func parseSignatures(keys [][]byte, signingKey []byte) (s signatures, err error) {
	if len(keys) > 0 {
		if s.people, err = verify.ParseKeys(keys...); err != nil {
			return s, fmt.Errorf("keys of the installation repo: %w", err)
		}
	}
	if len(signingKey) == 0 {
		return s, nil
	}
	if s.own, err = verify.ParseSigner(signingKey); err != nil {
		return s, fmt.Errorf("the hub's signing key: %w", err)
	}
	if s.ownKeys, err = verify.ParseKeys(s.own.Public()); err != nil {
		return s, fmt.Errorf("the hub's signing key: %w", err)
	}
	return s, nil
}

// PublicKey is the one of the hub's commits; nil where it signs none.
func (c *Committer) PublicKey() []byte {
	if c.signatures.own == nil {
		return nil
	}
	return c.signatures.own.Public()
}

// Made says whether the hub made the tip of a branch: by its signature where it has a key, or else by what the commit says of itself.
func (c *Committer) Made(tip *workspace.Tip, by workspace.Author) (bool, error) {
	past, err := tip.Past()
	if err != nil || past[0].By != by {
		return false, err
	}
	if c.signatures.own == nil {
		return true, nil
	}
	o, err := tip.Signed(tip.ID)
	if err != nil {
		return false, err
	}
	_, foreign := c.signatures.ownKeys.Git(o)
	return foreign == nil, nil
}

// Check judges what the installation repo's branch names, where there are keys.
func (c *Committer) Check(ctx context.Context, o verify.Object) error {
	s := &c.signatures
	_, err := s.people.Git(o)
	if err == nil || s.own == nil || o.Kind != "commit" {
		return err
	}
	if _, foreign := s.ownKeys.Git(o); foreign != nil {
		return err
	}
	var verdict error
	err = c.Look(ctx, HistoryDepth, func(ctx context.Context, tip *workspace.Tip) error {
		verdict = s.checkHubCommits(ctx, tip, o)
		return nil
	})
	if err != nil {
		return undecided("what the hub committed it on", err)
	}
	return verdict
}

// undecided is for what cannot be read now, or not within bounds: that says nothing against a commit. Were it a verdict, it
// would be remembered, and the branch could be moved back behind a commit that is good.
func undecided(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", gitsource.ErrUndecided, what, err)
}

// tip judges what the hub is about to commit on: a commit of its own would vouch for it.
func (s *signatures) tip(ctx context.Context, tip *workspace.Tip) error {
	o, err := tip.Signed(tip.ID)
	if err != nil {
		return undecided("the newest commit", err)
	}
	if _, err := s.people.Git(o); err == nil {
		return nil
	}
	return s.checkHubCommits(ctx, tip, o)
}

// checkHubCommits follows the hub's commits down, from one of them to the last that a person signed, and looks at what changed
// since. What lies above it, and where history is cut, is the git host's word: it decides nothing.
func (s *signatures) checkHubCommits(ctx context.Context, tip *workspace.Tip, from verify.Object) error {
	past, err := tip.Past()
	if err != nil {
		return undecided("the branch's history", err)
	}
	top := ""
	for _, p := range past {
		o, err := tip.Signed(p.ID)
		if top == "" && (err != nil || !bytes.Equal(o.Payload, from.Payload) || !bytes.Equal(o.Signature, from.Signature)) {
			continue // pushed since
		}
		if err != nil {
			return undecided("the hub's commits", err)
		}
		if top == "" {
			top = p.ID
		}
		_, unknown := s.people.Git(o)
		if unknown == nil {
			return s.covered(ctx, tip, p.ID, top)
		}
		if _, foreign := s.ownKeys.Git(o); foreign != nil {
			return fmt.Errorf("commit %.12s, below the hub's own: %w", p.ID, unknown)
		}
		if p.Merge { // which would come out of more than what is looked at here
			return fmt.Errorf("commit %.12s is a merge, and the hub's key covers none", p.ID)
		}
	}
	if top == "" {
		return fmt.Errorf("%w: the branch has moved on", gitsource.ErrUndecided)
	}
	return fmt.Errorf("%w: %w", gitsource.ErrUndecided, &yamledit.Error{
		Message: fmt.Sprintf("the last %d commits of the installation repo are the hub's own", len(past)),
		Fix:     "somebody has to sign one: git commit --allow-empty -S",
	})
}

// covered wants the hub's commits since one of a person to change what the hub may, and nothing else.
func (s *signatures) covered(ctx context.Context, tip *workspace.Tip, from, to string) error {
	changes, err := commits.Of(tip.Objects()).Changes(ctx, from, to, commits.Scope{})
	if err != nil {
		return undecided("what the hub's commits change", err)
	}
	for _, c := range changes {
		if !fleet.Document(c.Path) {
			return fmt.Errorf("the hub's commits since %.12s change %q, which its key does not cover", from, c.Path)
		}
		if !c.Before.Plain() || !c.After.Plain() || c.Before.Mode != c.After.Mode {
			return fmt.Errorf("the hub's commits since %.12s add, remove or retype %q, which its key does not cover", from, c.Path)
		}
		before, err := blob(tip, c.Before.Hash)
		if err != nil {
			return undecided("what the hub's commits change", err)
		}
		after, err := blob(tip, c.After.Hash)
		if err != nil {
			return undecided("what the hub's commits change", err)
		}
		if err := yamledit.Only(c.Path, before, after); err != nil {
			return fmt.Errorf("the hub's commits since %.12s change what its key does not cover: %w", from, err)
		}
	}
	return nil
}

// maxBlob bounds a file that the hub may have changed, in bytes; yamledit.Only says what of it is too long.
const maxBlob = 2 << 20

func blob(tip *workspace.Tip, id plumbing.Hash) ([]byte, error) {
	found, err := tip.Objects().EncodedObject(plumbing.BlobObject, id)
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", id, err)
	}
	in, err := found.Reader()
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", id, err)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxBlob))
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("read blob %s: %w", id, err)
	}
	return text, nil
}
