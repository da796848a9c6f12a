package why

import (
	"fmt"
	"io"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/offline"
)

// maxShown bounds a list of names on the screen.
const maxShown = 5

// screen prints answers for people.
type screen struct{ f *cmdutil.Factory }

func (s screen) paint(style ui.Style, text string) string { return s.f.IO.Paint(style, ui.Clean(text)) }

func (s screen) service(w io.Writer, a *serviceAnswer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s  %s\n", s.paint(ui.Bold, "service "+a.Service), ui.Clean(a.Where))
	s.origin(b, a.Files, a.Commit, a.Uncommitted)
	if a.Source != nil {
		fmt.Fprintf(b, "  source       %s\n", a.Source)
	}
	if a.Served != nil {
		fmt.Fprintf(b, "  served       %s\n", s.commit(a.Served.ID, a.Served.Subject))
	}
	if len(a.Problems)+len(a.Refused) > 0 {
		b.WriteByte('\n')
	}
	for _, p := range a.Problems {
		fmt.Fprintln(b, s.paint(ui.Red, "it cannot be resolved"))
		cmdutil.HubProblem(p).Write(b)
	}
	if len(a.Refused) > 0 {
		fmt.Fprintln(b, s.paint(ui.Red, "the newest commit is refused"))
		for _, p := range a.Refused {
			cmdutil.HubProblem(p).Write(b)
		}
	}
	if a.Hub != "" {
		fmt.Fprintf(b, "\nthis is from the repository alone, without the hub's word\n  %s\n", ui.Clean(a.Hub))
	}
	for _, g := range alike(a.Clusters) {
		s.clusters(b, g)
	}
	s.next(b, a.Next)
	_, err := io.WriteString(w, b.String())
	return err
}

// String is a source on one line.
func (s *sourceAnswer) String() string {
	text := ui.Clean(s.Name)
	if s.Ref != "" {
		text += " at " + ui.Clean(s.Ref)
	}
	if s.Commit != "" {
		text += ", " + cmdutil.ShortCommit(s.Commit)
	}
	return text + ", " + ui.Clean(s.URL)
}

func (s screen) next(b *strings.Builder, list []string) {
	for i, text := range list {
		lead := "\nnext  "
		if i > 0 {
			lead = "      "
		}
		fmt.Fprintf(b, "%s%s\n", lead, ui.Clean(text))
	}
}

// origin says what something is made of, and who changed it.
func (s screen) origin(b *strings.Builder, files []string, commit *offline.Commit, uncommitted []string) {
	fmt.Fprintf(b, "  made of      %s\n", cmdutil.Few(files))
	if commit != nil {
		fmt.Fprintf(b, "  last change  %s\n", s.change(commit))
	}
	if len(uncommitted) > 0 {
		fmt.Fprintf(b, "  %s  %s\n", s.paint(ui.Yellow, "uncommitted"), cmdutil.Few(uncommitted))
	}
}

func (s screen) commit(id, subject string) string {
	text := cmdutil.ShortCommit(id)
	if subject != "" {
		text += fmt.Sprintf(" %q", subject)
	}
	return text
}

func (s screen) change(c *offline.Commit) string {
	text := s.commit(c.ID, c.Subject) + " by " + ui.Clean(c.Author) + ", " + cmdutil.Ago(s.f.Now(), &c.Time)
	if c.Oldest {
		text += " (the history ends there in this clone)"
	}
	return text
}

// alike puts clusters together on which everything is the same.
func alike(all []clusterAnswer) [][]clusterAnswer {
	index := map[string]int{}
	var groups [][]clusterAnswer
	for _, c := range all {
		text := fmt.Sprint(c.Phase, c.Reasons, c.Chain)
		at, known := index[text]
		if !known {
			at = len(groups)
			index[text] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], c)
	}
	return groups
}

