package gitsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pluralsh/plural/crypto/verify"
)

// A signature says who made an object, and nothing of the ref that names it: whoever can write refs could name any object
// that was ever signed. So what a ref names is bound to the ref. A tag's object says its own name. A branch's commit says
// nothing, but it says what it came out of.

// RewindsFollow is the one value of Options.Rewinds beside the empty one.
const RewindsFollow = "follow"

var (
	errLightweight = errors.New("the tag is a lightweight one, which nobody can sign: " +
		"make it anew with git tag -s, or name the commit itself as ref")
	errNoTag = errors.New("it is a tag's object where a branch's commit is expected")
)

// verdict is what a signature was judged for.
type verdict struct{ name, id string }

// verifyTip judges all that there is to judge of what a ref names: commit is id, or what the tag id leads to.
func (s *Source) verifyTip(ctx context.Context, j *job, ref, id, commit string) error {
	if err := s.verify(ctx, j, ref, id); err != nil {
		return err
	}
	if err := s.checkDescends(ctx, j, ref, commit); err != nil {
		return fmt.Errorf("commit %.12s is not verified: %w", commit, err)
	}
	return nil
}

// verify judges the signature of what a ref names, and whether it was made for that name.
func (s *Source) verify(ctx context.Context, j *job, ref, id string) error {
	if s.options.Check == nil {
		return nil
	}
	key := verdict{j.names[ref], id}
	if known, ok := s.verdicts[key]; ok {
		return known
	}
	kind, body, err := j.into.Object(id)
	if err != nil {
		return fmt.Errorf("read %s to verify it: %w", id, err)
	}
	if err = s.checkSignature(ctx, kind, body); err == nil {
		err = namedAs(key.name, kind, body)
	}
	if err != nil {
		err = fmt.Errorf("%s %.12s is not verified: %w", kind, id, err)
	}
	if !errors.Is(err, ErrUndecided) {
		s.verdicts[key] = err
	}
	return err
}

func (s *Source) checkSignature(ctx context.Context, kind string, body []byte) error {
	object, err := verify.Split(kind, body)
	if err != nil {
		return err
	}
	return s.options.Check(ctx, object)
}

// namedAs says whether a signed object may stand under the full name of a ref. One that was asked for by its id has no name.
func namedAs(name, kind string, body []byte) error {
	tag, isTag := strings.CutPrefix(name, "refs/tags/")
	switch {
	case name == "":
		return nil
	case isTag && kind != "tag":
		return errLightweight
	case !isTag && kind == "tag":
		return errNoTag
	case isTag && tagName(body) != tag:
		return fmt.Errorf("it was signed as the tag %.100q: somebody put it in the place of %q", tagName(body), tag)
	}
	return nil
}

// tagName is what a tag's object calls itself: its third line, after the object's id and type.
func tagName(body []byte) string {
	const headers = 4
	lines := bytes.SplitN(body, []byte("\n"), headers)
	if len(lines) < headers {
		return ""
	}
	name, _ := bytes.CutPrefix(lines[2], []byte("tag "))
	return string(name)
}

// checkDescends says why a branch may not be at a commit: it has to come out of the floor, and out of where the branch was.
func (s *Source) checkDescends(ctx context.Context, j *job, ref, commit string) error {
	if name := j.names[ref]; s.options.Check == nil || name == "" || strings.HasPrefix(name, "refs/tags/") {
		return nil
	}
	floor, was := s.options.DescendsFrom, original(j.into.Tip(ref))
	if s.options.Rewinds != RewindsFollow && was != commit && s.wasVerified(ctx, j, ref) {
		came, err := s.cameOutOf(ctx, j, commit, was)
		if err != nil {
			return err
		}
		if !came {
			return fmt.Errorf("the branch was at %.12s, and it cannot be shown that this came out of it: "+
				"revert by a new signed commit, or say beside the keys that rewinds are followed", was)
		}
		if s.proofs[descent{was, floor}] {
			s.proofs[descent{commit, floor}] = true
			return nil
		}
	}
	if floor == "" {
		return nil
	}
	came, err := s.cameOutOf(ctx, j, commit, floor)
	if err == nil && !came {
		err = fmt.Errorf("it cannot be shown that it came out of the floor %.12s, below which nothing is believed", floor)
	}
	return err
}

// wasVerified says whether what a ref named before counts for what may come after. What is not here any more does.
func (s *Source) wasVerified(ctx context.Context, j *job, ref string) bool {
	known := j.into.Tip(ref)
	if known.Commit == "" {
		return false
	}
	kind, body, err := j.into.Object(strings.TrimSuffix(known.ID, grafted))
	if err != nil {
		return true
	}
	err = s.checkSignature(ctx, kind, body)
	return err == nil || errors.Is(err, ErrUndecided)
}
