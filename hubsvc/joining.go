package hubsvc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/audit"
	"github.com/pluralsh/plural/hubsvc/join"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/amend"
	"github.com/pluralsh/plural/workspace/fleet"
)

// agentImage is the repository of the agent's image, by the version of this hub, where nobody says another.
const agentImage = "ghcr.io/pluralsh/plural-agent"

// door is where clusters join by a token.
func (h *hub) door() *join.Door {
	image := h.AgentImage
	if image == "" {
		image = agentImage + ":" + strings.TrimPrefix(buildinfo.Version(), "v")
	}
	return join.New(join.Options{
		Cluster: func(name string) (*fleet.Cluster, bool) { return h.planner.plan().desired.Fleet.Cluster(name) },
		Place:   h.place, Refused: h.admits, Commit: h.register, Write: h.recordExchange, Image: image,
		Now: time.Now, Log: h.Log, Metrics: h.registry,
	})
}

// admits says why no cluster joins by this hub, if none does.
func (h *hub) admits(cluster string) error {
	err := h.commits("plural cluster register " + cluster + " --context CONTEXT")
	if refused := new(api.Refused); errors.As(err, &refused) {
		return &join.Refusal{Message: refused.Message, Fix: refused.Fix}
	}
	return err
}

// place is what an agent has to know of this hub.
func (h *hub) place() (join.Place, error) {
	p := join.Place{HubURL: h.planner.url()}
	if p.HubURL == "" {
		return p, errors.New("neither --url nor spec.hub.url in plural.yaml says how agents reach the hub")
	}
	snap, err := h.repos.At(h.planner.upstreams.own.ID, h.planner.plan().desired.Served.ID)
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
	_, err := h.commit(ctx, workspace.Proposal{By: author("cluster/" + cluster)}, func(tip *workspace.Tip) (*workspace.Plan, error) {
		change, err := joined(tip.Files, cluster, keys, hash)
		if err != nil {
			return nil, err
		}
		return &workspace.Plan{Files: map[string][]byte{change.File: change.After}, Message: "Register cluster " + cluster}, nil
	})
	return err
}

func joined(tip fs.FS, cluster string, keys fleet.AgentKeys, hash string) (*amend.Change, error) {
	f, err := fleet.Load(tip)
	if err != nil {
		return nil, err
	}
	c, ok := f.Cluster(cluster)
	if !ok || !join.Good(c, hash, time.Now()) {
		return nil, join.ErrNotGood
	}
	for i := range f.Clusters {
		if f.Clusters[i].Spec.Agent.Auth == keys.Auth { // an agent that speaks for two clusters is refused by the fleet
			return nil, join.ErrNotGood
		}
	}
	return amend.Joined(tip, cluster, keys)
}

// recordExchange writes an exchange down as something that a cluster had the hub do.
func (h *hub) recordExchange(ctx context.Context, e join.Exchange, end bool) error {
	record := audit.Record{
		Time: e.Beginning, ID: e.ID, Stage: audit.Start, Person: "cluster/" + e.Cluster, Credential: "join", Cluster: e.Cluster,
		Source: addrlimit.Sender(e.Request), Forwarded: said(strings.Join(e.Request.Header["X-Forwarded-For"], ", ")),
		UserAgent: said(e.Request.UserAgent()), Verb: "post", Path: e.Request.URL.Path, Decision: allowed, Must: true,
	}
	if end {
		record.Stage, record.Status, record.Cause, record.Duration = audit.End, e.Status, e.Cause, time.Since(e.Beginning)
	}
	if !e.Allowed {
		record.Decision = denied
	}
	return h.reaching.audit.Write(ctx, record)
}
