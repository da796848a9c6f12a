package service

import (
	"cmp"
	"context"
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

func newCmdTree(f *cmdutil.Factory) *cobra.Command {
	var clusters []string
	cmd := &cobra.Command{
		Use:     "tree NAME",
		Short:   "Show a service's live objects, and what they own",
		Example: cmdutil.Example("plural service tree web", "plural svc tree web --cluster edge-1 -o json"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tree(cmd.Context(), f, args[0], clusters)
		},
	}
	cmd.Flags().StringArrayVar(&clusters, "cluster", nil, "only on this `CLUSTER`; may be repeated")
	return cmd
}

func newCmdEvents(f *cmdutil.Factory) *cobra.Command {
	var clusters []string
	cmd := &cobra.Command{
		Use:     "events NAME",
		Short:   "Show what happened to a service's live objects",
		Long:    "Show what happened to a service's live objects, as Kubernetes tells it: the newest last.",
		Example: cmdutil.Example("plural service events web", "plural svc events web --cluster edge-1"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return events(cmd.Context(), f, args[0], clusters)
		},
	}
	cmd.Flags().StringArrayVar(&clusters, "cluster", nil, "only on this `CLUSTER`; may be repeated")
	return cmd
}

func tree(ctx context.Context, f *cmdutil.Factory, name string, clusters []string) error {
	hub, printer, err := f.Ask()
	if err != nil {
		return err
	}
	where, found, err := onEach(ctx, f, hub, name, clusters, hub.ServiceObjects)
	if err != nil {
		return err
	}
	all, ids := []objectsOf{}, []string{}
	for i, cluster := range where {
		all = append(all, objectsOf{cluster, found[i]})
		for j := range found[i] {
			ids = append(ids, cluster+"/"+objectName(&found[i][j]))
		}
	}
	return printer.Print(ui.View{
		Value: all, Names: ids,
		Screen: func(w io.Writer) error {
			var rows [][]string
			for _, c := range all {
				rows = append(rows, []string{c.Cluster, "", "", ""})
				rows = append(rows, branches(c.Objects, f.Now())...)
			}
			columns := []ui.Column{{Name: "OBJECT"}, {Name: "HEALTH", Style: healthStyle}, {Name: "CREATED"}, {Name: "REASON"}}
			return f.IO.Aligned(w, columns, rows)
		},
	})
}

func events(ctx context.Context, f *cmdutil.Factory, name string, clusters []string) error {
	hub, printer, err := f.Ask()
	if err != nil {
		return err
	}
	where, found, err := onEach(ctx, f, hub, name, clusters, hub.ServiceEvents)
	if err != nil {
		return err
	}
	all := []eventOf{}
	for i, cluster := range where {
		for _, e := range found[i] {
			all = append(all, eventOf{cluster, e})
		}
	}
	slices.SortStableFunc(all, func(a, b eventOf) int { return a.Time.Compare(b.Time) })
	if len(all) == 0 && printer.Human() {
		f.Say("nothing is told of %s; Kubernetes forgets after an hour", ui.Clean(name))
	}
	rows, ids := [][]string{}, []string{}
	for _, e := range all {
		object := e.Kind + "/" + e.Name
		kind := "normal"
		if e.Warning {
			kind = "warning"
		}
		rows = append(rows, []string{
			cmdutil.Ago(f.Now(), &e.Time), e.Cluster, kind, e.Reason, object, strconv.Itoa(max(e.Count, 1)), e.Message,
		})
		ids = append(ids, e.Cluster+"/"+object)
	}
	return printer.Print(ui.View{Value: all, Names: ids, Columns: []ui.Column{
		{Name: "SEEN"}, {Name: "CLUSTER"}, {Name: "TYPE", Style: eventStyle}, {Name: "REASON"}, {Name: "OBJECT"}, {Name: "TIMES"}, {Name: "MESSAGE"},
	}, Rows: rows})
}

// onEach asks the clusters that are meant about a service, or all on which it runs. A cluster that does not answer is told,
// and left out of what comes back; that none does is an error.
func onEach[T any](
	ctx context.Context, f *cmdutil.Factory, hub *client.Client, name string, clusters []string,
	ask func(ctx context.Context, cluster, service string) (*v1.List[T], error),
) (where []string, found [][]T, err error) {
	s, err := hub.Service(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if err := only(s, clusters); err != nil {
		return nil, nil, err
	}
	answers := make([][]T, len(s.Deployments))
	failed := make([]error, len(s.Deployments))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range s.Deployments {
		group.Go(func() error {
			list, err := ask(ctx, s.Deployments[i].Cluster, name)
			if failed[i] = err; err == nil {
				answers[i] = list.Items
			}
			return nil // the others go on
		})
	}
	_ = group.Wait()
	for i := range failed {
		cluster := s.Deployments[i].Cluster
		if failed[i] == nil {
			where, found = append(where, cluster), append(found, answers[i])
			continue
		}
		err = failed[i]
		if len(failed) > 1 {
			f.Say("%s: %s", ui.Clean(cluster), ui.Clean(cmdutil.Explain(failed[i]).Error()))
		}
	}
	if len(where) > 0 {
		err = nil
	}
	return where, found, err
}

// branches are rows for objects, each below what owns it. Those whose owner is not among them stand at the first level.
func branches(objects []v1.Object, now time.Time) [][]string {
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
	b := brancher{below: below, now: now, seen: map[string]bool{}}
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
	below map[string][]*v1.Object
	now   time.Time
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
		b.rows = append(b.rows, []string{indent + fork + objectName(o), string(o.Health), created(b.now, o.Created), reason(o)})
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
