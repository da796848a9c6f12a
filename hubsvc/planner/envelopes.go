package planner

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// sealedFolder holds the groups with their members' envelopes.
const sealedFolder = ".plural"

// maxEnvelopes bounds what the envelopes of one cluster take of its poll, in bytes. One is some hundred bytes, and a
// cluster can be in all the groups that there may be.
const maxEnvelopes = 1 << 20

// envelopes are what each cluster needs to reach its groups, as one state of the repository holds them. The hub passes
// them on: it can open none.
type envelopes struct {
	// set is nil where the repository has no groups.
	set *groups.Set
	// of is filled in as clusters are asked about.
	of map[string][]*api.Envelope
}

// envelopeCache remembers the envelopes of the state that it was asked for last, so that a commit which touches no group
// reads none. It is not safe for concurrent use.
type envelopeCache struct {
	id   snapshot.Hash
	last *envelopes
}

// in are the envelopes of a commit.
func (c *envelopeCache) in(snap *snapshot.Snapshot) (*envelopes, error) {
	id, _, err := snap.Hash(sealedFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return &envelopes{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find groups: %w", err)
	}
	if c.last != nil && c.id == id {
		return c.last, nil
	}
	set, err := groups.Load(snap.FS())
	if err != nil {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	c.id, c.last = id, &envelopes{set: set, of: map[string][]*api.Envelope{}}
	return c.last, nil
}

// cluster lists what a cluster needs.
func (e *envelopes) cluster(name string) ([]*api.Envelope, error) {
	if e.set == nil {
		return nil, nil
	}
	if known, ok := e.of[name]; ok {
		return known, nil
	}
	list, err := e.set.Envelopes(groups.Member{Kind: groups.Cluster, Name: name})
	if err != nil {
		return nil, fmt.Errorf("read envelopes: %w", err)
	}
	out, size := make([]*api.Envelope, len(list)), 0
	for i, each := range list {
		if size += len(each.Sealed); size > maxEnvelopes {
			return nil, fmt.Errorf("read envelopes: those up to %s take more than %d KiB", each.Path, maxEnvelopes>>10)
		}
		out[i] = &api.Envelope{Group: each.Group, Epoch: int32(each.Epoch), Path: each.Path, Sealed: each.Sealed}
	}
	e.of[name] = out
	return out, nil
}
