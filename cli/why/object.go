package why

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// maxVariants bounds how many different inputs of a service are rendered in search of an object; --cluster narrows them.
const maxVariants = 20

// objectAnswer is where an object comes from.
type objectAnswer struct {
	// Matches are the objects that are meant, one for each service and place in it.
	Matches []match `json:"matches"`
	// Unseen are services whose objects are not known here, with the reason.
	Unseen []unseen `json:"unseen,omitempty"`
	// Live is what clusters say of the objects.
	Live []liveObject `json:"live,omitempty"`
	// Unreached are clusters that this machine knows no way to.
	Unreached []string `json:"unreached,omitempty"`
}

func (o *objectAnswer) names() []string {
	var names []string
	for _, m := range o.Matches {
		names = append(names, m.Object)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// match is an object that a service renders.
type match struct {
	Object  string `json:"object"`
	Service string `json:"service"`
	// File is where it is written, relative to the root of the repository that the service's files are from, and Line counts
	// from 1; empty and 0 where nobody knows.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Clusters are those that get it from there.
	Clusters []string `json:"clusters"`
	// Commit changed the file last, or what the service is made of where the file is unknown.
	Commit *offline.Commit `json:"commit,omitempty"`
	// Uncommitted are files of it that are not as they were committed.
	Uncommitted []string `json:"uncommitted,omitempty"`
	id          object.ID
	// made is the object on the first of the clusters, and deployment what it is made of.
	made       *unstructured.Unstructured
	deployment *resolve.Deployment
}

// unseen is a service that could not be looked into.
type unseen struct {
	Service string `json:"service"`
	Reason  string `json:"reason"`
}

// variant is what a service renders to on some clusters.
type variant struct {
	deployment *resolve.Deployment
	clusters   []string
}

func (a *asked) object(ctx context.Context, subject string) (*objectAnswer, error) {
	services := slices.Sorted(maps.Keys(a.deployments))
	q, err := parseQuery(subject, a.namespace)
	if errors.Is(err, errNoName) {
		if _, ok := a.state.Fleet.Cluster(subject); ok {
			return nil, &ui.Err{Msg: subject + " is a cluster, and no service or object", Fix: "plural cluster get " + subject, Doc: ui.DocNotFound}
		}
		return nil, errNotFound(subject, nearest(subject, services)...)
	}
	if err != nil {
		return nil, err
	}
	s := &search{asked: a, query: q, answer: &objectAnswer{Matches: []match{}}}
	if err := s.renderAll(ctx, services); err != nil {
		return nil, err
	}
	if len(s.answer.Matches) == 0 {
		if len(s.elsewhere) > 0 {
			slices.Sort(s.elsewhere)
			return nil, errNotFound(subject, s.elsewhere[:min(len(s.elsewhere), maxNear)]...)
		}
		told := errNotFound(subject, nearest(q.full(), s.names)...)
		for _, u := range s.answer.Unseen[:min(len(s.answer.Unseen), maxShown)] {
			told.Problems = append(told.Problems, ui.Problem{Message: "service " + u.Service + " was not looked into: " + u.Reason})
		}
		return nil, told
	}
	if err := s.place(ctx); err != nil {
		return nil, err
	}
	if a.live.On {
		if err := s.askClusters(ctx); err != nil {
			return nil, err
		}
	}
	return s.answer, nil
}

// search goes through what services render to.
type search struct {
	*asked
	query query

	mu     sync.Mutex // guards what follows
	answer *objectAnswer
	// names are the objects seen that are not meant, as kind and name; elsewhere are those of them that only have another
	// namespace.
	names, elsewhere []string
}

func (s *search) renderAll(ctx context.Context, services []string) error {
	renderer, err := preview.New(s.state.Taken(), s.f.Identities().Load)
	if err != nil {
		return err
	}
	var inputs preview.Inputs
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, service := range services {
		for _, v := range s.variants(service, &inputs) {
			group.Go(func() error {
				if ctx.Err() == nil {
					s.render(ctx, renderer, v)
				}
				return nil
			})
		}
	}
	_ = group.Wait() // each failure is told in its place
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	slices.SortFunc(s.answer.Matches, func(a, b match) int {
		return strings.Compare(a.Object+"\n"+a.Service+"\n"+a.File, b.Object+"\n"+b.Service+"\n"+b.File)
	})
	slices.SortFunc(s.answer.Unseen, func(a, b unseen) int { return strings.Compare(a.Service+a.Reason, b.Service+b.Reason) })
	return nil
}

// variants are a service's distinct inputs.
func (s *search) variants(service string, inputs *preview.Inputs) []*variant {
	known := map[string]*variant{}
	var list []*variant
	for i := range s.deployments[service] {
		d := &s.deployments[service][i]
		if d.Hold != nil {
			s.unseen(service, d.Hold.Message)
			continue
		}
		name := inputs.Of(d)
		if known[name] == nil {
			known[name] = &variant{deployment: d}
			list = append(list, known[name])
		}
		known[name].clusters = append(known[name].clusters, d.Cluster)
	}
	if len(list) > maxVariants {
		s.unseen(service, "only its first variants were looked into: narrow it down with --cluster")
		list = list[:maxVariants]
	}
	return list
}

func (s *search) unseen(service, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := (unseen{service, reason}); !slices.Contains(s.answer.Unseen, u) {
		s.answer.Unseen = append(s.answer.Unseen, u)
	}
}

func (s *search) render(ctx context.Context, renderer *preview.Renderer, v *variant) {
	made, err := renderer.Render(ctx, v.deployment)
	if err != nil {
		told := cmdutil.RenderProblem("", err)
		if told.Where != "" {
			told.Message = told.Where + ": " + told.Message
		}
		s.unseen(v.deployment.Service, told.Message)
		return
	}
	for i, o := range made.Objects {
		id := compare.Identify(o, v.deployment.Namespace)
		if !s.query.fits(id) {
			s.near(id)
			continue
		}
		at := render.Origin{}
		if i < len(made.Origins) {
			at = made.Origins[i]
		}
		s.found(id, v, at, o)
	}
}

// near remembers an object that is not meant, in case none is.
func (s *search) near(id object.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, text := &s.names, id.Kind+" "+id.Name
	if s.query.name == id.Name && s.query.fitsKind(id) {
		list, text = &s.elsewhere, id.String()
	}
	if len(*list) < maxNames && !slices.Contains(*list, text) {
		*list = append(*list, text)
	}
}

// maxNames bounds what is remembered to be offered.
const maxNames = 2000

func (s *search) found(id object.ID, v *variant, at render.Origin, made *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.answer.Matches {
		m := &s.answer.Matches[i]
		if m.id == id && m.Service == v.deployment.Service && m.File == at.File && m.Line == at.Line {
			m.Clusters = append(m.Clusters, v.clusters...)
			slices.Sort(m.Clusters)
			return
		}
	}
	s.answer.Matches = append(s.answer.Matches, match{
		Object: id.String(), Service: v.deployment.Service, File: at.File, Line: at.Line, Clusters: slices.Clone(v.clusters), id: id,
		made: made, deployment: v.deployment,
	})
}

// place finds the commits.
func (s *search) place(ctx context.Context) error {
	for i := range s.answer.Matches {
		m := &s.answer.Matches[i]
		service, _ := s.state.Fleet.Service(m.Service)
		files := filesOf(service, s.deployments[m.Service])
		if _, _, err := s.state.Taken().Hash(m.File); m.File != "" && err == nil {
			files = []string{m.File}
		}
		from, err := s.origin(ctx, files)
		if err != nil {
			return err
		}
		m.Commit, m.Uncommitted = from.Commit, from.Uncommitted
	}
	return nil
}
