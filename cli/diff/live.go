package diff

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/installer/release"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/resolve"
)

// maxAsked is how many clusters are asked at a time.
const maxAsked = 4

// liveReport is what clusters said to a dry run of the work tree's side.
type liveReport struct {
	// Clusters were asked, Unreached are those that this machine knows no way to.
	Clusters  []string `json:"clusters"`
	Unreached []string `json:"unreached,omitempty"`
	// Items are what an apply would do now, those that reach most first.
	Items []compare.Group `json:"items"`
	// Leaving are services that a cluster has and the work tree asks for no more.
	Leaving []leaving `json:"leaving,omitempty"`
	// Problems are clusters, or services there, that could not be asked about.
	Problems []problem `json:"problems,omitempty"`
}

// leaving is a service that clusters will remove.
type leaving struct {
	Service  string   `json:"service"`
	Clusters []string `json:"clusters"`
}

// ask has every cluster that can be reached dry-run what the work tree wants of it.
func (o options) ask(ctx context.Context, repo *workspace.Repo, s *sides) (*liveReport, error) {
	clusters := slices.DeleteFunc(s.clusters(o.clusters), func(name string) bool {
		_, ok := s.after.Fleet.Cluster(name)
		return !ok
	})
	o.live.Config = o.f.ConfigDir()
	configs, err := o.live.Reach(repo.Root(), clusters)
	if err != nil {
		return nil, err
	}
	renderer, err := preview.New(s.after.Taken(), o.f.Identities().Load)
	if err != nil {
		return nil, err
	}
	q := &questions{options: o, sides: s, renderer: renderer, key: make([]byte, 32), leaving: map[string][]string{}, report: &liveReport{}}
	_, _ = rand.Read(q.key) // it never fails
	var group errgroup.Group
	group.SetLimit(maxAsked)
	for _, name := range clusters {
		if configs[name] == nil {
			q.report.Unreached = append(q.report.Unreached, name)
			continue
		}
		q.report.Clusters = append(q.report.Clusters, name)
		group.Go(func() error {
			if err := q.cluster(ctx, name, configs[name]); err != nil {
				q.failed(name, "", err)
			}
			return nil
		})
	}
	_ = group.Wait() // each failure is told in its place
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if q.report.Items = compare.Of(compare.Moves(q.deltas)); q.report.Items == nil {
		q.report.Items = []compare.Group{}
	}
	for service, clusters := range q.leaving {
		slices.Sort(clusters)
		q.report.Leaving = append(q.report.Leaving, leaving{service, clusters})
	}
	slices.SortFunc(q.report.Leaving, func(a, b leaving) int { return strings.Compare(a.Service, b.Service) })
	slices.SortFunc(q.report.Problems, func(a, b problem) int {
		return strings.Compare(a.Clusters[0]+"\n"+a.Service, b.Clusters[0]+"\n"+b.Service)
	})
	return q.report, nil
}

// questions are put to several clusters at once.
type questions struct {
	options
	*sides
	renderer *preview.Renderer
	key      []byte

	mu      sync.Mutex // guards what follows
	deltas  []compare.Delta
	leaving map[string][]string // clusters by service
	report  *liveReport
}

func (q *questions) failed(cluster, service string, err error) {
	var plugin *preview.PluginError
	told := cmdutil.RenderProblem("", err)
	q.add(problem{
		Service: service, Clusters: []string{cluster}, Side: "live", Elsewhere: errors.As(err, &plugin),
		Where: told.Where, Message: told.Message, Fix: told.Fix,
	})
}

func (q *questions) add(p problem) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.report.Problems = append(q.report.Problems, p)
}

