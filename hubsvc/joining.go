package hubsvc

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/join"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// agentImage is the repository of the agent's image, by the version of this hub, where nobody says another.
	agentImage = "ghcr.io/pluralsh/plural-agent"
	// agentPackage is the package that keeps an agent on clusters.
	agentPackage = "agent"
)

// agentImageOf is what the agent of a cluster that joins is started from: the image that the fleet's package then keeps it at, since
// that is where the fleet's clusters get theirs.
func (h *hub) agentImageOf(c *fleet.Cluster) string {
	if h.AgentImage != "" {
		return h.AgentImage
	}
	desired := h.planner.Plan().Desired.Fleet
	for i := range desired.Services {
		s := &desired.Services[i]
		folder, generated := strings.CutPrefix(path.Dir(s.Position.File), "packages/")
		from, installed := desired.Installation(folder)
		if !generated || !installed || from.PackageName() != agentPackage || s.Spec.Helm == nil || !s.Spec.Clusters.Matches(c) {
			continue
		}
		image, _ := s.Spec.Helm.Values["image"].(map[string]any)
		repository, _ := image["repository"].(string)
		tag, _ := image["tag"].(string)
		digest, _ := image["digest"].(string)
		switch {
		case repository == "":
		case digest != "":
			return repository + "@" + digest
		case tag != "":
			return repository + ":" + tag
		}
	}
	return agentImage + ":" + strings.TrimPrefix(buildinfo.Version(), "v")
}

// door is where clusters join by a token.
func (h *hub) door() *join.Registrar {
	return join.New(join.Options{
		Cluster: func(name string) (*fleet.Cluster, bool) { return h.planner.Plan().Desired.Fleet.Cluster(name) },
		Place:   h.place, Refused: h.admits, Commit: h.register, Write: h.acts.Exchange, Image: h.agentImageOf,
		Now: time.Now, Log: h.Log, Metrics: h.registry,
	})
}

// admits says why no cluster joins by this hub, if none does.
func (h *hub) admits(cluster string) error {
	err := h.committer.Refusal("plural cluster register " + cluster + " --context CONTEXT")
	if refused := new(api.Refused); errors.As(err, &refused) {
		return &join.Refusal{Message: refused.Message, Fix: refused.Fix}
	}
	return err
}

// place is what an agent has to know of this hub.
func (h *hub) place() (join.HubAddress, error) {
	p := join.HubAddress{HubURL: h.planner.AgentURL()}
	if p.HubURL == "" {
		return p, errors.New("neither --url nor spec.hub.url in plural.yaml says how agents reach the hub")
	}
	snap, err := h.mirrors.At(h.sources.Own().ID, h.planner.Plan().Desired.Served.ID)
	if err != nil {
		return p, fmt.Errorf("read the commit being served: %w", err)
	}
	rules, err := policy.Load(snap.FS())
	switch {
	case errors.Is(err, policy.ErrNone):
		return p, nil
	case err != nil:
		return p, err
	}
	p.Repository = rules.Repository
	return p, nil
}

// register commits a cluster's keys where its file still waits for them. The tip is read anew for each try, so of many exchanges at
// a time, on however many replicas, one finds the token's hash.
func (h *hub) register(ctx context.Context, cluster string, keys fleet.AgentKeys, hash string) error {
	_, err := h.committer.Commit(ctx, workspace.Proposal{By: committer.Author("cluster/" + cluster)}, func(tip *workspace.Tip) (*workspace.Plan, error) {
		change, err := join.Register(tip.Files, cluster, keys, hash)
		if err != nil {
			return nil, err
		}
		return &workspace.Plan{Files: map[string][]byte{change.File: change.After}, Message: "Register cluster " + cluster}, nil
	})
	return err
}
