package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Root is what one cluster should run, encoded once for as many polls as come.
type Root struct {
	etag string
	body []byte
	keys map[string]struct{}
}

// Terms are what the hub asks of every agent.
type Terms struct {
	DeletionBudget string
	// PollInterval is the wait between two polls, ReportInterval the longest silence; both before jitter.
	PollInterval, ReportInterval time.Duration
}

// NewRoot encodes a cluster's deployments with the envelopes that it needs to open what is sealed for it. Equal
// deployments and envelopes give an equal ETag on every replica.
func NewRoot(cluster string, deployments []resolve.Deployment, envelopes []*api.Envelope, terms Terms) (*Root, error) {
	poll := &api.Poll{
		Cluster: cluster, DeletionBudget: terms.DeletionBudget, Envelopes: envelopes,
		IntervalMs:       int32(terms.PollInterval.Milliseconds()),
		ReportIntervalMs: int32(terms.ReportInterval.Milliseconds()),
	}
	root := &Root{keys: make(map[string]struct{}, len(deployments))}
	for i := range deployments {
		poll.Deployments = append(poll.Deployments, wire(&deployments[i]))
		for _, key := range []string{deployments[i].Bundle, deployments[i].SecretsBundle} {
			if key != "" {
				root.keys[key] = struct{}{}
			}
		}
	}
	var err error
	if root.body, err = (proto.MarshalOptions{Deterministic: true}).Marshal(poll); err != nil {
		return nil, fmt.Errorf("encode poll of %s: %w", cluster, err)
	}
	if len(root.body) > api.MaxPollBytes {
		return nil, fmt.Errorf("encode poll of %s: %d services and %d envelopes need %d bytes, more than %d", cluster, len(deployments), len(envelopes), len(root.body), api.MaxPollBytes)
	}
	sum := sha256.Sum256(root.body)
	root.etag = `"r1-` + hex.EncodeToString(sum[:16]) + `"`
	return root, nil
}

// ETag names the root.
func (r *Root) ETag() string { return r.etag }

// Bundles are the keys of the bundles that the cluster may read.
func (r *Root) Bundles() iter.Seq[string] { return maps.Keys(r.keys) }

// entitled says whether the cluster may read a bundle: one of its deployments names it.
func (r *Root) entitled(key string) bool {
	_, ok := r.keys[key]
	return ok
}

// wire says in the machines' vocabulary what resolve says in its own. The commit stays behind: it changes with every
// commit to the repository, and a poll must not.
func wire(d *resolve.Deployment) *api.Deployment {
	out := &api.Deployment{
		Service: d.Service, Key: d.Key, Bundle: d.Bundle, Inputs: d.Inputs, Path: d.Path, Renderer: d.Renderer,
		Namespace: d.Namespace, Parameters: d.Parameters, DependsOn: d.DependsOn,
		Sync:          &api.Sync{Prune: d.Prune, SelfHeal: d.SelfHeal, DeletionBudget: d.DeletionBudget},
		SecretsBundle: d.SecretsBundle, SecretsInputs: d.SecretsInputs, OwnRepository: d.OwnRepository,
	}
	for _, s := range d.Secrets {
		out.Secrets = append(out.Secrets, &api.Secret{Name: s.Name, Path: s.Path, TemplateOnly: s.TemplateOnly, Type: s.Type})
	}
	if d.Helm != nil {
		out.Helm = &api.Helm{Release: d.Helm.Release, ValuesJson: d.Helm.ValuesJSON, ValuesFiles: d.Helm.ValuesFiles}
	}
	if d.Hold != nil {
		out.Hold = d.Hold.Error()
	}
	return out
}
