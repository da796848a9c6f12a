package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/internal/yamlerror"
)

// document is one YAML document of a file.
type document struct {
	line int // of its first line in the file, from 1
	text []byte
}

// separator is a line that starts a new document, as kubectl sees it.
var separator = regexp.MustCompile(`(?m)^---(?:[ \t]+#.*|[ \t\r]*)$`)

// split cuts a file at its separators. Empty documents stay, since nothing but a parser can tell them.
func split(data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	var docs []document
	line, from := 1, 0
	for _, at := range append(separator.FindAllIndex(data, -1), []int{len(data), len(data)}) {
		text := data[from:at[0]]
		docs = append(docs, document{line: line, text: text})
		line += bytes.Count(data[from:at[1]], []byte("\n"))
		from = at[1]
	}
	return docs
}

// flaw is what makes a document unfit, at a line of the file.
type flaw struct {
	line    int
	message string
	// deadly flaws kill kustomize rather than making it fail.
	deadly bool
}

// inspect parses a document without following its aliases, and returns its root: nil when it is empty. What it lets
// pass is small enough to be decoded by anything, and gives no key twice.
func inspect(doc document) (*yaml.Node, *flaw) {
	root, found := parse(doc)
	if found == nil && root != nil {
		found = duplicateKey(root, doc.line-1)
	}
	if found != nil {
		return nil, found
	}
	return root, nil
}

// parse is inspect for documents in which a key may stand twice.
func parse(doc document) (*yaml.Node, *flaw) {
	decoder := yaml.NewDecoder(bytes.NewReader(doc.text))
	var root, more yaml.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxFlaw(doc, err)
	}
	if found := aliasFlaw(&root); found != nil {
		found.line += doc.line - 1
		return nil, found
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &flaw{line: doc.line, message: "a second document begins without a line of ---"}
	}
	return &root, nil
}

func syntaxFlaw(doc document, err error) *flaw {
	line, text := yamlerror.Line(err.Error())
	return &flaw{line: doc.line + max(line, 1) - 1, message: "invalid YAML: " + text}
}

// aliasFlaw finds aliases that contain themselves, and aliases that multiply.
func aliasFlaw(root *yaml.Node) *flaw {
	w := weigher{sizes: map[*yaml.Node]int{}, open: map[*yaml.Node]bool{}}
	w.weigh(root)
	return w.found
}

// weigher counts the nodes that following every alias would make, without following any of them twice.
type weigher struct {
	sizes   map[*yaml.Node]int // of finished anchors
	open    map[*yaml.Node]bool
	aliased int // nodes that aliases stand for, so far; no more than a little beyond maxAliased
	found   *flaw
}

func (w *weigher) weigh(n *yaml.Node) int {
	if w.found != nil {
		return 0
	}
	if n.Kind == yaml.AliasNode {
		return w.follow(n)
	}
	w.open[n] = true
	size := 1
	for _, child := range n.Content {
		size += w.weigh(child)
	}
	delete(w.open, n)
	if n.Anchor != "" {
		w.sizes[n] = size
	}
	return size
}

func (w *weigher) follow(alias *yaml.Node) int {
	if w.open[alias.Alias] {
		w.found = &flaw{line: alias.Line, deadly: true, message: fmt.Sprintf("the anchor %q contains itself", alias.Value)}
		return 0
	}
	size := w.sizes[alias.Alias]
	if w.aliased += size; w.aliased > maxAliased {
		w.found = &flaw{line: alias.Line, deadly: true, message: fmt.Sprintf("aliases add more than %d nodes", maxAliased)}
	}
	return size
}

// duplicateKey finds a mapping that gives one key twice. Keys are compared as JSON will: by their text. Before is how many
// lines of the file stand before the document.
func duplicateKey(n *yaml.Node, before int) *flaw {
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]int, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				continue
			}
			if first, ok := seen[key.Value]; ok {
				return &flaw{line: before + key.Line, message: fmt.Sprintf("the key %q stands here already, in line %d", key.Value, before+first)}
			}
			seen[key.Value] = key.Line
		}
	}
	for _, child := range n.Content {
		if found := duplicateKey(child, before); found != nil {
			return found
		}
	}
	return nil
}

// mayAlias tells cheaply whether a file can hold an alias at all.
func mayAlias(data []byte) bool {
	return bytes.IndexByte(data, '&') >= 0 && bytes.IndexByte(data, '*') >= 0
}

// decode reads a file of manifests or values: every document that is not empty, as JSON, with the meaning kubectl
// gives it. Repeated hears of a document in which a key stands twice, whose last value counts then; nil refuses it.
func decode(name string, data []byte, limits Limits, repeated func(*flaw)) ([]decoded, error) {
	if !utf8.Valid(data) {
		return nil, place{file: name}.invalid("is not UTF-8 text")
	}
	var all []decoded
	for _, doc := range split(data) {
		if len(doc.text) > limits.Document {
			return nil, place{name, doc.line}.limit("a document has more than %d KiB", limits.Document>>10)
		}
		root, found := parse(doc)
		if found != nil {
			return nil, place{name, found.line}.invalid("%s", found.message)
		}
		if root == nil || root.Content[0].Tag == "!!null" {
			continue
		}
		if len(all) == limits.Objects {
			return nil, place{name, doc.line}.limit("has more than %d documents", limits.Objects)
		}
		if found := duplicateKey(root, doc.line-1); found != nil {
			if repeated == nil {
				return nil, place{name, found.line}.invalid("%s", found.message)
			}
			repeated(found)
		}
		json, err := sigs.YAMLToJSON(wholeLines(doc.text)) // the strict one refuses a key beside a merge that brings it, too
		if err != nil {
			found := syntaxFlaw(doc, err)
			return nil, place{name, found.line}.invalid("%s", found.message)
		}
		all = append(all, decoded{place{name, doc.line + root.Content[0].Line - 1}, json})
	}
	return all, nil
}

// decode reads a file of the input. In what others wrote, a key that stands twice is a warning: helm and Argo CD take its last
// value.
func (j *job) decode(name string, data []byte) ([]decoded, error) {
	if !j.thirdParty(name) {
		return decode(name, data, j.limits, nil)
	}
	return decode(name, data, j.limits, func(found *flaw) { j.warn("%s: %s", place{name, found.line}, found.message) })
}

// wholeLines ends a text's last line, as kubectl and helm do before they parse it: a literal block at the end keeps its newline.
func wholeLines(text []byte) []byte {
	if bytes.HasSuffix(text, []byte("\n")) {
		return text
	}
	return append(text[:len(text):len(text)], '\n')
}

// decoded is a document as JSON, and where it began.
type decoded struct {
	place
	json []byte
}