func (s screen) clusters(b *strings.Builder, group []clusterAnswer) {
	names := make([]string, len(group))
	for i, c := range group {
		names[i] = c.Cluster
	}
	c := group[0]
	fmt.Fprintf(b, "\non %s", reach(names))
	if c.Phase != "" {
		fmt.Fprintf(b, ": %s", s.f.IO.Paint(cmdutil.PhaseStyle(string(c.Phase)), ui.Clean(string(c.Phase))))
	}
	b.WriteByte('\n')
	for i, reason := range c.Reasons {
		fmt.Fprintf(b, "  %s\n", ui.Clean(reason))
		if i == 0 && c.Written != "" && c.broken() && !strings.Contains(reason, c.Written) {
			fmt.Fprintf(b, "    written in %s", ui.Clean(c.Written))
			if c.Parameter != "" {
				fmt.Fprintf(b, ", with a value that is set at %s", ui.Clean(c.Parameter))
			}
			b.WriteByte('\n')
		}
	}
	for i, l := range c.Chain {
		lead := "waits for"
		if i > 0 {
			lead = "which waits for"
		}
		fmt.Fprintf(b, "%s%s %s, %s", strings.Repeat("  ", i+1), lead, ui.Clean(l.Service), ui.Clean(cmdutil.OrDash(string(l.Phase))))
		if l.Reason != "" {
			fmt.Fprintf(b, ": %s", ui.Clean(l.Reason))
		}
		b.WriteByte('\n')
	}
}

// reach is "2 clusters: edge-1, edge-2".
func reach(clusters []string) string {
	noun := "clusters"
	if len(clusters) == 1 {
		noun = "cluster"
	}
	return fmt.Sprintf("%d %s: %s", len(clusters), noun, cmdutil.Few(clusters))
}

func (s screen) object(w io.Writer, a *objectAnswer) error {
	b := &strings.Builder{}
	for i := range a.Matches {
		m := &a.Matches[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(b, s.paint(ui.Bold, m.Object))
		fmt.Fprintf(b, "  made by      service %s, on %s\n", ui.Clean(m.Service), reach(m.Clusters))
		if m.File != "" {
			fmt.Fprintf(b, "  written in   %s\n", ui.Clean(m.place()))
		}
		if m.Commit != nil {
			fmt.Fprintf(b, "  last change  %s\n", s.change(m.Commit))
		}
		if len(m.Uncommitted) > 0 {
			fmt.Fprintf(b, "  %s  %s\n", s.paint(ui.Yellow, "uncommitted"), cmdutil.Few(m.Uncommitted))
		}
	}
	for i := range a.Live {
		s.live(b, &a.Live[i])
	}
	if len(a.Unreached) > 0 {
		fmt.Fprintf(b, "\nnot asked: %s\n", reach(a.Unreached))
	}
	if len(a.Unseen) > 0 {
		fmt.Fprintln(b, "\nnot looked into")
		for _, u := range a.Unseen {
			fmt.Fprintf(b, "  %s: %s\n", ui.Clean(u.Service), s.lines("", u.Reason))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines are a text's, those after the first further in.
func (s screen) lines(style ui.Style, text string) string {
	var list []string
	for line := range strings.Lines(text) {
		list = append(list, s.paint(style, strings.TrimSpace(line)))
	}
	return strings.Join(list, "\n    ")
}

// place is "file:line", or the file where the line is unknown.
func (m *match) place() string {
	if m.Line == 0 {
		return m.File
	}
	return fmt.Sprintf("%s:%d", m.File, m.Line)
}

// live prints who owns what.
func (s screen) live(b *strings.Builder, l *liveObject) {
	fmt.Fprintf(b, "\n%s\n", s.paint(ui.Bold, l.Object+" on "+l.Cluster))
	if l.Error != "" {
		fmt.Fprintf(b, "  %s\n", s.lines(ui.Red, l.Error))
		return
	}
	fmt.Fprintf(b, "  %s\n", ui.Clean(l.Recorded))
	for _, warning := range l.Warnings {
		fmt.Fprintf(b, "  %s\n", s.paint(ui.Yellow, warning))
	}
	for _, o := range l.Owners {
		how := o.Operation
		if o.Subresource != "" {
			how += " of " + o.Subresource
		}
		when := "-"
		if !o.Time.IsZero() {
			when = cmdutil.Ago(s.f.Now(), &o.Time)
		}
		fmt.Fprintf(b, "  %s  %s, %s\n", s.paint(ui.Bold, o.Manager), ui.Clean(how), when)
		for _, field := range o.Fields {
			fmt.Fprintf(b, "    %s\n", ui.Clean(field))
		}
	}
}
