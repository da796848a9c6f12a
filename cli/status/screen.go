package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

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
	case len(status.NowhereNames) > 0:
		return s.streams.Paint(ui.Yellow, "everything runs, but "+nowhere(status))
	case status.Suspended > 0:
		return s.streams.Paint(ui.Green, "everything runs but what is suspended") + fmt.Sprintf(" (%s)", grouped(status.Suspended))
	}
	return s.streams.Paint(ui.Green, "everything runs")
}

// nowhere says which services run nowhere, of which there are some.
func nowhere(status *v1.Status) string {
	text, verb := ui.Clean(status.NowhereNames[0]), " runs"
	if rest := status.Nowhere - 1; rest > 0 {
		text, verb = fmt.Sprintf("%s and %s more", text, grouped(rest)), " run"
	}
	return text + verb + " nowhere: no cluster fits"
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
		noun    string
		counts  v1.Counts
		nowhere int
	}{{"cluster", status.Clusters, 0}, {"service", status.Services, status.Nowhere}} {
		if of.counts.Total() > 0 {
			parts = append(parts, counted(*s.streams, of.noun, of.counts, of.nowhere))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintln(w, strings.Join(parts, "   "))
	}
}

// counted is how many of something are in each phase, the best first. Those that run nowhere are counted as healthy by the hub.
func counted(streams ui.Streams, noun string, counts v1.Counts, nowhere int) string {
	total := counts.Total()
	if total != 1 {
		noun += "s"
	}
	var parts []string
	for _, phase := range v1.Phases() {
		n := counts[phase]
		if phase == v1.Healthy {
			n -= nowhere
		}
		if n > 0 {
			parts = append(parts, streams.Paint(cmdutil.PhaseStyle(string(phase)), grouped(n)+" "+string(phase)))
		}
	}
	if nowhere > 0 {
		parts = append(parts, streams.Paint(ui.Yellow, grouped(nowhere)+" nowhere"))
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
	if since := cmdutil.Inherited(status.Refused[0], status.Head.ID); since != "" {
		title += "; " + since
	}
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

// next is the command to run next; mend says what helps a deployment. It goes beside the screen: programs that read that are not told
// what to do.
func next(status *v1.Status, clusters int, mend func(*v1.Deployment) string) string {
	switch {
	case len(status.Refused) > 0:
		return "next  " + cmdutil.Mend(status.Refused[0], status.Commit.ID)
	case status.Commit.ID == "":
		return "next  plural source get ."
	case clusters == 0:
		return "next  see clusters/README.md"
	case len(status.Held) > 0:
		return "next  " + held(status.Held[0])
	case len(status.Unhealthy) > 0:
		return "next  " + mend(&status.Unhealthy[0])
	case !status.Converged() && status.Clusters[v1.Unregistered] > 0:
		return "next  plural cluster register NAME, for the clusters that are unregistered"
	case !status.Converged():
		return "next  plural status --watch"
	}
	if failing := unfetched(status.Sources); len(failing) > 0 {
		return "next  plural source get " + failing[0].Name
	}
	if len(status.NowhereNames) > 0 {
		return "next  plural service get " + status.NowhereNames[0]
	}
	if status.Suspended > 0 {
		return "next  plural status --filter suspended:true"
	}
	return "next  plural service list"
}

// held is what to do about what stays as it is.
func held(p v1.Problem) string {
	if p.Token != "" || p.Service == "" {
		return cmdutil.Mend(p, "")
	}
	return "plural why " + p.Service
}
