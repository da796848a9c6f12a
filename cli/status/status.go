// Package status owns the fleet's status screen.
//
// It refuses to know how the hub works out what it says. The screen is made from two answers of the hub, the status and
// its worst clusters, and ends with the command to run next. Where services or a filter are named, a list of them cluster by
// cluster is in its place.
package status

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
runs, healthy, at the newest commit. With --wait it waits until that is so, and
shows it then; with --watch it shows what changes meanwhile too, and with
--watch alone until it is interrupted. --timeout ends each of them with 8.`,
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
type looks func(ctx context.Context, hub *client.Client, printer *ui.Printer) (*sight, error)

// sight is what one look at the fleet gave.
type sight struct {
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
	if opts.wait && !opts.watching.On {
		if err := wait(ctx, opts, look); err != nil {
			return err
		}
	}
	var seen *sight
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

// wait looks until everything has converged, and tells a person what it waits for.
func wait(ctx context.Context, opts options, look looks) error {
	hub, printer, err := opts.f.Ask()
	if err != nil {
		return err
	}
	var seen *sight
	told := ""
	kinds := append(slices.Clone(opts.watching.Kinds), v1.ChangedSummary)
	err = opts.f.Watch(ctx, kinds, opts.watching.Filter, func(ctx context.Context) error {
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
func late(ctx context.Context, err error, seen *sight) error {
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
func (o options) fleet(ctx context.Context, hub *client.Client, printer *ui.Printer) (*sight, error) {
	status, err := hub.Status(ctx)
	if err != nil {
		return nil, err
	}
	quiet := *status
	quiet.Sources = cmdutil.StillSources(status.Sources)
	s := &sight{
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
	s.view.Still = map[string]any{"status": quiet, "clusters": cmdutil.StillClusters(clusters.Items)}
	s.view.Screen = func(w io.Writer) error { return screen{o.f.IO, o.f.Now()}.write(w, status, clusters) }
	s.view.Note = next(status, clusters.Total)
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
		list = append(list, ui.Problem{Message: "the clusters: " + counted(ui.Streams{}, "cluster", status.Clusters)})
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

// rows are services on clusters.
func (o options) rows(q paging.Query) looks {
	return func(ctx context.Context, hub *client.Client, _ *ui.Printer) (*sight, error) {
		list, err := cmdutil.Pick(ctx, &o.selection, q, hub.DeploymentsPage)
		if err != nil {
			return nil, err
		}
		view := ui.View{
			Value: list, Rows: cmdutil.DeploymentRows(list.Items),
			Columns: append(cmdutil.DeploymentColumns(), ui.Column{Name: "VERSION", Wide: true}),
			Note:    o.selection.Note("services on clusters", len(list.Items), list.Total),
		}
		s := &sight{converged: list.Total > 0 && list.Counts[v1.Healthy] == list.Total}
		for i := range list.Items {
			d := &list.Items[i]
			view.Rows[i] = append(view.Rows[i], cmdutil.OrDash(d.Version))
			view.Names = append(view.Names, d.Cluster+"/"+d.Service)
			if d.Phase != v1.Healthy {
				s.pending = append(s.pending, deploymentProblem(d))
			}
		}
		if list.Total == 0 {
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

// screen writes the status for people.
type screen struct {
	streams *ui.Streams
	now     time.Time
}

func (s screen) write(w io.Writer, status *v1.Status, clusters *v1.List[v1.Cluster]) error {
	s.first(w, status)
	s.pulse(w, status)
	s.refused(w, status)
	if len(clusters.Items) > 0 {
		fmt.Fprintln(w)
		if err := s.table(w, cmdutil.ClusterColumns()[:5], short(cmdutil.ClusterRows(clusters.Items, s.now))); err != nil {
			return err
		}
	}
	if rest := clusters.Total - len(clusters.Items); rest > 0 {
		fmt.Fprintf(w, "and %s clusters more, none of them worse: plural cluster list\n", grouped(rest))
	}
	if len(status.Unhealthy) > 0 {
		fmt.Fprintln(w)
		if err := s.table(w, cmdutil.DeploymentColumns(), cmdutil.DeploymentRows(status.Unhealthy)); err != nil {
			return err
		}
	}
	s.problems(w, "held: these stay as they are", status.Held)
	s.sources(w, status.Sources)
	s.rewound(w, status.Sources)
	s.notices(w, status.Notices)
	if stands := s.stands(status, clusters.Total); stands != "" {
		fmt.Fprintf(w, "\n%s\n", stands)
	}
	return nil
}

// stands says that all is as it should be, as far as it is; empty while it is not.
func (s screen) stands(status *v1.Status, clusters int) string {
	switch {
	case clusters == 0:
		return "there are no clusters"
	case !status.Converged():
		return ""
	case len(unfetched(status.Sources)) > 0:
		return s.streams.Paint(ui.Yellow, "what was fetched runs, and may be old")
	case status.Suspended > 0:
		return s.streams.Paint(ui.Green, "everything runs but what is suspended") + fmt.Sprintf(" (%s)", grouped(status.Suspended))
	}
	return s.streams.Paint(ui.Green, "everything runs")
}

func (s screen) table(w io.Writer, columns []ui.Column, rows [][]string) error {
	return s.streams.Aligned(w, columns, rows)
}

// short cuts the wide columns off.
func short(rows [][]string) [][]string {
	for i := range rows {
		rows[i] = rows[i][:5]
	}
	return rows
}

// first is the line that says which fleet this is, and at which commit.
func (s screen) first(w io.Writer, status *v1.Status) {
	fmt.Fprint(w, s.streams.Paint(ui.Bold, ui.Clean(cmdutil.OrDash(status.Workspace))))
	if status.Commit.ID == "" {
		fmt.Fprintln(w, "  no commit is served yet")
		return
	}
	fmt.Fprintf(w, "  %s", cmdutil.ShortCommit(status.Commit.ID))
	if status.Commit.Subject != "" {
		fmt.Fprintf(w, " %q", status.Commit.Subject)
	}
	if status.Commit.Time != nil {
		fmt.Fprintf(w, "  %s", cmdutil.Ago(s.now, status.Commit.Time))
	}
	fmt.Fprintln(w)
}

// pulse is the fleet in one line of figures.
func (s screen) pulse(w io.Writer, status *v1.Status) {
	var parts []string
	for _, of := range []struct {
		noun   string
		counts v1.Counts
	}{{"cluster", status.Clusters}, {"service", status.Services}} {
		if of.counts.Total() > 0 {
			parts = append(parts, counted(*s.streams, of.noun, of.counts))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintln(w, strings.Join(parts, "   "))
	}
}

// counted is how many of something are in each phase, the best first.
func counted(streams ui.Streams, noun string, counts v1.Counts) string {
	total := counts.Total()
	if total != 1 {
		noun += "s"
	}
	var parts []string
	for _, phase := range v1.Phases() {
		if n := counts[phase]; n > 0 {
			parts = append(parts, streams.Paint(cmdutil.PhaseStyle(string(phase)), grouped(n)+" "+string(phase)))
		}
	}
	return grouped(total) + " " + noun + ": " + strings.Join(parts, ", ")
}

// grouped is a number with commas between its thousands.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// refused says why the newest commit is not the one that runs.
func (s screen) refused(w io.Writer, status *v1.Status) {
	if len(status.Refused) == 0 {
		return
	}
	title := fmt.Sprintf("commit %s is refused", cmdutil.ShortCommit(status.Head.ID))
	if status.Commit.ID != "" {
		title += fmt.Sprintf("; %s keeps running", cmdutil.ShortCommit(status.Commit.ID))
	}
	s.problems(w, title, status.Refused)
}

func (s screen) problems(w io.Writer, title string, list []v1.Problem) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", s.streams.Paint(ui.Red, title))
	for _, p := range list {
		cmdutil.HubProblem(p).Write(w)
	}
}

// sources tells of those that cannot be fetched.
func (s screen) sources(w io.Writer, list []v1.Source) {
	failing := unfetched(list)
	if len(failing) > 0 {
		fmt.Fprintf(w, "\n%s\n", s.streams.Paint(ui.Red, "sources that cannot be fetched: what was fetched of them before is served"))
	}
	for i := range failing {
		fmt.Fprintf(w, "  %s: %s; last fetched %s, %s is served\n", ui.Clean(failing[i].Name), cmdutil.Failing(s.now, &failing[i]),
			cmdutil.Ago(s.now, failing[i].LastFetch), served(&failing[i]))
		fmt.Fprintf(w, "    cause  %s\n", ui.Clean(failing[i].Error))
	}
}

// rewound tells of refs whose newest commit did not come out of the one before.
func (s screen) rewound(w io.Writer, list []v1.Source) {
	title := "\n" + s.streams.Paint(ui.Yellow, "sources that left their history: somebody force-pushed, or put a backup in their place") + "\n"
	for i := range list {
		for _, ref := range list[i].Refs {
			if ref.Rewound == "" {
				continue
			}
			fmt.Fprintf(w, "%s  %s %s: %s is served; it %s\n", title, ui.Clean(list[i].Name), ui.Clean(ref.Ref), cmdutil.ShortCommit(ref.Commit),
				ui.Clean(ref.Rewound))
			title = ""
		}
	}
}

// notices are what the hub has noticed lately besides.
func (s screen) notices(w io.Writer, list []v1.Notice) {
	if len(list) > 0 {
		fmt.Fprintf(w, "\n%s\n", s.streams.Paint(ui.Yellow, "the hub noticed"))
	}
	for i := range list {
		fmt.Fprintf(w, "  %s, %s\n", ui.Clean(list[i].Message), cmdutil.Ago(s.now, &list[i].Time))
		if list[i].Fix != "" {
			fmt.Fprintf(w, "    fix    %s\n", ui.Clean(list[i].Fix))
		}
	}
}

// served is what still runs of a source.
func served(source *v1.Source) string {
	if source.Commit == "" && len(source.Refs) == 0 {
		return "nothing"
	}
	return cmdutil.ShortCommit(cmp.Or(source.Commit, append(source.Refs, v1.SourceRef{})[0].Commit))
}

func unfetched(list []v1.Source) []v1.Source {
	return slices.DeleteFunc(slices.Clone(list), func(s v1.Source) bool { return s.Error == "" })
}

// next is the command to run next. It goes beside the screen: programs that read that are not told what to do.
func next(status *v1.Status, clusters int) string {
	switch {
	case len(status.Refused) > 0:
		return "next  " + cmdutil.Mend(status.Refused[0])
	case status.Commit.ID == "":
		return "next  plural source get ."
	case clusters == 0:
		return "next  see clusters/README.md"
	case len(status.Held) > 0:
		return "next  " + held(status.Held[0])
	case len(status.Unhealthy) > 0:
		return "next  " + unhealthy(&status.Unhealthy[0])
	case !status.Converged():
		return "next  plural status --watch"
	}
	if failing := unfetched(status.Sources); len(failing) > 0 {
		return "next  plural source get " + failing[0].Name
	}
	if status.Suspended > 0 {
		return "next  plural status --filter suspended:true"
	}
	return "next  plural service list"
}

// held is what to do about what stays as it is.
func held(p v1.Problem) string {
	if p.Token != "" || p.Service == "" {
		return cmdutil.Mend(p)
	}
	return "plural why " + p.Service
}

// unhealthy is what to do about a service on a cluster.
func unhealthy(d *v1.Deployment) string {
	switch d.Phase {
	case v1.Held:
		return "plural service ack " + d.Service + " agrees; plural undo takes the newest change back"
	case v1.Failed, v1.Degraded:
		return "plural why " + d.Service + " says what to mend; plural undo takes the newest change back"
	}
	return "plural why " + d.Service
}
