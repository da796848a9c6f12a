package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/filter"
)

// atOnce is how many clusters are asked at the same time.
const atOnce = 8

// objectsOf are a service's objects on one cluster.
type objectsOf struct {
	Cluster string      `json:"cluster"`
	Objects []v1.Object `json:"objects"`
}

// eventOf is an event on one cluster.
type eventOf struct {
	Cluster string `json:"cluster"`
	v1.ObjectEvent
}

// objectsEvery is when live objects are asked for anew by --watch: the hub's stream does not tell of them.
const objectsEvery = 2 * time.Second

func newCmdTree(f *cmdutil.Factory) *cobra.Command {
	var clusters []string
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.ChangedDeployments}, Every: objectsEvery}
	cmd := &cobra.Command{
		Use:   "tree NAME",
		Short: "Show a service's live objects, and what they own",
		Example: cmdutil.Example(
			"plural service tree web",
			"plural svc tree web --cluster edge-1 -o json",
			"plural svc tree web --watch"),
		Args: cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			watching.Filter = filter.OneOf("service", args)
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, _ *ui.Printer) (ui.View, error) {
				return tree(ctx, f, hub, args[0], clusters)
			})
		},
	}
	cmd.Flags().StringArrayVar(&clusters, "cluster", nil, "only on this `CLUSTER`; may be repeated")
	watching.Flags(cmd.Flags())
	return cmd
}

func newCmdEvents(f *cmdutil.Factory) *cobra.Command {
	var clusters []string
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.ChangedDeployments}, Every: objectsEvery}
	cmd := &cobra.Command{
		Use:     "events NAME",
		Short:   "Show what happened to a service's live objects",
		Long:    "Show what happened to a service's live objects, as Kubernetes tells it: the newest last.",
		Example: cmdutil.Example("plural service events web", "plural svc events web --cluster edge-1 --watch"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			watching.Filter = filter.OneOf("service", args)
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, _ *ui.Printer) (ui.View, error) {
				return events(ctx, f, hub, args[0], clusters)
			})
		},
	}
	cmd.Flags().StringArrayVar(&clusters, "cluster", nil, "only on this `CLUSTER`; may be repeated")
	watching.Flags(cmd.Flags())
	return cmd
}

func tree(ctx context.Context, f *cmdutil.Factory, hub *client.Client, name string, clusters []string) (ui.View, error) {
	where, found, lacks, err := onEach(ctx, hub, name, clusters, hub.ServiceObjects)
	if err != nil {
		return ui.View{}, err
	}
	all, ids := []objectsOf{}, []string{}
	hidden := make([]error, len(where))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, cluster := range where {
		group.Go(func() error {
			hidden[i] = hub.HiddenPods(ctx, cluster, found[i])
			return nil
		})
	}
	_ = group.Wait()
	var left []ui.Problem
	for i, cluster := range where {
		if hidden[i] != nil {
			left = append(left, ui.Problem{Where: cluster, Message: "pods are not shown: " + cmdutil.Explain(hidden[i]).Error()})
		}
		all = append(all, objectsOf{cluster, found[i]})
		for j := range found[i] {
			ids = append(ids, cluster+"/"+objectName(&found[i][j]))
		}
	}
	return ui.View{
		Value: all, Names: ids, IDs: where, Lacks: append(lacks, lines(left)...),
		Screen: func(w io.Writer) error {
			var rows [][]string
			told := reasons{}
			for _, c := range all {
				rows = append(rows, []string{c.Cluster, "", "", ""})
				rows = append(rows, branches(c.Cluster, c.Objects, told, f.Now())...)
			}
			columns := []ui.Column{{Name: "OBJECT"}, {Name: "HEALTH", Style: healthStyle}, {Name: "CREATED", Age: true}, {Name: "REASON"}}
			return f.IO.Aligned(w, columns, rows)
		},
	}, nil
}

func events(ctx context.Context, f *cmdutil.Factory, hub *client.Client, name string, clusters []string) (ui.View, error) {
	where, found, lacks, err := onEach(ctx, hub, name, clusters, hub.ServiceEvents)
	if err != nil {
		return ui.View{}, err
	}
	all := []eventOf{}
	for i, cluster := range where {
		for _, e := range found[i] {
			all = append(all, eventOf{cluster, e})
		}
	}
	slices.SortStableFunc(all, func(a, b eventOf) int { return a.Time.Compare(b.Time) })
	view := ui.View{Value: all, Past: true, Lacks: lacks, Rows: [][]string{}, IDs: []string{}, Columns: []ui.Column{
		{Name: "SEEN", Age: true},
		{Name: "CLUSTER"},
		{Name: "TYPE", Style: eventStyle},
		{Name: "REASON"},
		{Name: "OBJECT"},
		{Name: "TIMES"},
		{Name: "MESSAGE"},
	}}
	if len(all) == 0 {
		view.Note = "nothing is told of " + name + "; Kubernetes forgets after an hour"
	}
	for _, e := range all {
		object := e.Kind + "/" + e.Name
		kind := "normal"
		if e.Warning {
			kind = "warning"
		}
		view.Rows = append(view.Rows, []string{
			cmdutil.Ago(f.Now(), &e.Time), e.Cluster, kind, e.Reason, object, strconv.Itoa(max(e.Count, 1)), e.Message,
		})
		view.Names = append(view.Names, e.Cluster+"/"+object)
		view.IDs = append(view.IDs, strings.Join([]string{e.Cluster, object, e.Object, e.Reason, e.Message}, "\x00"))
	}
	return view, nil
}

