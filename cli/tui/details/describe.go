package details

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// facts are written below each other. The zero value is empty.
type facts struct {
	look  *paint.Look
	now   time.Time
	lines []line
}

// nameWidth is how far to the right values begin.
const nameWidth = 14

func (f *facts) add(l ...line)                  { f.lines = append(f.lines, l...) }
func (f *facts) say(s paint.Style, text string) { f.add(say(s, text)) }

// fact is a name with a value, left out where that is empty.
func (f *facts) fact(name, value string) { f.styled(name, paint.Plain, value) }

func (f *facts) styled(name string, style paint.Style, value string) {
	if value != "" {
		if utf8.RuneCountInString(name) >= nameWidth {
			name += "  " // it has no room to end in
		}
		f.add(line{{paint.Name, fmt.Sprintf("%-*s", nameWidth, name)}, {style, value}})
	}
}

func (f *facts) ago(name string, t *time.Time) {
	if t != nil && !t.IsZero() {
		f.fact(name, cmdutil.Ago(f.now, t))
	}
}

// head begins a part.
func (f *facts) head(text string) { f.add(line{}, say(paint.Head, text)) }

// phase is how something is, glyph and word.
func (f *facts) phase(name string, p v1.Phase) {
	if p != "" {
		glyph, style := f.look.Phase(p)
		f.styled(name, style, glyph+" "+string(p))
	}
}

// waiting is what waits on a cluster for a person: objects, or services as a whole.
func (f *facts) waiting(w *v1.Waiting, what, cluster, agree string) {
	if w == nil {
		return
	}
	f.head("waits for an agreement")
	f.fact("  message", w.Message)
	f.fact("  token", w.Agreement(cluster))
	deletes := strings.Join(w.Names, ", ") + others(w.Count-len(w.Names))
	if len(w.Names) == 0 {
		deletes = fmt.Sprintf("%d %s", w.Count, what)
	}
	f.fact("  deletes", deletes)
	f.fact("  agree", agree)
}