// cluster asks one cluster about all its services, one after the other.
func (q *questions) cluster(ctx context.Context, name string, config *rest.Config) error {
	deployments, err := q.resolver.For(q.after.Fleet, name, q.after)
	if err != nil {
		return err
	}
	engine, err := apply.New(config, apply.Options{})
	if err != nil {
		return err
	}
	renderer, err := q.rendererFor(ctx, engine, config)
	if err != nil {
		return err
	}
	if err := q.findLeaving(ctx, engine, name, deployments); err != nil {
		return err
	}
	for i := range deployments {
		d := &deployments[i]
		if len(q.services) > 0 && !slices.Contains(q.services, d.Service) {
			continue
		}
		if d.Hold != nil {
			q.add(problem{
				Service: d.Service, Clusters: []string{name}, Side: "live", Elsewhere: d.Hold.Source != "",
				Where: d.Hold.Position.String(), Message: d.Hold.Message, Fix: d.Hold.Fix,
			})
			continue
		}
		if err := q.service(ctx, engine, renderer, d); err != nil {
			q.failed(name, d.Service, err)
		}
	}
	return nil
}

// findLeaving looks for what the cluster has and nobody asks for.
func (q *questions) findLeaving(ctx context.Context, engine *apply.Engine, cluster string, wanted []resolve.Deployment) error {
	present, err := engine.Services(ctx)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, service := range present {
		asked := slices.ContainsFunc(wanted, func(d resolve.Deployment) bool { return d.Service == service })
		if !asked && (len(q.services) == 0 || slices.Contains(q.services, service)) {
			q.leaving[service] = append(q.leaving[service], cluster)
		}
	}
	return nil
}

// rendererFor tells charts what the cluster is.
func (q *questions) rendererFor(ctx context.Context, engine *apply.Engine, config *rest.Config) (*preview.Renderer, error) {
	catalog, err := engine.Kinds().Refresh(ctx)
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask API server for its version: %w", err)
	}
	return q.renderer.On(version.GitVersion, catalog.Versions()), nil
}

// service asks about one service.
func (q *questions) service(ctx context.Context, engine *apply.Engine, renderer *preview.Renderer, d *resolve.Deployment) error {
	made, err := renderer.Render(ctx, d)
	if err != nil {
		return err
	}
	changes, err := engine.Diff(ctx, apply.Request{
		Service: d.Service, Namespace: d.Namespace, OwnRepository: d.OwnRepository, ShowTaken: true, Key: d.Key, Heal: true, Prune: d.Prune,
		Budget:   d.DeletionBudget,
		Objects:  func(context.Context) ([]*unstructured.Unstructured, error) { return made.All(), nil },
		Policies: release.Policies(d),
	})
	if err != nil {
		return err
	}
	delta := compare.Delta{Service: d.Service, Clusters: []string{d.Cluster}}
	if delta.Rendered, err = rendered(ctx, engine, made, d.Namespace); err != nil {
		return err
	}
	for i := range changes {
		delta.Changes = append(delta.Changes, q.change(&changes[i], made.Sealed)...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deltas = append(q.deltas, delta)
	return nil
}

// rendered are a service's objects by the names that the cluster has for them.
func rendered(ctx context.Context, engine *apply.Engine, made *preview.Rendition, namespace string) ([]object.ID, error) {
	catalog, err := engine.Kinds().With(ctx, nil)
	if err != nil {
		return nil, err
	}
	ids := compare.IDs(compare.Side{Objects: made.Objects, Namespace: namespace})
	for i := range ids {
		if kind, ok := catalog.Find(ids[i].GroupKind().WithVersion("")); ok && kind.Namespaced && ids[i].Namespace == "" {
			ids[i].Namespace = namespace
		}
	}
	return ids, nil
}

// change is what the engine said of one object, as the rest of the report has it.
func (q *questions) change(c *apply.Change, sealed []string) []compare.Change {
	if c.Err != nil {
		return []compare.Change{{ID: c.ID, Action: compare.Refused, Notes: []string{unseal.Redact(c.Err.Error(), sealed)}}}
	}
	side := func(o *unstructured.Unstructured) compare.Side {
		if o == nil {
			return compare.Side{}
		}
		return compare.Side{Objects: []*unstructured.Unstructured{o}, Sealed: sealed}
	}
	changes := compare.Objects(side(c.Before), side(c.After), q.key)
	for i := range changes {
		changes[i].Notes = c.Conflicts
	}
	return changes
}
