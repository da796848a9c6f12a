package why

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/events"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
)

// liveObject is an object as a cluster has it.
type liveObject struct {
	Cluster string `json:"cluster"`
	Object  string `json:"object"`
	// Error is why nothing can be said of it; empty when something can.
	Error string `json:"error,omitempty"`
	// Service is the one whose label it carries.
	Service string `json:"service,omitempty"`
	// Recorded says how it compares with what the agent left: as it was applied, changed since, or not recorded.
	Recorded string `json:"recorded,omitempty"`
	// Warnings are what the cluster's Events say of it, and of what hangs below it and is not well.
	Warnings []string `json:"warnings,omitempty"`
	// Owners are the managers of its fields, the newest first.
	Owners []owner `json:"owners,omitempty"`
}

// owner is one manager's part of an object.
type owner struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation"`
	Subresource string `json:"subresource,omitempty"`
	// Time is zero where the API server keeps none.
	Time   time.Time `json:"time,omitzero"`
	Fields []string  `json:"fields"`
}

// askClusters has each cluster that can be reached tell of the objects.
func (s *search) askClusters(ctx context.Context) error {
	var clusters []string
	for _, m := range s.answer.Matches {
		clusters = append(clusters, m.Clusters...)
	}
	slices.Sort(clusters)
	clusters = slices.Compact(clusters)
	s.live.Config = s.f.ConfigDir()
	configs, err := s.live.Reach(s.repo.Root(), clusters)
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		if configs[cluster] == nil {
			s.answer.Unreached = append(s.answer.Unreached, cluster)
			continue
		}
		var asked []object.ID
		for _, m := range s.answer.Matches {
			if slices.Contains(m.Clusters, cluster) && !slices.Contains(asked, m.id) {
				asked = append(asked, m.id)
				s.answer.Live = append(s.answer.Live, look(ctx, configs[cluster], cluster, m.id))
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// look asks one cluster about one object.
func look(ctx context.Context, config *rest.Config, cluster string, id object.ID) liveObject {
	out := liveObject{Cluster: cluster, Object: id.String()}
	engine, err := apply.New(config, apply.Options{})
	if err != nil {
		out.Error = err.Error()
		return out
	}
	owners, live, err := engine.Ownership(ctx, id)
	switch {
	case apierrors.IsNotFound(err):
		out.Error = "it is not there"
		return out
	case err != nil:
		out.Error = err.Error()
		return out
	}
	for _, o := range owners {
		out.Owners = append(out.Owners, owner{o.Manager, o.Operation, o.Subresource, o.Time, o.Fields})
	}
	facts := watchcache.OfMetadata(live)
	out.Service = facts.Owner
	out.Recorded = recorded(ctx, config, facts, id)
	objects, err := dynamic.NewForConfig(config)
	if err == nil {
		reader := events.New(objects, engine.Kinds(), slog.New(slog.DiscardHandler))
		var told map[string][]string
		told, err = reader.Read(ctx, []events.Object{{ID: id, UID: facts.UID}}, strings.Clone) // they may ask the cluster themselves
		out.Warnings = told[facts.UID]
	}
	if err != nil {
		out.Warnings = []string{"Events cannot be read: " + err.Error()}
	}
	return out
}

// recorded compares an object with what its service's inventory says of it.
func recorded(ctx context.Context, config *rest.Config, facts watchcache.Facts, id object.ID) string {
	if facts.Owner == "" {
		return "it belongs to no service"
	}
	entry, err := entryOf(ctx, config, facts.Owner, id)
	switch {
	case err != nil:
		return "what was applied is not known: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	case entry == nil:
		return "service " + facts.Owner + " has no record of it"
	case entry.UID != "" && entry.UID != facts.UID:
		return "it is not the object that was applied: somebody made it anew"
	case entry.Trace == "" || facts.Trace == "":
		return "what was applied is not known"
	case entry.Trace != facts.Trace:
		return "changed since it was applied: somebody else set fields of it"
	}
	return "as it was applied"
}

func entryOf(ctx context.Context, config *rest.Config, service string, id object.ID) (*inventory.Entry, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	inv, err := inventory.NewStore(objects, meta).Load(ctx, service)
	if err != nil {
		return nil, err
	}
	entry, ok := inv.Entries[id]
	if !ok {
		return nil, nil
	}
	return &entry, nil
}
