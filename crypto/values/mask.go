package values

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Mask is text with every value replaced by ***(8 hex digits of its HMAC under key), so that two maskings with one key
// show which values differ and nothing else. Keys stay, in their order and nesting, one on a line; comments become
// "# ***". A text without keys becomes one line with its size. The outcome is for people to read, not to be parsed.
func Mask(name string, text, key []byte) []byte {
	m := &masker{key: key}
	f, err := parse(name, text)
	switch {
	case len(text) == 0:
		return nil
	case err != nil || !f.hasKeys() || formatOf(name) == formatNone && !f.telling():
		fmt.Fprintf(&m.out, "***(%d bytes, %s)\n", len(text), m.sum("", string(text)))
		return m.out.Bytes()
	case f.format == formatJSON:
		m.json(f.docs[0].root, 0)
		m.out.WriteByte('\n')
	case f.format == formatEnv:
		m.env(f.docs[0].root)
	default:
		for i, doc := range f.docs {
			if i > 0 {
				m.out.WriteString("---\n")
			}
			m.document(doc)
		}
	}
	return m.out.Bytes()
}

// simpleKey is a key that nobody would take for a secret or a sentence.
var simpleKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]{0,63}$`) })

// telling says whether all keys look like names, in a file whose own name does not tell that it has keys: a password
// with a colon in it must not be taken for YAML.
func (f *file) telling() bool {
	for _, doc := range f.docs {
		if !doc.root.telling() || f.format == formatEnv && doc.root.padded() {
			return false
		}
	}
	return true
}

// padded says whether a line may be base64 with its padding rather than an assignment.
func (n *node) padded() bool {
	return slices.ContainsFunc(n.entries, func(e entry) bool { return strings.Trim(e.value.text, "=") == "" })
}

func (n *node) telling() bool {
	if n == nil {
		return true
	}
	return !slices.ContainsFunc(n.entries, func(e entry) bool {
		return e.key != nil && !simpleKey().MatchString(e.key.text) || !e.value.telling()
	})
}

// masker writes nodes without their values.
type masker struct {
	key []byte
	out bytes.Buffer
}

// sum is the short HMAC of a value with its type.
func (m *masker) sum(tag, text string) string {
	mac := hmac.New(sha256.New, m.key)
	mac.Write([]byte(tag + "\x00" + text))
	return hex.EncodeToString(mac.Sum(nil)[:4])
}

// value is what stands for a scalar, an alias, or an empty mapping or list.
func (m *masker) value(n *node) string {
	switch n.kind {
	case mapping:
		return "{}"
	case list:
		return "[]"
	case alias:
		return "***(" + m.sum("alias", n.text) + ")"
	}
	return "***(" + m.sum(n.tag, n.text) + ")"
}

// name is what stands for a key: itself, on one line, unless it is no scalar.
func (m *masker) name(n *node) string {
	switch {
	case n.kind != scalar:
		return "***(" + m.sum("key", fmt.Sprint(n.kind)) + ")"
	case simpleKey().MatchString(n.text):
		return n.text
	}
	return quoteYAML(n.text)
}

func (m *masker) json(n *node, depth int) {
	if n.kind == scalar || len(n.entries) == 0 {
		text := m.value(n)
		if n.kind == scalar {
			text = `"` + text + `"`
		}
		m.out.WriteString(text)
		return
	}
	brackets := "{}"
	if n.kind == list {
		brackets = "[]"
	}
	line := "\n" + strings.Repeat("  ", depth)
	m.out.WriteByte(brackets[0])
	for i, e := range n.entries {
		if i > 0 {
			m.out.WriteByte(',')
		}
		m.out.WriteString(line + "  ")
		if e.key != nil {
			m.out.WriteString(quoteJSON(e.key.text) + ": ")
		}
		m.json(e.value, depth+1)
	}
	m.out.WriteString(line)
	m.out.WriteByte(brackets[1])
}

func (m *masker) env(n *node) {
	for _, e := range n.entries {
		m.comments("", e.key.comments.head)
		m.out.WriteString(e.key.text + "=" + m.value(e.value) + "\n")
	}
	m.comments("", n.comments.foot)
}

func (m *masker) document(doc *document) {
	m.comments("", doc.comments.head)
	switch {
	case doc.root == nil:
	case len(doc.root.entries) == 0:
		m.out.WriteString(m.value(doc.root) + "\n")
	default:
		m.block(doc.root, "")
	}
	m.comments("", doc.comments.foot)
}

// block writes a mapping or a list with an entry on each line.
func (m *masker) block(n *node, indent string) {
	m.comments(indent, n.comments.head)
	for _, e := range n.entries {
		if e.key != nil {
			m.comments(indent, e.key.comments.head)
			m.out.WriteString(indent + m.name(e.key) + ":")
			m.entry(e, indent, e.key.comments)
			continue
		}
		m.out.WriteString(indent + "-")
		m.entry(e, indent, comments{})
	}
	m.comments(indent, n.comments.foot)
}

// entry writes what stands behind a key or a dash, whose comments are given.
func (m *masker) entry(e entry, indent string, c comments) {
	nested := e.value.kind != scalar && len(e.value.entries) > 0
	if !nested {
		m.out.WriteString(" " + m.value(e.value))
		c = c.plus(e.value.comments)
	}
	if c.line {
		m.out.WriteString(" # ***")
	}
	if e.key != nil || !nested {
		m.out.WriteByte('\n')
	}
	if nested {
		m.nested(e, indent)
	} else {
		m.comments(indent, e.value.comments.head)
	}
	m.comments(indent, c.foot)
}

// nested writes a mapping or list on lines of its own; the first one goes on behind a dash.
func (m *masker) nested(e entry, indent string) {
	at := m.out.Len()
	m.block(e.value, indent+"  ")
	if e.key == nil {
		lines := bytes.Clone(m.out.Bytes()[at:])
		m.out.Truncate(at)
		m.out.WriteString(" ")
		m.out.Write(lines[len(indent)+2:])
	}
}

func (m *masker) comments(indent string, n int) {
	for range n {
		m.out.WriteString(indent + "# ***\n")
	}
}
