// Package inspect owns what is wrong with the objects that a fleet renders to.
//
// It refuses to know how a fleet is read, how a service is rendered, and what kinds of Kubernetes look like: resolve,
// installer/preview and kubeschema do. No cluster is asked.
//
// Data passes through in three steps. Deployments that render to the same on clusters of the same version are one rendition
// (renditions.go), and all renditions are rendered, several at a time. Each object of a kind of Kubernetes' own is judged by the
// version of its clusters as soon as it is there (objects.go). When all CustomResourceDefinitions are known, the other objects are
// judged by those that reach the same clusters (custom.go).
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/internal/kubeschema"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Inspection is what is looked at, and how.
type Inspection struct {
	Fleet *fleet.Fleet
	// Sources are the files behind services, Resolver what was resolved of them.
	Sources  resolve.Sources
	Resolver *resolve.Resolver
	Renderer *preview.Renderer
	// Versions are the versions of Kubernetes that clusters are known to have, by name. Others count as the newest built-in one.
	Versions map[string]string
}

// Finding is one thing that is wrong.
type Finding struct {
	// Where is the file, with the line where it is known.
	Where string
	// Message says what is wrong with what.
	Message string
	// Fix is what mends it, if that is known.
	Fix string
}

// Report is all that was found, sorted by place.
type Report struct {
	// Errors are what a cluster would refuse, Warnings what it may.
	Errors, Warnings []Finding
	// Failed are services that do not render.
	Failed []Failure
	// Unchecked are services that cannot be rendered on this machine, with the reason.
	Unchecked map[string]string
	// Renditions and Objects count what was looked at, Minors are the minor versions of Kubernetes by which.
	Renditions, Objects int
	Minors              []int
}

// Failure is why a service does not render. Err is a *render.Error when its files are to blame.
type Failure struct {
	Service string
	// Clusters are those for which it does not, Everywhere says that they are all of its clusters.
	Clusters   []string
	Everywhere bool
	Err        error
}

// inspector is an inspection under way.
type inspector struct {
	Inspection
	builtin *kubeschema.Builtin
	// reached counts the clusters of each service.
	reached map[string]int

	mu          sync.Mutex // guards what follows
	report      Report
	definitions []definition
	custom      []customObject
}

// Run renders and judges everything. Services that cannot be resolved are left to whoever resolves them. The error says that ctx
// ended, or that the inspection itself failed.
func Run(ctx context.Context, what Inspection) (*Report, error) {
	builtin, err := kubeschema.Load()
	if err != nil {
		return nil, err
	}
	i := &inspector{Inspection: what, builtin: builtin, reached: map[string]int{}, report: Report{Unchecked: map[string]string{}}}
	renditions, err := i.renditions()
	if err != nil {
		return nil, err
	}
	i.report.Renditions = len(renditions)
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, r := range renditions {
		group.Go(func() error { return i.render(ctx, r) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	i.judgeCustom()
	i.unreadByClusters()
	for n := range i.report.Failed {
		f := &i.report.Failed[n]
		f.Everywhere = len(f.Clusters) == i.reached[f.Service]
		slices.Sort(f.Clusters)
	}
	i.report.sort()
	return &i.report, nil
}

func (r *Report) sort() {
	for _, list := range []*[]Finding{&r.Errors, &r.Warnings} {
		slices.SortFunc(*list, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Message, b.Message))
		})
		*list = slices.Compact(*list)
	}
	slices.SortFunc(r.Failed, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), slices.Compare(a.Clusters, b.Clusters))
	})
	slices.Sort(r.Minors)
	r.Minors = slices.Compact(r.Minors)
}

// tell notes a finding.
func (i *inspector) tell(list *[]Finding, f Finding) {
	i.mu.Lock()
	defer i.mu.Unlock()
	*list = append(*list, f)
}

func versionOf(minor int) string { return fmt.Sprintf("Kubernetes 1.%d", minor) }
