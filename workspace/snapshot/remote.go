package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"
)

// maxWants bounds how many refs one request names.
const maxWants = 10_000

// errNoRef is what a deleted branch looks like.
var errNoRef = errors.New("the remote has no such branch or tag")

// remote is what a repository said about itself.
type remote struct {
	capabilities *capability.List
	refs         memory.ReferenceStorage
	// tips are the hashes that any server lets a client ask for.
	tips map[plumbing.Hash]bool
	// fingerprint is the same as long as no ref moves.
	fingerprint string
}

func newRemote(advertised *packp.AdvRefs) (*remote, error) {
	refs, err := advertised.AllReferences()
	if err != nil {
		return nil, fmt.Errorf("read the remote's refs: %w", err)
	}
	r := &remote{capabilities: advertised.Capabilities, refs: refs, tips: map[plumbing.Hash]bool{}}
	for _, ref := range refs {
		if ref.Type() == plumbing.HashReference {
			r.tips[ref.Hash()] = true
		}
	}
	sum := sha256.New()
	for _, tip := range slices.SortedFunc(maps.Keys(r.tips), func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) }) {
		sum.Write(tip[:])
	}
	r.fingerprint = string(sum.Sum(nil))
	return r, nil
}

// resolve finds each ref's hash by git's own order: a full name, a tag, a branch.
func (r *remote) resolve(refs []string) (map[string]plumbing.Hash, []error) {
	tips := make(map[string]plumbing.Hash, len(refs))
	var problems []error
	for _, ref := range refs {
		tip, err := r.lookup(ref)
		if err != nil {
			problems = append(problems, &RefError{Ref: ref, Err: err})
			continue
		}
		tips[ref] = tip
	}
	return tips, problems
}

func (r *remote) lookup(ref string) (plumbing.Hash, error) {
	if plumbing.IsHash(ref) {
		return plumbing.NewHash(ref), nil
	}
	candidates := []string{ref, "refs/tags/" + ref, "refs/heads/" + ref}
	if ref == "" {
		candidates = []string{"HEAD"}
	}
	for _, name := range candidates {
		if found, err := storer.ResolveReference(r.refs, plumbing.ReferenceName(name)); err == nil {
			return found.Hash(), nil
		}
	}
	return plumbing.ZeroHash, errNoRef
}

// request asks for the wanted commits without their history, or for nothing (nil). A commit that the server gives out
// only as part of a branch is found by fetching all branches and tags with their history.
func (r *remote) request(wants, haves []plumbing.Hash) *packp.UploadPackRequest {
	if len(wants) == 0 {
		return nil
	}
	req := packp.NewUploadPackRequestFromCapabilities(r.capabilities)
	req.Capabilities.Delete(capability.ThinPack)
	if r.capabilities.Supports(capability.NoProgress) {
		_ = req.Capabilities.Set(capability.NoProgress) // cannot fail: the capability takes no argument
	}
	if !r.offers(wants) {
		req.Wants = r.everything()
		return req
	}
	req.Wants, req.Haves = wants, haves
	if r.capabilities.Supports(capability.Shallow) {
		_ = req.Capabilities.Set(capability.Shallow) // as above
		req.Depth, req.Shallows = packp.DepthCommits(1), haves
	}
	return req
}

// offers says whether the server lets all of these be asked for by their hash.
func (r *remote) offers(wants []plumbing.Hash) bool {
	if r.capabilities.Supports(capability.AllowReachableSHA1InWant) {
		return true
	}
	for _, want := range wants {
		if !r.tips[want] {
			return false
		}
	}
	return true
}

func (r *remote) everything() []plumbing.Hash {
	var wants []plumbing.Hash
	for name, ref := range r.refs {
		if ref.Type() == plumbing.HashReference && (name.IsBranch() || name.IsTag()) && len(wants) < maxWants {
			wants = append(wants, ref.Hash())
		}
	}
	return wants
}

// download runs the request and takes the pack into dir.
func download(ctx context.Context, session transport.UploadPackSession, req *packp.UploadPackRequest, dir string) error {
	res, err := session.UploadPack(ctx, req)
	if err != nil {
		return fmt.Errorf("request pack: %w", err)
	}
	var pack io.Reader = res
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, res)
	}
	return errors.Join(receivePack(ctx, pack, dir), res.Close())
}
