// Package status owns the fleet's status screen.
//
// It refuses to know how the hub works out what it says. The screen is made from two answers of the hub, the status and
// its worst clusters, and ends with the command to run next. Where services or a filter are named, a list of them cluster by
// cluster is in its place.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/paging"
)

type options struct {
	f         *cmdutil.Factory
	selection cmdutil.Selection
	watching  cmdutil.Watching
	names     []string
	exitCode  bool
	wait      bool
}

// NewCmdStatus is `plural status`.
func NewCmdStatus(f *cmdutil.Factory) *cobra.Command {
	opts := options{f: f}
	cmd := &cobra.Command{
		Use:     "status [SERVICE...]",
		GroupID: cmdutil.GroupStart,
		Short:   "See how the fleet is, and what to do next",
		Long: `See how the fleet is, and what to do next.

With names of services, -l or --filter it is the list of what fits, cluster by
cluster: plural status web, plural status --filter '@prod-* health:degraded'.

With --exit-code the command ends with 2 unless everything that is asked for
runs, healthy, at the newest commit. With --wait it waits until that is so, for
ten minutes at most, and shows it then; with --watch it shows what changes
meanwhile too, and with --watch alone until it is interrupted. --timeout ends
each of them with 8.`,
		Example: cmdutil.Example(
			"plural status",
			"plural status web -l env=prod --watch",
			"plural status --wait --timeout 5m",
			"plural status --filter '!health:healthy' --sort -health --limit 20"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.names = args
			return run(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	opts.selection.Flags(flags)
	opts.watching.Flags(flags)
	flags.BoolVar(&opts.exitCode, "exit-code", false, "end with 2 unless the fleet has converged")
	flags.BoolVar(&opts.wait, "wait", false, "wait until the fleet has converged")
	return cmd
}

// Show prints the status once.
func Show(ctx context.Context, f *cmdutil.Factory) error { return run(ctx, options{f: f}) }

// looks is what there is to see, and how it is asked for.
type looks func(ctx context.Context, hub *client.Client, printer *ui.Printer) (*snapshot, error)

// snapshot is what one look at the fleet gave.
type snapshot struct {
	view ui.View
	// converged says that there is no more to wait for; pending says, if there is, what for.
	converged bool
	pending   []ui.Problem
}

func run(ctx context.Context, opts options) error {
	look := looks(opts.fleet)
	opts.watching.Kinds = []v1.ChangeKind{v1.ChangedSummary, v1.ChangedClusters, v1.ChangedDeployments, v1.ChangedSources}
	if s := &opts.selection; len(opts.names) > 0 || s.Any() || s.Sort != "" || s.Limit != 0 {
		q, err := s.Query("service", opts.names)
		if err != nil {
			return err
		}
		look = opts.rows(q)
		opts.watching.Kinds, opts.watching.Filter = []v1.ChangeKind{v1.ChangedDeployments}, q.Filter
	}
	opts.watching.Awaits = opts.wait
	if opts.wait && !opts.watching.On {
		if err := wait(ctx, opts, look); err != nil {
			return err
		}
	}
	var seen *snapshot
	err := opts.f.Show(ctx, opts.watching, func(ctx context.Context, hub *client.Client, printer *ui.Printer) (ui.View, error) {
		now, err := look(ctx, hub, printer)
		if err != nil {
			return ui.View{}, err
		}
		if seen = now; opts.watching.On && (opts.exitCode || opts.wait) && now.converged {
			err = cmdutil.ErrEnough
		}
		return now.view, err
	})
	if err == nil && opts.exitCode && !seen.converged {
		return ui.Silent(ui.ExitDiffers)
	}
	return late(ctx, err, seen)
}

// limit is how long --wait waits where --timeout says nothing.
const limit = 10 * time.Minute

var errLimit = fmt.Errorf("it was waited for %s; --timeout makes that longer", limit)

// wait looks until everything has converged, and tells a person what it waits for.
func wait(ctx context.Context, opts options, look looks) error {
	if opts.f.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errLimit)
		defer cancel()
	}
	hub, printer, err := opts.f.Ask()
	if err != nil {
		return err
	}
	var seen *snapshot
	told := ""
	kinds := append(slices.Clone(opts.watching.Kinds), v1.ChangedSummary)
	watching := cmdutil.Watching{Kinds: kinds, Filter: opts.watching.Filter, Awaits: true}
	err = opts.f.Watch(ctx, watching, func(ctx context.Context) error {
		now, err := look(ctx, hub, printer)
		if err != nil {
			return err
		}
		if seen = now; now.converged {
			return cmdutil.ErrEnough
		}
		if text := waiting(now.pending); text != told {
			opts.f.Say("%s", ui.Clean(text))
			told = text
		}
		return nil
	})
	return late(ctx, err, seen)
}

// waiting is what is waited for in one line.
func waiting(pending []ui.Problem) string {
	const most = 3
	var parts []string
	for _, p := range pending[:min(most, len(pending))] {
		parts = append(parts, p.Message)
	}
	text := "waiting for " + strings.Join(parts, "; ")
	if rest := len(pending) - most; rest > 0 {
		text += fmt.Sprintf("; and %d more", rest)
	}
	return text
}

// maxPending is how much is told of what was waited for.
const maxPending = 20

// late adds what was waited for to the error of a wait whose time is over.
func late(ctx context.Context, err error, seen *snapshot) error {
	if err == nil || seen == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	problems := seen.pending
	if rest := len(problems) - maxPending; rest > 0 {
		problems = append(slices.Clone(problems[:maxPending]), ui.Problem{Message: fmt.Sprintf("and %d more", rest)})
	}
	return &ui.Err{Msg: "it has not converged", Problems: problems, Doc: ui.DocNotConverged, Code: ui.ExitPending, Err: err}
}

// most is how many clusters the screen has.
const most = 50

// fleet is the whole fleet.
func (o options) fleet(ctx context.Context, hub *client.Client, printer *ui.Printer) (*snapshot, error) {
	status, err := hub.Status(ctx)
	if err != nil {
		return nil, err
	}
	quiet := *status
	quiet.Sources = cmdutil.StillSources(status.Sources)
	s := &snapshot{
		view:      ui.View{Value: status, Names: []string{"workspace/" + status.Workspace}, Still: quiet},
		converged: status.Converged(), pending: pending(status),
	}
	if !printer.Human() {
		return s, nil
	}
	// The worst come first; they are shown by name.
	clusters, err := hub.ClustersPage(ctx, paging.Query{Sort: "-health", Limit: most})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(clusters.Items, func(a, b v1.Cluster) int { return strings.Compare(a.Name, b.Name) })
	if store := o.f.LastSeen(); store != nil {
		_ = store.SaveVersions(o.f.Now(), clusters.Items) // validate does with the newest that is known
	}
	s.view.Still = map[string]any{"status": quiet, "clusters": cmdutil.StillClusters(clusters.Items)}
	s.view.Screen = func(w io.Writer) error { return screen{o.f.IO, o.f.Now()}.write(w, status, clusters) }
	s.view.Note = next(status, clusters.Total, o.f.Mender(ctx, hub.Address()))
	return s, nil
}

// pending is why a fleet has not converged.
func pending(status *v1.Status) []ui.Problem {
	var list []ui.Problem
	for _, p := range slices.Concat(status.Refused, status.Held) {
		list = append(list, cmdutil.HubProblem(p))
	}
	for i := range status.Unhealthy {
		list = append(list, deploymentProblem(&status.Unhealthy[i]))
	}
	switch {
	case len(list) > 0:
	case status.Head.ID == "":
		list = append(list, ui.Problem{Message: "the hub has seen no commit"})
	case status.Head.ID != status.Commit.ID:
		list = append(list, ui.Problem{Message: "commit " + cmdutil.ShortCommit(status.Head.ID) + " is not served yet"})
	default:
		list = append(list, ui.Problem{Message: "the clusters: " + counted(ui.Streams{}, "cluster", status.Clusters, 0)})
	}
	return list
}

func deploymentProblem(d *v1.Deployment) ui.Problem {
	text := fmt.Sprintf("%s on %s is %s", d.Service, d.Cluster, d.Phase)
	if d.Message != "" {
		text += ": " + d.Message
	}
	return ui.Problem{Message: text}
}

// known is an error where a service is named that the fleet does not have; a wait is for what may come.
func (o options) known(ctx context.Context, hub *client.Client) error {
	for _, name := range o.names {
		if o.wait || strings.Contains(name, "*") {
			continue
		}
		if _, err := hub.Service(ctx, name); err != nil {
			return o.f.Unknown(ctx, "service", name, err)
		}
	}
	return nil
}

// rows are services on clusters.
func (o options) rows(q paging.Query) looks {
	return func(ctx context.Context, hub *client.Client, _ *ui.Printer) (*snapshot, error) {
		list, err := cmdutil.Pick(ctx, &o.selection, q, hub.DeploymentsPage)
		if err != nil {
			return nil, err
		}
		view := ui.View{
			Value: list, Rows: cmdutil.DeploymentRows(list.Items),
			Columns: append(cmdutil.DeploymentColumns(), ui.Column{Name: "VERSION", Wide: true}),
			Note:    o.selection.Note("services on clusters", len(list.Items), list.Total),
		}
		s := &snapshot{converged: list.Total > 0 && list.Counts[v1.Healthy] == list.Total}
		for i := range list.Items {
			d := &list.Items[i]
			view.Rows[i] = append(view.Rows[i], cmdutil.OrDash(d.Version))
			view.Names = append(view.Names, d.Cluster+"/"+d.Service)
			if d.Phase != v1.Healthy {
				s.pending = append(s.pending, deploymentProblem(d))
			}
		}
		if list.Total == 0 {
			if err := o.known(ctx, hub); err != nil {
				return nil, err
			}
			view.Note = "nothing fits: plural service list has the services, plural cluster list the clusters"
			s.pending = []ui.Problem{{Message: "a service on a cluster that fits"}}
		}
		s.view = view
		if !o.wait && !o.exitCode {
			return s, nil
		}
		// What runs may be healthy, and old.
		sum, err := hub.Summary(ctx)
		if err != nil {
			return nil, err
		}
		if sum.Head.ID != sum.Commit.ID {
			s.converged = false
			s.pending = append(s.pending, ui.Problem{Message: "commit " + cmdutil.ShortCommit(sum.Head.ID) + " is not served"})
		}
		return s, nil
	}
}
