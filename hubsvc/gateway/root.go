package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Root is what one cluster should run, encoded once for as many polls as come. What it has in common with other clusters
// lies in memory once.
type Root struct {
	etag string
	// An answer is head, parts, tail: in protobuf, one message after the other is both in one.
	head, tail []byte
	parts      []*part
	size       int
}

// Same says whether both ask for the same. Either may be nil.
func (r *Root) Same(other *Root) bool {
	return r == other || r != nil && other != nil && r.etag == other.etag
}

// part is one deployment as it goes over the wire.
type part struct {
	encoded []byte
	// bundles are the keys of all that the deployment is rendered from.
	bundles []string
}

// Terms are what the hub asks of every agent.
type Terms struct {
	DeletionBudget string
	// Acknowledged are tokens of removals that a person has agreed to.
	Acknowledged []string
	// Health is how kinds are judged on every service, after its own rules.
	Health []fleet.HealthRule
	// PollInterval is the wait between two polls, ReportInterval the longest silence; both before jitter.
	PollInterval, ReportInterval time.Duration
}

// Encoder makes the roots of one plan, which share the encoding of each deployment that they share. Its zero value is no
// Encoder.
type Encoder struct {
	terms Terms
	parts map[*resolve.Deployment]*part
}

// NewEncoder returns an Encoder that has seen no deployment.
func NewEncoder(terms Terms) *Encoder {
	return &Encoder{terms, make(map[*resolve.Deployment]*part)}
}

// Root encodes a cluster's deployments, which must not change any more, with the envelopes that it needs to open what is
// sealed for it. Equal deployments and envelopes give an equal ETag on every replica.
func (e *Encoder) Root(cluster string, deployments []*resolve.Deployment, envelopes []*api.Envelope) (*Root, error) {
	root := &Root{parts: make([]*part, len(deployments))}
	var err error
	if root.head, err = encode(&api.Poll{Cluster: cluster}); err != nil {
		return nil, fmt.Errorf("encode poll of %s: %w", cluster, err)
	}
	root.tail, err = encode(&api.Poll{
		DeletionBudget: e.terms.DeletionBudget, Envelopes: envelopes,
		Acknowledged: budget.For(cluster, e.terms.Acknowledged), Health: healthRules(e.terms.Health),
		IntervalMs:       int32(e.terms.PollInterval.Milliseconds()),
		ReportIntervalMs: int32(e.terms.ReportInterval.Milliseconds()),
	})
	if err != nil {
		return nil, fmt.Errorf("encode poll of %s: %w", cluster, err)
	}
	for i, d := range deployments {
		if root.parts[i], err = e.part(d); err != nil {
			return nil, fmt.Errorf("encode poll of %s: service %s: %w", cluster, d.Service, err)
		}
	}
	sum := sha256.New()
	for piece := range root.body() {
		root.size += len(piece)
		sum.Write(piece)
	}
	if root.size > api.MaxPollBytes {
		return nil, fmt.Errorf("encode poll of %s: %d services and %d envelopes need %d bytes, more than %d", cluster, len(deployments), len(envelopes), root.size, api.MaxPollBytes)
	}
	root.etag = `"r1-` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	return root, nil
}

// part encodes a deployment the first time that it is seen.
func (e *Encoder) part(d *resolve.Deployment) (*part, error) {
	if known := e.parts[d]; known != nil {
		return known, nil
	}
	said, err := wire(d)
	if err != nil {
		return nil, err
	}
	encoded, err := encode(&api.Poll{Deployments: []*api.Deployment{said}})
	if err != nil {
		return nil, err
	}
	e.parts[d] = &part{encoded, bundles(d)}
	return e.parts[d], nil
}

func encode(poll *api.Poll) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(poll)
}

// bundles are the keys of all that a deployment is rendered from.
func bundles(d *resolve.Deployment) []string {
	keys := []string{d.Bundle, d.SecretsBundle}
	for i := range d.Mounts {
		keys = append(keys, d.Mounts[i].Bundle)
	}
	return slices.DeleteFunc(keys, func(key string) bool { return key == "" })
}

// ETag names the root.
func (r *Root) ETag() string { return r.etag }

// body is the answer to a poll, piece by piece.
func (r *Root) body() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield(r.head) {
			return
		}
		for _, p := range r.parts {
			if !yield(p.encoded) {
				return
			}
		}
		yield(r.tail)
	}
}

// Bundles are the keys of the bundles that the cluster may read; one may come more than once.
func (r *Root) Bundles() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range r.parts {
			for _, key := range p.bundles {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// entitled says whether the cluster may read a bundle: one of its deployments names it.
func (r *Root) entitled(key string) bool {
	for known := range r.Bundles() {
		if known == key {
			return true
		}
	}
	return false
}
