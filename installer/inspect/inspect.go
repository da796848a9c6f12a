// Package inspect owns the static checks of the objects that a fleet renders to.
//
// It refuses to know how a fleet is read, how a service is rendered, and what kinds of Kubernetes look like: resolve,
// installer/preview and kubeschema do. No cluster is asked.
//
// Data passes through in three steps. Deployments that render to the same on clusters of the same version are one rendition
// (renditions.go), and all renditions are rendered, several at a time. Each object of a kind of Kubernetes' own is judged by the
// version of its clusters as soon as it is there (objects.go). When all CustomResourceDefinitions are known, the other objects are
// judged by those that reach the same clusters (custom.go), and what two services make on one cluster is told (owners.go). Of a
// change, what differs alone is judged: as somebody else renders it (changes.go), or for the one service that it is about
// (service.go), of which what it makes anew is compared with what others make on its clusters (overlaps.go).
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/agent/object"
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
	Where string `json:"where"`
	// Message says what is wrong with what.
	Message string `json:"message"`
	// Fix is what mends it, if that is known.
	Fix string `json:"fix,omitempty"`
}

// Sentence is all of it on one line.
func (f *Finding) Sentence() string {
	text := f.Where + ": " + f.Message
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	return text
}

// Report is all that was found, sorted by place.
type Report struct {
	// Errors are what a cluster would refuse, Warnings what it may.
	Errors, Warnings []Finding
	// Failed are services that do not render.
	Failed []Failure
	// Unchecked are services that cannot be rendered on this machine, with the reason.
	Unchecked map[string]string
	// Renditions and Objects count what was looked at, Versions say by which versions of Kubernetes.
	Renditions, Objects int
	Versions            []Version
}

// Version is a minor version of Kubernetes.
type Version struct {
	Minor int
	// Clusters are those whose objects were judged by it, as far as they have any.
	Clusters []string
	// Assumed says that nobody knows what they have.
	Assumed bool
}

// Failure is why a service does not render. Err is a *render.Error when its files are to blame, and a *resolve.Problem
// when they were not read.
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
	claimed     map[object.ID]map[string]*claim
	// overlapping are the clusters where a change has its service make objects that it did not make there.
	overlapping []string
	// subject is the service that a change is of; empty where it may be of several.
	subject string
}

// Run renders and judges everything. Services that cannot be resolved are left to whoever resolves them. The error says that ctx
// ended, or that the inspection itself failed.
func Run(ctx context.Context, what Inspection) (*Report, error) {
	i, err := newInspector(what)
	if err != nil {
		return nil, err
	}
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
	i.judgeOwners("")
	i.unreadByClusters()
	for n := range i.Fleet.Services {
		i.nowhere(&i.Fleet.Services[n])
	}
	i.misspelt("")
	i.countFailed()
	i.report.sort()
	return &i.report, nil
}

func newInspector(what Inspection) (*inspector, error) {
	builtin, err := kubeschema.Load()
	if err != nil {
		return nil, err
	}
	return &inspector{
		Inspection: what, builtin: builtin, reached: map[string]int{}, report: Report{Unchecked: map[string]string{}},
		claimed: map[object.ID]map[string]*claim{},
	}, nil
}

// version is a cluster's minor version, and what charts are told of it: nothing where nobody knows.
func (i *inspector) version(cluster string) (minor int, version string) {
	version = i.Versions[cluster]
	minor, ok := kubeschema.Minor(version)
	if !ok {
		return i.builtin.Last, ""
	}
	return minor, version
}

// judges notes by which version a cluster's objects are judged.
func (r *Report) judges(cluster string, minor int, assumed bool) {
	same := func(v Version) bool { return v.Minor == minor && v.Assumed == assumed }
	n := slices.IndexFunc(r.Versions, same)
	if n < 0 {
		n, r.Versions = len(r.Versions), append(r.Versions, Version{Minor: minor, Assumed: assumed})
	}
	r.Versions[n].Clusters = append(r.Versions[n].Clusters, cluster)
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
	for n := range r.Versions {
		slices.Sort(r.Versions[n].Clusters)
	}
	slices.SortFunc(r.Versions, func(a, b Version) int {
		return cmp.Or(cmp.Compare(a.Minor, b.Minor), cmp.Compare(strings.Join(a.Clusters, " "), strings.Join(b.Clusters, " ")))
	})
}

// tell notes a finding.
func (i *inspector) tell(list *[]Finding, f Finding) {
	i.mu.Lock()
	defer i.mu.Unlock()
	*list = append(*list, f)
}

func versionOf(minor int) string { return fmt.Sprintf("Kubernetes 1.%d", minor) }
