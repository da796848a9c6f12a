package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// askHub fills in how the service is. A hub that cannot be asked is no error.
func (a *asked) askHub(ctx context.Context, answer *serviceAnswer, deployments []resolve.Deployment) error {
	hub := &hubServices{fleet: a.state.Fleet, services: map[string]map[string]*v1.Deployment{}}
	var err error
	if hub.client, err = a.f.HubClient(); err == nil {
		err = a.hubSays(ctx, hub, answer, deployments)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer.Hub = oneLine(cmdutil.Explain(err))
	answer.Clusters = answer.Clusters[:0]
	for i := range deployments {
		c := clusterAnswer{Cluster: deployments[i].Cluster}
		for _, dep := range deployments[i].DependsOn {
			c.Reasons = append(c.Reasons, "it waits for service "+dep.Service)
		}
		answer.Clusters = append(answer.Clusters, c)
	}
	return nil
}

// oneLine is an error without a cause that repeats it.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (a *asked) hubSays(ctx context.Context, hub *hubServices, answer *serviceAnswer, deployments []resolve.Deployment) error {
	status, err := hub.client.Status(ctx)
	if err != nil {
		return err
	}
	answer.Served, answer.Refused = &status.Commit, status.Refused
	answer.Source.serve(status)
	for i := range deployments {
		c, err := hub.cluster(ctx, &deployments[i])
		if err != nil {
			return err
		}
		if c.Phase == "" && len(status.Refused) > 0 { // it may be committed, and no push makes it known
			c.Next = ""
		}
		a.unfetched(status, answer.Service, &c)
		answer.Clusters = append(answer.Clusters, c)
	}
	return nil
}

// serve fills in what the hub serves of it.
func (s *sourceAnswer) serve(status *v1.Status) {
	if s == nil {
		return
	}
	for i := range status.Sources {
		if status.Sources[i].Name != s.Name {
			continue
		}
		for _, ref := range status.Sources[i].Refs {
			if ref.Ref == s.Ref {
				s.Commit = ref.Commit
			}
		}
	}
}

// unfetched adds which source the hub cannot fetch, with its address, to why it has nothing to offer for a service.
func (a *asked) unfetched(status *v1.Status, service string, c *clusterAnswer) {
	s, _ := a.state.Fleet.Service(service)
	for _, used := range append([]fleet.SourceRef{s.Spec.Source}, mounted(s)...) {
		source, known := a.state.Fleet.Source(used.Name)
		if !known || c.Phase != v1.Held {
			continue
		}
		if fault := cmdutil.Unfetched(status, used.Name); fault != "" {
			at := source.Position.String()
			c.Reasons = append(c.Reasons, fmt.Sprintf("the hub cannot fetch source %s (%s, written in %s): %s", used.Name, source.URL(), at, fault))
			c.Next = "mend " + at + ", commit and push; or, where that is right: plural source sync " + used.Name
		}
	}
}

func mounted(s *fleet.Service) []fleet.SourceRef {
	var list []fleet.SourceRef
	for i := range s.Spec.Mounts {
		list = append(list, s.Spec.Mounts[i].Source)
	}
	return list
}

// hubServices asks the hub about services, each once.
type hubServices struct {
	client   *client.Client
	fleet    *fleet.Fleet
	services map[string]map[string]*v1.Deployment
}

// on is a service on a cluster, nil where the hub knows nothing of it.
func (h *hubServices) on(ctx context.Context, service, cluster string) (*v1.Deployment, error) {
	known, ok := h.services[service]
	if !ok {
		known = map[string]*v1.Deployment{}
		found, err := h.client.Service(ctx, service)
		var says *client.Error
		if err != nil && (!errors.As(err, &says) || says.Status != 404) {
			return nil, err
		}
		if found != nil {
			for i := range found.Deployments {
				known[found.Deployments[i].Cluster] = &found.Deployments[i]
			}
		}
		h.services[service] = known
	}
	return known[cluster], nil
}

func (h *hubServices) cluster(ctx context.Context, wanted *resolve.Deployment) (clusterAnswer, error) {
	service, cluster := wanted.Service, wanted.Cluster
	out := clusterAnswer{Cluster: cluster}
	d, err := h.on(ctx, service, cluster)
	if err != nil {
		return out, err
	}
	if d == nil {
		out.Reasons, out.Next = []string{"the hub does not know of it there"}, "commit and push it"
		return out, nil
	}
	out.Phase, out.Reasons, out.unreached = d.Phase, reasons(d), d.Unreached
	out.suspended = d.Suspended && d.Phase == v1.Held && wanted.Hold == nil
	elsewhere := wanted.Hold != nil && wanted.Hold.Source != ""
	if len(d.Problems) > 0 && d.Problems[0].Object != "" && !elsewhere {
		out.object, out.warned = objectOf(d.Problems[0]), d.Problems[0].Reason == v1.ReasonWarning
	}
	if d.Phase != v1.Healthy && !out.suspended {
		if out.Chain, err = h.chain(ctx, service, cluster, map[string]bool{service: true}); err != nil {
			return out, err
		}
	}
	if out.Next = next(d, out.Chain, elsewhere, h.client.Address()); out.suspended {
		out.Next = "plural service resume " + service
	}
	return out, nil
}

// reasons are what a deployment's report says, each thing once: its message is often that of its first problem.
func reasons(d *v1.Deployment) []string {
	var list []string
	repeated := d.Held != nil && strings.Contains(d.Message, d.Held.Message) ||
		slices.ContainsFunc(d.Problems, func(p v1.Problem) bool { return p.Message != "" && strings.HasSuffix(d.Message, p.Message) })
	if d.Message != "" && !repeated {
		list = append(list, d.Message)
	}
	if d.QuarantinedKey != "" {
		list = append(list, "what it should be failed a test, and is not applied again: key "+d.QuarantinedKey)
	}
	if d.Held != nil {
		text := d.Held.Message
		if count := strconv.Itoa(d.Held.Count) + " "; !strings.HasPrefix(text, count) {
			text = count + "deletions wait: " + text
		}
		list = append(list, text)
	}
	for _, p := range d.Problems {
		list = append(list, cmdutil.HubProblem(p).Message)
	}
	for _, t := range d.Tests {
		if t.Outcome == v1.TestFailed {
			list = append(list, fmt.Sprintf("test %s failed: %s", t.Name, t.Message))
		}
	}
	return append(list, d.Notes...)
}

// chain follows what a service waits for on a cluster, to where it begins. It goes along the first that is not there yet.
func (h *hubServices) chain(ctx context.Context, service, cluster string, seen map[string]bool) ([]link, error) {
	s, ok := h.fleet.Service(service)
	if !ok {
		return nil, nil
	}
	for _, dep := range s.Spec.DependsOn {
		d, err := h.on(ctx, dep.Service, cluster)
		if err != nil {
			return nil, err
		}
		if seen[dep.Service] || d != nil && d.Phase == v1.Healthy {
			continue
		}
		seen[dep.Service] = true
		here := link{Service: dep.Service, Reason: "the hub does not know of it there"}
		if d != nil {
			here.Phase, here.Reason = d.Phase, strings.Join(reasons(d), "; ")
		}
		rest, err := h.chain(ctx, dep.Service, cluster, seen)
		return append([]link{here}, rest...), err
	}
	return nil, nil
}
