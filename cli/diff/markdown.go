package diff

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/patch"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/inspect"
)

// Bounds of a comment. GitHub takes 65,536 characters, GitLab a million.
const (
	maxMarkdown = 60_000
	// maxBlock bounds one diff in bytes, so that one large object leaves room for others.
	maxBlock = 8_000
	// maxFolds and maxNotes bound how many services, and how many remarks before them, are named.
	maxFolds = 50
	maxNotes = 20
	// maxCode bounds a text of others on one line, in bytes.
	maxCode = 500
)

// comment is a report as a comment on a pull request: a headline, remarks, and a fold for each service. All texts that others
// wrote stand in code, where they are no markup, link nothing and notify nobody.
type comment struct {
	head  string
	notes []string
	folds []*fold
}

// fold is what is shown when its title is clicked.
type fold struct {
	title  string
	blocks []string
	// rest is the command that shows what has no room.
	rest string
}

// write writes as much of the comment as a forge takes, and says what it leaves out and which command shows it.
func (c *comment) write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(c.head + "\n")
	for i, note := range c.notes {
		if i == maxNotes {
			fmt.Fprintf(&b, "\n> and %s more: `plural diff`\n", count(len(c.notes)-i, "remark"))
			break
		}
		b.WriteString("\n> " + note + "\n")
	}
	const frame = 512 // of a fold: its title's tags, and the line that says what was left out
	room := maxMarkdown - b.Len()
	for _, f := range c.folds[:min(len(c.folds), maxFolds)] {
		room -= len(f.title) + frame
	}
	for i, f := range c.folds {
		if i == maxFolds {
			fmt.Fprintf(&b, "\n%s more: `plural diff`\n", count(len(c.folds)-i, "service"))
			break
		}
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", f.title)
		for n, block := range f.blocks {
			if len(block) > room {
				fmt.Fprintf(&b, "%s more, for which a comment has no room: %s\n\n", count(len(f.blocks)-n, "change"), code(f.rest))
				break
			}
			room -= len(block)
			b.WriteString(block)
		}
		b.WriteString("</details>\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// commentOn is a report as a comment.
func commentOn(r *report) *comment {
	c := &comment{head: fmt.Sprintf("**plural diff** against %s (%s): ", code(r.Against), code(r.Commit[:min(len(r.Commit), 7)]))}
	switch {
	case len(r.Items) > 0:
		c.head += summary(r)
	case r.differs():
		c.head += "no object changes, on " + count(r.Clusters, "cluster")
	default:
		c.head += "nothing renders differently, on " + count(r.Clusters, "cluster")
	}
	if len(r.Left) > 0 {
		c.note("leaving the fleet", code(cmdutil.Few(r.Left))+": what runs there stays", "")
	}
	for _, h := range r.Held {
		about := code(h.Message)
		if h.Service != "" {
			about = "service " + code(h.Service) + ": " + about
		}
		c.note("held", about+onClusters(h.Clusters), h.Fix)
	}
	for i := range r.Problems {
		p := &r.Problems[i]
		title, _ := p.title()
		about := code(p.Message)
		if p.Where != "" {
			about = code(p.Where) + ": " + about
		}
		c.note("service "+code(p.Service)+" "+title, about+onClusters(p.Clusters), p.Fix)
	}
	c.findings("mistake", r.Mistakes)
	c.findings("warning", r.Warnings)
	c.services(r)
	if r.Packages != nil {
		var b strings.Builder
		screen{streams: &ui.Streams{}}.packages(&b, r.Packages)
		c.folds = append(c.folds, &fold{title: "packages: what a deploy would run", blocks: []string{fence("text", b.String())}, rest: "plural diff"})
	}
	return c
}

func (c *comment) note(title, about, fix string) {
	if fix != "" {
		about += "; fix: " + code(fix)
	}
	c.notes = append(c.notes, "**"+title+"**: "+about)
}

func (c *comment) findings(title string, list []inspect.Finding) {
	for _, f := range list {
		c.note(title, code(f.Where)+": "+code(f.Message), f.Fix)
	}
}

// services makes a fold of what changes for each service, or for several services together, those first that reach most.
func (c *comment) services(r *report) {
	known := map[string]*fold{}
	of := func(names []string) *fold {
		title := strings.Join(names, ", ")
		f := known[title]
		if f == nil {
			f = &fold{title: "<code>" + html.EscapeString(cmdutil.Few(names)) + "</code>", rest: "plural diff svc/" + strings.Join(names[:min(len(names), maxNames)], " svc/")}
			known[title] = f
			c.folds = append(c.folds, f)
		}
		return f
	}
	var last *fold
	eachShape(r.Items, func(g *compare.Group) {
		last = of(servicesOf(g))
		last.blocks = append(last.blocks, blockOf(g))
	}, func(more ratio) {
		last.blocks = append(last.blocks, fmt.Sprintf("%s of the same fields to other values, on %s\n\n",
			count(more.some, "more change"), count(more.all, "cluster")))
	})
	for _, set := range r.Settings {
		var b strings.Builder
		screen{streams: &ui.Streams{}}.fields(&b, set.Fields)
		f := of([]string{set.Service})
		f.blocks = append(f.blocks, "settings, in "+code(set.Where)+"\n\n"+fence("text", b.String()))
	}
	for _, f := range known {
		f.title += ": " + count(len(f.blocks), "change")
	}
}

// blockOf is one change with all that it reaches.
func blockOf(g *compare.Group) string {
	verb := string(g.Action)
	if g.Stays() {
		verb = "no longer rendered"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** ", verb)
	if len(g.Objects) > 1 {
		b.WriteString(count(len(g.Objects), "object") + ": ")
	}
	for i, o := range g.Objects[:min(len(g.Objects), maxObjects)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(code(o.Object))
		if o.Clusters != len(g.Clusters) {
			b.WriteString(" (" + count(o.Clusters, "cluster") + ")")
		}
		if o.Stays != "" {
			b.WriteString(", stays: " + code(o.Stays))
		}
		if o.From != "" {
			b.WriteString(" from service " + code(o.From))
		}
	}
	if more := len(g.Objects) - maxObjects; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	b.WriteString(onClusters(g.Clusters) + "\n\n")
	for _, note := range g.Notes {
		b.WriteString("- " + code(note) + "\n")
	}
	if g.Contents > 1 {
		fmt.Fprintf(&b, "- with %d different contents\n", g.Contents)
	}
	if len(g.Notes) > 0 || g.Contents > 1 {
		b.WriteByte('\n')
	}
	if g.Example != nil {
		b.WriteString(fence("diff", unifiedOf(g.Example)))
	}
	return b.String()
}

// commentOnFiles is a comparison of files as a comment.
func commentOnFiles(against string, list []patch.Change) *comment {
	c := &comment{head: fmt.Sprintf("**plural diff** of files against %s: %s", code(against), count(len(list), "change"))}
	for _, change := range list {
		f := &fold{title: html.EscapeString(change.Action) + " <code>" + html.EscapeString(ui.Clean(change.File)) + "</code>", rest: "plural diff --files"}
		if change.Note != "" {
			f.blocks = append(f.blocks, code(change.Note)+"\n\n")
		}
		if change.Diff != "" {
			f.blocks = append(f.blocks, fence("diff", change.Diff))
		}
		c.folds = append(c.folds, f)
	}
	return c
}

// onClusters is " on 2 clusters: `edge-1, edge-2`".
func onClusters(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " on " + count(len(names), "cluster") + ": " + code(cmdutil.Few(names))
}

// code is a text as code on one line, whatever it holds.
func code(text string) string {
	text = strings.ToValidUTF8(ui.Clean(text), "")
	if len(text) > maxCode {
		text = strings.ToValidUTF8(text[:maxCode], "") + " …"
	}
	marks := strings.Repeat("`", ticks(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || text == "" {
		text = " " + text + " "
	}
	return marks + text + marks
}

// fence is a block of code that ends where it says, whatever it holds, and holds no more than maxBlock.
func fence(language, text string) string {
	text = ui.CleanText(strings.ToValidUTF8(text, ""))
	if len(text) > maxBlock {
		kept := text[:strings.LastIndexByte(text[:maxBlock], '\n')+1]
		text = fmt.Sprintf("%s… %s more\n", kept, count(strings.Count(text[len(kept):], "\n"), "line"))
	}
	marks := strings.Repeat("`", max(3, ticks(text)+1))
	return marks + language + "\n" + strings.TrimRight(text, "\n") + "\n" + marks + "\n\n"
}

// ticks is the length of the longest run of backticks.
func ticks(text string) int {
	longest, run := 0, 0
	for _, r := range text {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