func others(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func (f *facts) problem(p *v1.Problem) {
	text := p.Message
	for _, before := range []string{p.Reason, p.Object} {
		if before != "" {
			text = before + ": " + text
		}
	}
	f.add(line{{paint.Bad, "  " + text}})
	if p.File != "" {
		where := p.File
		if p.Line > 0 {
			where += ":" + strconv.Itoa(p.Line)
		}
		f.fact("    at", where)
	}
	f.fact("    fix", p.Fix)
	if p.Token != "" {
		f.fact("    token", p.Token)
	}
}

// described is all that was found out about a subject, of which much may be missing.
type described struct {
	cluster     *v1.ClusterDetail
	connections []v1.Connection
	service     *v1.Service
	deployment  *v1.Deployment
	source      *v1.Source
	upgrade     *v1.Upgrade
	revision    *v1.Revision
	status      *v1.Status
	live        *liveObject
	events      []v1.ObjectEvent
	// gone says that the object is not there any more.
	gone   bool
	origin *origin
	chain  []awaited
	// asOf is when it was so, where that is not now.
	asOf time.Time
	// beside is what could not be found out.
	beside []error
}

// lately is how old what is shown of a live object gets before it is asked for again.
const lately = 3 * time.Second

func newDescribe(w *pane.World, about pane.Subject) (pane.Pane, error) {
	p := newPage[*described](w, about, "describe")
	p.ages, p.wraps, p.wrap = true, true, true
	asker := askerOf(w)
	if about.Kind == pane.KindObject || about.Kind == pane.KindDeployment {
		p.from = "cluster " + about.Cluster
	}
	if about.Kind == pane.KindObject && w.Hub != nil {
		p.every = lately // what is done to an object is seen here: nothing else tells of it
	}
	p.seen = func(d *described) time.Time { return d.asOf }
	p.prepare = func() {
		known := remembered(w.Fleet, about)
		if about.Kind == pane.KindObject && !p.at.IsZero() {
			known = new(*p.value)
			known.asOf = p.at
		}
		p.question = func(ctx context.Context) (*described, error) { return asker.describe(ctx, about, known) }
	}
	p.knows = func() bool { return remembered(w.Fleet, about) != nil }
	p.write = func(d *described) []line {
		f := &facts{look: w.Look, now: w.Now()}
		d.write(f, about)
		return f.lines
	}
	return &searched[*described]{p}, nil
}

// write says all that there is, in the order in which a person would ask for it.
func (d *described) write(f *facts, about pane.Subject) {
	switch {
	case d.deployment != nil:
		d.writeDeployment(f)
	case d.cluster != nil:
		d.writeCluster(f)
	case d.service != nil:
		d.writeService(f)
	case d.source != nil:
		d.writeSource(f)
	case d.upgrade != nil:
		d.writeUpgrade(f)
	case d.revision != nil:
		writeRevision(f, d.revision)
	case d.status != nil:
		d.writeStatus(f)
	case about.Object != nil:
		d.writeObject(f, about)
	}
	for _, err := range d.beside {
		f.add(line{})
		f.add(trouble(err)...)
	}
}

func (d *described) writeCluster(f *facts) {
	c := d.cluster
	f.fact("cluster", c.Name)
	f.phase("phase", c.Phase)
	f.fact("reason", c.Message)
	f.fact("tags", pairs(c.Tags))
	f.fact("services", cmdutil.Ratio(c.Ready, c.Services)+" healthy")
	f.fact("kubernetes", c.KubernetesVersion)
	f.fact("agent", c.AgentVersion)
	if c.LastReport == nil {
		f.fact("reported", "never")
	}
	f.ago("reported", c.LastReport)
	d.writeOrigin(f)
	f.waiting(c.Held, "services", c.Name, "plural service ack --cluster-removals "+c.Name)
	unhealthy(f, c.Deployments, func(d *v1.Deployment) string { return d.Service })
	if len(d.connections) > 0 {
		f.head("connections")
	}
	for _, c := range d.connections {
		f.fact("  "+c.Name, fmt.Sprintf("from %s, since %s, at replica %s, %d requests",
			cmdutil.OrDash(c.Host), cmdutil.Ago(f.now, &c.Since), cmdutil.OrDash(c.Replica), c.Streams))
	}
}

func (d *described) writeService(f *facts) {
	s := d.service
	f.fact("service", s.Name)
	f.phase("phase", s.Phase)
	f.fact("reason", s.Message)
	if s.Suspended {
		f.fact("suspended", "agents leave it as it is")
	}
	f.fact("source", strings.TrimSpace(cmp.Or(s.Source, ".")+" "+s.Ref))
	f.fact("path", s.Path)
	f.fact("renderer", s.Renderer)
	f.fact("namespace", s.Namespace)
	f.fact("clusters", cmdutil.Ratio(s.Ready, s.Clusters)+" healthy")
	f.fact("commit", s.Commit)
	d.writeOrigin(f)
	unhealthy(f, s.Deployments, func(d *v1.Deployment) string { return d.Cluster })
}

// maxUnhealthy is how many deployments are named that are not healthy.
const maxUnhealthy = 50

func unhealthy(f *facts, list []v1.Deployment, name func(*v1.Deployment) string) {
	list = slices.DeleteFunc(slices.Clone(list), func(d v1.Deployment) bool { return d.Phase == v1.Healthy })
	if len(list) == 0 {
		return
	}
	f.head("not healthy")
	for i := range list[:min(len(list), maxUnhealthy)] {
		d := &list[i]
		reason := d.Message
		if reason == "" && len(d.Problems) > 0 {
			reason = d.Problems[0].Message
		}
		glyph, style := f.look.Phase(d.Phase)
		f.add(line{
			{paint.Plain, fmt.Sprintf("  %-24s ", name(d))}, {style, fmt.Sprintf("%s %-12s", glyph, d.Phase)}, {paint.Plain, " " + reason},
		})
	}
	if n := len(list) - maxUnhealthy; n > 0 {
		f.say(paint.Faint, fmt.Sprintf("  and %d more", n))
	}
}

func (d *described) writeDeployment(f *facts) {
	p := d.deployment
	f.fact("service", p.Service)
	f.fact("cluster", p.Cluster)
	f.phase("phase", p.Phase)
	f.fact("reason", p.Message)
	if p.Phase != v1.Healthy && p.Message != "" && p.Held == nil && !p.Suspended { // what is held names its own commands
		f.fact("next", cmdutil.MendDeployment(p, ""))
	}
	if p.Suspended {
		f.fact("suspended", "its agent leaves it as it is")
	}
	f.fact("objects", cmdutil.Ratio(p.Ready, p.Objects)+" ready")
	switch {
	case p.Version != "" && p.AppliedVersion != "" && p.Version != p.AppliedVersion:
		f.fact("version", p.AppliedVersion+", going to "+p.Version)
	default:
		f.fact("version", cmp.Or(p.Version, p.AppliedVersion))
	}
	switch {
	case p.Key == "":
	case p.AppliedKey == p.Key:
		f.fact("key", p.Key+", which is what runs")
	case p.AppliedKey == "":
		f.fact("key", p.Key+", nothing was applied yet")
	default:
		f.fact("key", p.Key)
		f.fact("runs", p.AppliedKey)
	}
	if p.QuarantinedKey != "" {
		f.fact("quarantined", p.QuarantinedKey+", which failed a test that gates")
	}
	d.writeOrigin(f)
	if len(p.Problems) > 0 {
		f.head("problems")
	}
	for i := range p.Problems {
		f.problem(&p.Problems[i])
	}
	if len(d.chain) > 0 {
		f.head("waits for")
	}
	for i, a := range d.chain {
		glyph, style := f.look.Phase(a.phase)
		f.add(line{
			{paint.Plain, strings.Repeat("  ", i+1) + a.service + "  "}, {style, glyph + " " + string(a.phase)}, {paint.Plain, "  " + a.reason},
		})
	}
	agree := "plural service ack " + p.Service
	if p.Held != nil && p.Held.Unchecked {
		agree += " --cluster " + p.Cluster
	}
	f.waiting(p.Held, "objects", p.Cluster, agree)
	writeTests(f, p.Tests)
	if len(p.Notes) > 0 {
		f.head("notes")
	}
	for _, note := range p.Notes {
		f.say(paint.Plain, "  "+note)
	}
}

func writeTests(f *facts, tests []v1.Test) {
	if len(tests) == 0 {
		return
	}
	f.head("tests")
	for i := range tests {
		t := &tests[i]
		style := map[v1.TestOutcome]paint.Style{v1.TestPassed: paint.Good, v1.TestFailed: paint.Bad}[t.Outcome]
		if style == paint.Plain {
			style = paint.Busy
		}
		took := ""
		if t.Took > 0 {
			took = " in " + time.Duration(t.Took*float64(time.Second)).Round(time.Millisecond).String()
		}
		if t.Tries > 1 {
			took += fmt.Sprintf(", %d tries", t.Tries)
		}
		f.add(line{{paint.Plain, "  " + t.Name + "  "}, {style, string(t.Outcome)}, {paint.Plain, took}})
		if t.Message != "" {
			f.say(paint.Plain, "    "+t.Message)
		}
		for text := range strings.Lines(t.Log) {
			f.say(paint.Faint, "    "+strings.TrimRight(text, "\n"))
		}
	}
}

func (d *described) writeSource(f *facts) {
	s := d.source
	f.fact("source", s.Name)
	f.fact("kind", s.Kind)
	f.fact("address", s.URL)
	f.fact("ref", s.Ref)
	f.fact("commit", s.Commit)
	f.ago("fetched", s.LastFetch)
	f.fact("age", (time.Duration(s.Age) * time.Second).String())
	f.fact("fetches", fmt.Sprintf("%d, of which %d failed", s.Fetches, s.Failures))
	f.fact("requests", fmt.Sprintf("%d, %d bytes came", s.Requests, s.ReceivedBytes))
	f.fact("owner", s.Owner)
	f.styled("error", paint.Bad, s.Error)
	f.ago("failing since", s.FailingSince)
	d.writeOrigin(f)
	if len(s.Refs) > 0 {
		f.head("refs")
	}
	for _, r := range s.Refs {
		f.fact("  "+r.Ref, strings.TrimSpace(cmdutil.ShortCommit(r.Commit)+" "+r.Revision))
		if r.Rewound != "" {
			f.styled("", paint.Busy, r.Rewound)
		}
	}
}

func (d *described) writeUpgrade(f *facts) {
	u := d.upgrade
	f.fact("installation", u.Installation)
	f.fact("package", u.Package+" of catalog "+u.Catalog)
	f.fact("version", u.Version)
	f.fact("newest", u.Newest)
	f.fact("target", u.Target)
	glyph, style := f.look.Upgrade(u.State)
	f.styled("state", style, glyph+" "+string(u.State))
	f.fact("policy", u.Policy)
	f.fact("together with", strings.Join(u.With, ", "))
	f.fact("came from", u.From)
	f.fact("commit", u.Commit)
	f.ago("moved", u.Since)
	f.fact("branch", u.Branch)
	f.fact("pull request", u.URL)
	if len(u.Reasons) > 0 {
		f.head("why it is not newer")
	}
	for _, r := range u.Reasons {
		f.say(paint.Plain, "  "+r.Message)
		f.fact("    fix", r.Fix)
		if r.Until != nil {
			f.fact("    until", r.Until.Format(time.RFC3339))
		}
	}
}

func writeRevision(f *facts, r *v1.Revision) {
	f.fact("commit", r.ID)
	f.fact("subject", r.Subject)
	f.fact("author", strings.TrimSpace(r.Author+" "+bracketed(r.Email)))
	f.ago("made", r.Time)
	f.fact("result", string(r.Outcome()))
	if r.Refusal != nil {
		f.fact("refused for", cmdutil.HubProblem(*r.Refusal).Message)
	}
	f.fact("takes back", r.Reverts)
	f.fact("undone by", r.RevertedBy)
	if len(r.Files) > 0 {
		f.head("files")
	}
	for _, name := range r.Files {
		f.say(paint.Plain, "  "+name)
	}
	if r.LeftOut > 0 {
		f.say(paint.Faint, fmt.Sprintf("  and %d more", r.LeftOut))
	}
	if r.Incomplete {
		f.say(paint.Faint, "  it changed too much: not all was compared")
	}
}

func bracketed(mail string) string {
	if mail == "" {
		return ""
	}
	return "<" + mail + ">"
}

func (d *described) writeStatus(f *facts) {
	s := d.status
	f.fact("workspace", s.Workspace)
	f.fact("hub", s.Hub)
	f.fact("version", s.Version)
	f.fact("served", cmdutil.ShortCommit(s.Commit.ID)+" "+s.Commit.Subject)
	if s.Head.ID != s.Commit.ID {
		f.fact("newest", cmdutil.ShortCommit(s.Head.ID)+" "+s.Head.Subject)
	}
	f.fact("clusters", counts(s.Clusters))
	f.fact("services", counts(s.Services))
	f.fact("deployments", counts(s.Deployments))
	if len(s.Refused) > 0 {
		f.head("the newest commit is refused")
	}
	for i := range s.Refused {
		f.problem(&s.Refused[i])
	}
	if len(s.Refused) > 0 {
		f.fact("next", cmdutil.Mend(s.Refused[0], s.Commit.ID))
	}
	if len(s.Held) > 0 {
		f.head("nothing good to offer")
	}
	for i := range s.Held {
		f.problem(&s.Held[i])
	}
	unhealthy(f, s.Unhealthy, func(d *v1.Deployment) string { return d.Cluster + "/" + d.Service })
}

func counts(c v1.Counts) string {
	var parts []string
	for _, p := range v1.Phases() {
		if c[p] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c[p], p))
		}
	}
	return strings.Join(parts, ", ")
}

// pairs are a map's, in order.
func pairs(m map[string]string) string {
	var parts []string
	for name, value := range m {
		parts = append(parts, name+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (d *described) writeOrigin(f *facts) {
	if d.origin == nil {
		return
	}
	f.fact("written in", d.origin.place)
	if c := d.origin.change; c != nil {
		by := fmt.Sprintf("%s %q by %s, %s", cmdutil.ShortCommit(c.ID), c.Subject, c.Author, cmdutil.Ago(f.now, &c.Time))
		f.fact("last change", by)
	}
}