// hurried is how long others wait for a cluster whose API server does not even answer its own agent.
const hurried = 2 * time.Second

// onEach asks the clusters that are meant about a service, or all on which it runs. A cluster that does not answer is
// left out, and in lacks with why; that none does is an error.
func onEach[T any](
	ctx context.Context, hub *client.Client, name string, clusters []string,
	ask func(ctx context.Context, cluster, service string) (*v1.List[T], error),
) (where []string, found [][]T, lacks []string, err error) {
	s, err := hub.Service(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := only(s, clusters); err != nil {
		return nil, nil, nil, err
	}
	answers := make([][]T, len(s.Deployments))
	failed := make([]error, len(s.Deployments))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range s.Deployments {
		group.Go(func() error {
			d, ctx := &s.Deployments[i], ctx
			if d.Unreached && len(s.Deployments) > 1 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, hurried, errors.New(d.Message))
				defer cancel()
			}
			list, err := ask(ctx, d.Cluster, name)
			if failed[i] = err; err == nil {
				answers[i] = list.Items
			}
			return nil // the others go on
		})
	}
	_ = group.Wait()
	var left []ui.Problem
	for i := range failed {
		cluster := s.Deployments[i].Cluster
		if failed[i] == nil {
			where, found = append(where, cluster), append(found, answers[i])
			continue
		}
		err = failed[i]
		if len(failed) > 1 {
			left = append(left, ui.Problem{Where: cluster, Message: cmdutil.Explain(failed[i]).Error()})
		}
	}
	if len(where) > 0 {
		err = nil
	}
	return where, found, lines(left), err
}

// reasons are why objects are not well, with the first object, and its cluster, of which each was said.
type reasons map[string][2]string

// of is the reason of an object; one that was told before is that of the object with which it was, where that is shorter.
func (r reasons) of(cluster string, o *v1.Object) string {
	text := reason(o)
	first, told := r[text]
	if !told {
		r[text] = [2]string{cluster, o.Kind + "/" + o.Name}
		return text
	}
	same := "as " + first[1]
	if first[0] != cluster {
		same += " on " + first[0]
	}
	if len(same) < len(text) {
		return same
	}
	return text
}

// lines say why clusters are left out, each reason once.
func lines(left []ui.Problem) []string {
	var list []string
	for _, reason := range cmdutil.ByReason(left) {
		list = append(list, cmdutil.Few(reason.Places)+": "+reason.Message)
	}
	return list
}

// branches are rows for objects, each below what owns it. Those whose owner is not among them stand at the first level.
func branches(cluster string, objects []v1.Object, told reasons, now time.Time) [][]string {
	known := map[string]bool{}
	for i := range objects {
		known[objects[i].UID] = true
	}
	below := map[string][]*v1.Object{}
	for i := range objects {
		owner := objects[i].Owner
		if !known[owner] || owner == objects[i].UID {
			owner = ""
		}
		below[owner] = append(below[owner], &objects[i])
	}
	for _, children := range below {
		slices.SortFunc(children, func(a, b *v1.Object) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	b := brancher{cluster: cluster, below: below, told: told, now: now, seen: map[string]bool{}}
	b.grow("", "", 0)
	for i := range objects {
		b.grow(objects[i].Owner, "", 0) // what owns itself by a detour
	}
	return b.rows
}

// maxDepth is where a tree grows no further to the right.
const maxDepth = 12

// brancher draws a tree.
type brancher struct {
	cluster string
	below   map[string][]*v1.Object
	told    reasons
	now     time.Time
	// seen are owners whose objects were drawn: a circle of owners ends there.
	seen map[string]bool
	rows [][]string
}

// grow draws what an owner has.
func (b *brancher) grow(owner, indent string, depth int) {
	if b.seen[owner] {
		return
	}
	b.seen[owner] = true
	for i, o := range b.below[owner] {
		fork, further := "├─ ", "│  "
		if i == len(b.below[owner])-1 {
			fork, further = "└─ ", "   "
		}
		b.rows = append(b.rows, []string{indent + fork + objectName(o), string(o.Health), created(b.now, o.Created), b.told.of(b.cluster, o)})
		if depth >= maxDepth {
			further = ""
		}
		b.grow(o.UID, indent+further, depth+1)
	}
}

func objectName(o *v1.Object) string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return fmt.Sprintf("%s/%s (%s)", o.Kind, o.Name, o.Namespace)
}

// reason is why an object is not well, or not for long.
func reason(o *v1.Object) string {
	var parts []string
	if o.Deleting {
		parts = append(parts, "being deleted")
	}
	if o.Health != v1.ObjectHealthy && o.Message != "" {
		parts = append(parts, o.Message)
	}
	return cmdutil.OrDash(strings.Join(parts, "; "))
}

func created(now time.Time, t *time.Time) string {
	if t == nil {
		return "-"
	}
	return cmdutil.Ago(now, t)
}

func healthStyle(cell string) ui.Style {
	switch v1.ObjectHealth(cell) {
	case v1.ObjectHealthy:
		return ui.Green
	case v1.ObjectProgressing:
		return ui.Yellow
	case v1.ObjectDegraded:
		return ui.Red
	case v1.ObjectUnknown:
	}
	return ui.Faint
}

func eventStyle(cell string) ui.Style {
	if cell == "warning" {
		return ui.Yellow
	}
	return ui.Faint
}
