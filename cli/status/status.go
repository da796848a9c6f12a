// Package status owns the fleet's status screen.
//
// It refuses to know how the hub works out what it says. The screen is made from two answers of the hub, the status and
// the clusters, and ends with the command to run next.
package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// beat is how often --watch looks.
const beat = 2 * time.Second

type options struct {
	f        *cmdutil.Factory
	watch    bool
	exitCode bool
}

// NewCmdStatus is `plural status`.
func NewCmdStatus(f *cmdutil.Factory) *cobra.Command {
	opts := options{f: f}
	cmd := &cobra.Command{
		Use:     "status",
		GroupID: cmdutil.GroupStart,
		Short:   "See how the fleet is, and what to do next",
		Long: `See how the fleet is, and what to do next.

With --exit-code the command ends with 2 unless everything that is asked for
runs, healthy, at the newest commit. With --watch it looks again and again, and
prints what changed; together they end when that is so. --timeout ends the wait
with 8.`,
		Example: cmdutil.Example("plural status", "plural status --watch --exit-code --timeout 5m"),
		Args:    cmdutil.Exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
	cmd.Flags().BoolVar(&opts.watch, "watch", false, "look again and again")
	cmd.Flags().BoolVar(&opts.exitCode, "exit-code", false, "end with 2 unless the fleet has converged")
	return cmd
}

// Show prints the status once.
func Show(ctx context.Context, f *cmdutil.Factory) error { return run(ctx, options{f: f}) }

func run(ctx context.Context, opts options) error {
	hub, printer, err := opts.f.Ask()
	if err != nil {
		return err
	}
	if opts.watch {
		return watch(ctx, opts, hub, printer)
	}
	now, err := look(ctx, opts.f, hub, printer)
	if err != nil {
		return err
	}
	if err := printer.Print(now.view); err != nil {
		return err
	}
	if opts.exitCode && !now.status.Converged() {
		return ui.Silent(ui.ExitDiffers)
	}
	return nil
}

// watch prints the status whenever it says something new. A hub that is away for a while is told once and waited for.
func watch(ctx context.Context, opts options, hub *client.Client, printer *ui.Printer) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	var shown string
	for {
		now, err := look(ctx, opts.f, hub, printer)
		var away *client.Unreachable
		switch {
		case errors.As(err, &away):
			if shown != away.Error() {
				ui.Render(opts.f.IO.ErrOut, cmdutil.Explain(err))
			}
			shown = away.Error()
		case err != nil:
			return err
		case now.digest != shown:
			if err := printer.Print(now.view); err != nil {
				return err
			}
			shown = now.digest
		}
		if err == nil && opts.exitCode && now.status.Converged() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// sight is what one look at the fleet gave.
type sight struct {
	status *v1.Status
	view   ui.View
	// digest differs when the fleet does, and not merely because time passed.
	digest string
}

func look(ctx context.Context, f *cmdutil.Factory, hub *client.Client, printer *ui.Printer) (*sight, error) {
	status, err := hub.Status(ctx)
	if err != nil {
		return nil, err
	}
	s := &sight{status: status, view: ui.View{Value: status, Names: []string{"workspace/" + status.Workspace}}}
	if !printer.Human() {
		s.digest, err = digest(status, nil)
		return s, err
	}
	clusters, err := hub.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	s.view.Screen = func(w io.Writer) error {
		return screen{f.IO, f.Now()}.write(w, status, clusters.Items)
	}
	s.digest, err = digest(status, clusters.Items)
	return s, err
}

// digest is the screen without its times.
func digest(status *v1.Status, clusters []v1.Cluster) (string, error) {
	still := *status
	still.Sources = nil
	quiet := make([]v1.Cluster, len(clusters))
	for i, c := range clusters {
		c.LastReport = nil
		quiet[i] = c
	}
	var b bytes.Buffer
	plain := &ui.Streams{}
	err := screen{plain, time.Unix(0, 0)}.write(&b, &still, quiet)
	return b.String(), err
}

// screen writes the status for people.
type screen struct {
	streams *ui.Streams
	now     time.Time
}

func (s screen) write(w io.Writer, status *v1.Status, clusters []v1.Cluster) error {
	s.first(w, status)
	s.refused(w, status)
	if len(clusters) > 0 {
		fmt.Fprintln(w)
		if err := s.table(w, cmdutil.ClusterColumns()[:5], short(cmdutil.ClusterRows(clusters, s.now))); err != nil {
			return err
		}
	}
	if len(status.Unhealthy) > 0 {
		fmt.Fprintln(w)
		if err := s.table(w, cmdutil.DeploymentColumns(), cmdutil.DeploymentRows(status.Unhealthy)); err != nil {
			return err
		}
	}
	s.problems(w, "held: these stay as they are", status.Held)
	s.sources(w, status.Sources)
	fmt.Fprintf(w, "\n%s\n", s.next(status, clusters))
	return nil
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
	title := "\nsources that cannot be fetched\n"
	for _, source := range list {
		if source.Error == "" {
			continue
		}
		fmt.Fprint(w, title)
		title = ""
		fmt.Fprintf(w, "  %s (last fetched %s): %s\n", ui.Clean(source.Name), cmdutil.Ago(s.now, source.LastFetch), ui.Clean(source.Error))
	}
}

// next says where things stand in one line, and which command to run.
func (s screen) next(status *v1.Status, clusters []v1.Cluster) string {
	switch {
	case len(status.Refused) > 0:
		return "next  plural validate, mend it, commit, push"
	case status.Commit.ID == "":
		return "next  plural source get ."
	case len(clusters) == 0:
		return "there are no clusters   next  see clusters/README.md"
	case len(status.Held) > 0:
		return "next  plural service get " + cmdutil.OrDash(status.Held[0].Service)
	case len(status.Unhealthy) > 0:
		return "next  plural service get " + status.Unhealthy[0].Service
	case !status.Converged():
		return "next  plural status --watch"
	}
	return s.streams.Paint(ui.Green, "everything runs") + "   next  plural service list"
}
