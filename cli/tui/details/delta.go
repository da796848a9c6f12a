package details

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/patch"
	"github.com/pluralsh/plural/cli/tui/paint"
)

// delta is what differs somewhere.
type delta struct {
	// head stands above all.
	head  []line
	parts []part
	// more counts parts that were left out.
	more int
	// cluster is where it differs, clusters are those where else it could be looked for.
	cluster  string
	clusters []string
}

// part is what differs of one object or file.
type part struct {
	head  []line
	hunks []hunk
	foot  []line
}

// hunk is some lines that differ, with what stands around them.
type hunk struct {
	lines []line
	// blank says that nothing but blanks differs.
	blank bool
}

// lines are all of it, with where each hunk begins. Without blanks, hunks are left out that differ in nothing else.
func (d *delta) lines(blanks bool) (lines []line, begins []int) {
	lines = append(lines, d.head...)
	hidden := 0
	for i := range d.parts {
		p := &d.parts[i]
		lines = append(lines, p.head...)
		if len(p.hunks) == 0 {
			begins = append(begins, len(lines)-len(p.head))
		}
		for _, h := range p.hunks {
			if h.blank && !blanks {
				hidden++
				continue
			}
			begins = append(begins, len(lines))
			lines = append(lines, h.lines...)
		}
		lines = append(append(lines, p.foot...), line{})
	}
	if d.more > 0 {
		lines = append(lines, say(paint.Faint, fmt.Sprintf("and %d more, which did not fit in", d.more)))
	}
	if hidden > 0 {
		text := fmt.Sprintf("%d places differ in blanks alone: w shows them", hidden)
		if hidden == 1 {
			text = "1 place differs in blanks alone: w shows it"
		}
		lines = append(lines, say(paint.Faint, text))
	}
	return lines, begins
}

// objectsDelta is what applying a service would change on a cluster.
func objectsDelta(cluster string, diff *v1.Diff) *delta {
	d := &delta{cluster: cluster, more: diff.More}
	switch {
	case diff.Error != "":
		d.head = []line{say(paint.Bad, "it cannot be known: "+diff.Error)}
	case len(diff.Objects) == 0:
		d.head = []line{say(paint.Good, "nothing differs: what runs on cluster "+cluster+" is what is desired")}
	default:
		d.head = []line{
			{{paint.Removed, "- live on " + cluster}, {paint.Faint, "   "}, {paint.Added, "+ desired"}}, {},
		}
	}
	for i := range diff.Objects {
		d.parts = append(d.parts, objectPart(&diff.Objects[i]))
	}
	return d
}

func objectPart(o *v1.ObjectDiff) part {
	name := o.Kind + "/" + o.Name
	if o.Namespace != "" {
		name += " (" + o.Namespace + ")"
	}
	verb := map[v1.ObjectAction]string{
		v1.ObjectCreated: "is missing, and would be created", v1.ObjectChanged: "would be changed",
		v1.ObjectDeleted: "would be deleted", v1.ObjectFailed: "would be refused",
	}[o.Action]
	style := map[v1.ObjectAction]paint.Style{
		v1.ObjectCreated: paint.Added, v1.ObjectDeleted: paint.Removed, v1.ObjectFailed: paint.Bad,
	}[o.Action]
	if style == paint.Plain {
		style = paint.Changed
	}
	if verb == "" {
		verb = string(o.Action)
	}
	p := part{head: []line{{{paint.Bold, name + " "}, {style, verb}}}}
	if o.Message != "" {
		p.head = append(p.head, say(paint.Busy, "  "+o.Message))
	}
	if o.Hidden {
		p.foot = append(p.foot, say(paint.Faint, "  you may not read it in this cluster, so its fields are left out"))
	}
	for i := range o.Fields {
		p.hunks = append(p.hunks, fieldHunk(&o.Fields[i]))
	}
	if o.More > 0 {
		p.foot = append(p.foot, say(paint.Faint, fmt.Sprintf("  and %d more fields", o.More)))
	}
	return p
}

func fieldHunk(f *v1.FieldDiff) hunk {
	live, desired := readable(f.Live), readable(f.Desired)
	h := hunk{lines: []line{say(paint.Hunk, "  "+f.Path)}, blank: f.Live != "" && f.Desired != "" && sameWords(live, desired)}
	if f.Live != "" && f.Desired != "" && (strings.Contains(live, "\n") || strings.Contains(desired, "\n")) {
		for _, l := range unifiedHunks(udiff.Unified("", "", live+"\n", desired+"\n")) {
			h.lines = append(h.lines, l.lines...)
		}
		return h
	}
	for _, side := range []struct {
		style      paint.Style
		mark, text string
	}{{paint.Removed, "- ", live}, {paint.Added, "+ ", desired}} {
		if side.text == "" {
			continue
		}
		for text := range strings.SplitSeq(side.text, "\n") {
			h.lines = append(h.lines, say(side.style, "    "+side.mark+text))
		}
	}
	return h
}

// readable is JSON as people read it: a text without quotes, a list or a map on several lines. What is cut off stays as it is.
func readable(text string) string {
	var plain string
	if json.Unmarshal([]byte(text), &plain) == nil && plain != "" {
		return strings.TrimRight(plain, "\n")
	}
	if text != "" && (text[0] == '{' || text[0] == '[') {
		var wide bytes.Buffer
		if json.Indent(&wide, []byte(text), "", "  ") == nil {
			return wide.String()
		}
	}
	return text
}

func sameWords(a, b string) bool {
	return strings.Join(strings.Fields(a), "") == strings.Join(strings.Fields(b), "")
}

// filesDelta is what changed in files.
func filesDelta(head []line, list []patch.Change) *delta {
	d := &delta{head: head}
	for i := range list {
		c := &list[i]
		style := map[string]paint.Style{"added": paint.Added, "deleted": paint.Removed}[c.Action]
		if style == paint.Plain {
			style = paint.Changed
		}
		p := part{head: []line{{{paint.Bold, c.File + " "}, {style, c.Action}}}}
		if c.Note != "" {
			p.head = append(p.head, say(paint.Faint, "  "+c.Note))
		}
		p.hunks = unifiedHunks(c.Diff)
		d.parts = append(d.parts, p)
	}
	return d
}

// unifiedHunks cuts a unified diff of one file into its hunks.
func unifiedHunks(text string) []hunk {
	var hunks []hunk
	var removed, added []string
	finish := func() {
		if len(hunks) > 0 {
			hunks[len(hunks)-1].blank = sameWords(strings.Join(removed, " "), strings.Join(added, " "))
		}
		removed, added = nil, nil
	}
	for raw := range strings.Lines(text) {
		raw = strings.TrimRight(raw, "\r\n")
		if strings.HasPrefix(raw, "@@") {
			finish()
			hunks = append(hunks, hunk{lines: []line{say(paint.Hunk, "  "+raw)}})
			continue
		}
		if len(hunks) == 0 || raw == "" {
			continue // the names of the file, which stand above
		}
		style := paint.Plain
		switch raw[0] {
		case '+':
			style, added = paint.Added, append(added, raw[1:])
		case '-':
			style, removed = paint.Removed, append(removed, raw[1:])
		}
		last := &hunks[len(hunks)-1]
		last.lines = append(last.lines, say(style, "    "+raw))
	}
	finish()
	return hunks
}
