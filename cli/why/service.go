package why

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pluralsh/plural/agent/render"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// serviceAnswer is why a service is as it is.
type serviceAnswer struct {
	Service string `json:"service"`
	// Where is the place of its file.
	Where string `json:"where"`
	origin
	// Source is the repository that its files come from; nil where that is the installation repo.
	Source *sourceAnswer `json:"source,omitempty"`
	// Hub is what kept the hub from being asked; empty when it was.
	Hub string `json:"hubError,omitempty"`
	// Served is the commit that the hub serves, Refused why it does not serve a newer one.
	Served  *v1.Commit   `json:"served,omitempty"`
	Refused []v1.Problem `json:"refused,omitempty"`
	// Problems keep it from being resolved, as the work tree is.
	Problems []v1.Problem `json:"problems,omitempty"`
	// Clusters are those that it is meant for.
	Clusters []clusterAnswer `json:"clusters"`
	// Next is what would help.
	Next []string `json:"next,omitempty"`
}

// sourceAnswer is the repository that a service comes from.
type sourceAnswer struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Ref  string `json:"ref,omitempty"`
	// Commit is what the hub serves of Ref; empty when it was not asked, or does not know.
	Commit string `json:"commit,omitempty"`
	// pin holds the service at one commit; empty where it is.
	pin string
}

// clusterAnswer is why a service is as it is on one cluster.
type clusterAnswer struct {
	Cluster string   `json:"cluster"`
	Phase   v1.Phase `json:"phase,omitempty"`
	// Reasons are sentences.
	Reasons []string `json:"reasons,omitempty"`
	// Chain leads from what the service waits for to the service where it begins.
	Chain []link `json:"chain,omitempty"`
	// Written is where the first object that is not well is written, or where it cannot be rendered.
	Written string `json:"written,omitempty"`
	// Parameter is where the service sets the parameter that its template has there.
	Parameter string `json:"parameter,omitempty"`
	Next      string `json:"next,omitempty"`
	// object is the first one that is not well, as plural why takes it; warned says that its cluster warns of it.
	object string
	warned bool
	// suspended says that it is as it is since its agent leaves it alone, and not by what its files say.
	suspended bool
	// unreached says that its cluster's API server does not answer, which nothing that is written can help.
	unreached bool
	// undo is the command that takes back what broke it.
	undo string
}

// broken says that the service is not well by its own fault. Of one on its way that is so where its cluster warns: an image that
// cannot be pulled is tried for ten minutes before its Deployment has failed.
func (c *clusterAnswer) broken() bool {
	fault := slices.Contains([]v1.Phase{v1.Failed, v1.Degraded, v1.Held}, c.Phase) || c.Phase == v1.Progressing && c.warned
	return fault && !c.suspended && !c.unreached && len(c.Chain) == 0
}

// link is a service that others wait for.
type link struct {
	Service string   `json:"service"`
	Phase   v1.Phase `json:"phase"`
	Reason  string   `json:"reason,omitempty"`
}

func (a *asked) service(ctx context.Context, name string) (*serviceAnswer, error) {
	s, _ := a.state.Fleet.Service(name)
	deployments := a.deployments[name]
	answer := &serviceAnswer{Service: name, Where: s.Position.String(), Clusters: []clusterAnswer{}}
	var err error
	if answer.origin, err = a.origin(ctx, filesOf(s, deployments)); err != nil {
		return nil, err
	}
	if source, elsewhere := a.state.Fleet.Source(s.Spec.Source.Name); elsewhere {
		answer.Source = &sourceAnswer{
			Name: source.Metadata.Name, URL: source.URL(), Ref: source.Ref(s), pin: cmdutil.Pin(a.state.Fleet, name),
		}
	}
	for i := range deployments {
		if hold := deployments[i].Hold; hold != nil && hold.Source == "" {
			p := v1.Problem{File: hold.File, Line: hold.Line, Message: hold.Message, Fix: hold.Fix}
			if !slices.ContainsFunc(answer.Problems, p.Equal) {
				answer.Problems = append(answer.Problems, p)
			}
		}
	}
	if err := a.askHub(ctx, answer, deployments); err != nil {
		return nil, err
	}
	if err := a.locate(ctx, answer); err != nil {
		return nil, err
	}
	answer.advise(len(deployments))
	return answer, nil
}

// filesOf are what a service is made of in the installation repo.
func filesOf(s *fleet.Service, deployments []resolve.Deployment) []string {
	files := []string{s.Position.File}
	for i := range deployments {
		d := &deployments[i]
		if d.OwnRepository && d.Hold == nil {
			files = append(append(files, d.Inputs...), d.Links...)
		}
		files = append(files, d.SecretsInputs...)
		for _, m := range d.Mounts {
			if m.OwnRepository {
				files = append(append(files, m.Inputs...), m.Links...)
			}
		}
	}
	if len(files) == 1 && s.Spec.Source.Name == "" && s.Spec.Source.Path != "" {
		files = append(files, s.Spec.Source.Path)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// locate finds where the first object that is not well is written, once for all clusters that have the same trouble.
func (a *asked) locate(ctx context.Context, answer *serviceAnswer) error {
	for _, group := range alike(answer.Clusters) {
		written, parameter := cmdutil.Placed(group[0].Reasons...), ""
		if at := group[0].object; written == "" && at != "" && group[0].broken() {
			q, err := parseQuery(at, "")
			if err != nil {
				continue // it has a name that nobody could ask for
			}
			s := &search{asked: a, query: q, answer: &objectAnswer{}}
			if err := s.renderAll(ctx, []string{answer.Service}); err != nil {
				return err
			}
			if len(s.answer.Matches) > 0 {
				m := &s.answer.Matches[0]
				service, _ := a.state.Fleet.Service(answer.Service)
				written, parameter = inspect.Where(service, m.deployment, render.Origin{File: m.File, Line: m.Line},
					fieldIn(group[0].Reasons, m.made.Object), m.made.Object)
			}
		}
		undo := ""
		if answer.Commit != nil && group[0].broken() && !answer.brought(a.repo) {
			undo = a.f.Undo(ctx, cmp.Or(parameter, written), answer.Commit.ID)
		}
		for i := range answer.Clusters {
			if slices.ContainsFunc(group, func(c clusterAnswer) bool { return c.Cluster == answer.Clusters[i].Cluster }) {
				at := &answer.Clusters[i]
				at.Written, at.Parameter, at.undo = written, parameter, undo
			}
		}
	}
	return nil
}

// brought says whether the last change of a service from elsewhere is the commit that brought it: to take that back takes it away.
func (s *serviceAnswer) brought(repo *workspace.Repo) bool {
	file, _, _ := strings.Cut(s.Where, ":")
	return s.Source != nil && offline.Makes(repo, s.Commit.ID, file)
}
