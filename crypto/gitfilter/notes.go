package gitfilter

import (
	"fmt"
	"io"
)

// kind is what a note says of its files, before it says why.
type kind int

const (
	staySealed kind = iota
	areClear
	areBound
)

// verb is for one file or for several.
func (k kind) verb(several bool) string {
	verbs := map[kind][2]string{
		staySealed: {"stays sealed:", "stay sealed:"},
		areClear:   {"is in clear in git,", "are in clear in git,"},
		areBound:   {"is bound", "are bound"},
	}[k]
	if several {
		return verbs[1]
	}
	return verbs[0]
}

// note is one thing to say about files.
type note struct {
	kind  kind
	text  string
	first string // path
	count int
}

// notes gathers what is worth saying, each thing once for all files that it is true of.
type notes struct{ all []*note }

func (n *notes) add(k kind, text, path string) {
	for _, old := range n.all {
		if old.kind == k && old.text == text {
			old.count++
			return
		}
	}
	n.all = append(n.all, &note{k, text, path, 1})
}

func (n *notes) print(w io.Writer) {
	for _, note := range n.all {
		what := fmt.Sprintf("%q", note.first)
		if note.count > 1 {
			what = fmt.Sprintf("%d files", note.count)
		}
		fmt.Fprintf(w, "plural: %s %s %s\n", what, note.kind.verb(note.count > 1), note.text)
	}
}
