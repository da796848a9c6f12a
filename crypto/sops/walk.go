package sops

import (
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
)

// branch is a mapping as sops walks it, list a sequence. A value is a branch, a list or a *leaf.
type (
	branch []item
	list   []any // values and *comment
	item   struct {
		key     string
		value   any
		comment *comment // instead of key and value
	}
)

// leaf is a scalar: string, int, float64, bool, time.Time, []byte, or nil.
type leaf struct {
	value any
	put   func(any) error // tells where it came from of its new value; may be nil
	drop  func()          // takes it away from there; nil where it cannot be
}

// comment is one line, without its mark.
type comment struct {
	text string
	put  func(string)
}

// walk opens values in document order, hashing as it goes.
type walk struct {
	meta   *metadata
	cipher valueCipher
	hash   hash.Hash
}

// macOnlyEncryptedStart begins the hash of a file whose MAC covers encrypted values alone: SHA-256 of "sops".
const macOnlyEncryptedStart = "8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69"

func newWalk(meta *metadata, key []byte) (*walk, error) {
	open, err := newValueCipher(key)
	if err != nil {
		return nil, err
	}
	w := &walk{meta: meta, cipher: open, hash: sha512.New()}
	if meta.onlyEncrypted {
		start, err := hex.DecodeString(macOnlyEncryptedStart)
		if err != nil {
			return nil, err
		}
		w.hash.Write(start)
	}
	return w, nil
}

// spot is where in the tree the walk is.
type spot struct {
	path    string // each key with a colon after it
	depth   int
	matched bool // some key of the path matches the rule
	// said are the comments in force: one of them above this level matches the rule.
	said bool
}

// heard are the comments in force on one level: those since the last value.
type heard struct{ matched, matchedBefore bool }

func (h *heard) hear(matches bool) {
	h.matchedBefore = h.matched
	h.matched = h.matched || matches
}

func (w *walk) branch(b branch, at spot) error {
	if at.depth > maxDepth || len(at.path) > maxPath {
		return &UnsupportedError{"deeper nesting or longer keys than anybody writes", fixSize}
	}
	var level heard
	for _, it := range b {
		if it.comment != nil {
			if err := w.comment(it.comment, at, &level); err != nil {
				return err
			}
			continue
		}
		below := spot{
			path: at.path + it.key + ":", depth: at.depth + 1, said: at.said || level.matched,
			matched: at.matched || !w.meta.rule.comments && w.meta.rule.matches(it.key),
		}
		if err := w.value(it.value, below); err != nil {
			return err
		}
		level = heard{}
	}
	return nil
}

func (w *walk) list(l list, at spot) error {
	if at.depth > maxDepth {
		return &UnsupportedError{"deeper nesting than anybody writes", fixSize}
	}
	var level heard
	for _, v := range l {
		if c, ok := v.(*comment); ok {
			if err := w.comment(c, at, &level); err != nil {
				return err
			}
			continue
		}
		below := at
		below.depth, below.said = at.depth+1, at.said || level.matched
		if err := w.value(v, below); err != nil {
			return err
		}
		level = heard{}
	}
	return nil
}

func (w *walk) value(v any, at spot) error {
	switch v := v.(type) {
	case branch:
		return w.branch(v, at)
	case list:
		return w.list(v, at)
	case *leaf:
		return w.leaf(v, at)
	default:
		return damaged("%q holds what sops does not know", at.name())
	}
}

// sealed says whether what stands here is encrypted, said being whether a comment that is in force matches.
func (w *walk) sealed(at spot, said bool) bool {
	if w.meta.rule.comments {
		return said == w.meta.rule.sealsMatches
	}
	return at.matched == w.meta.rule.sealsMatches
}

func (w *walk) leaf(l *leaf, at spot) error {
	if l.value == nil {
		return nil
	}
	encrypted := w.sealed(at, at.said)
	if encrypted {
		if err := w.open(l, at); err != nil {
			return err
		}
	}
	if _, words := l.value.(commentText); words || w.meta.onlyEncrypted && !encrypted {
		return nil
	}
	text, err := bytesOf(l.value)
	if err != nil {
		return damaged("%q is no value that sops knows", at.name())
	}
	w.hash.Write(text)
	return nil
}

func (w *walk) open(l *leaf, at spot) error {
	text, ok := l.value.(string)
	if !ok {
		return damaged("%q is not encrypted, and should be: edit the file with sops", at.name())
	}
	plain, err := w.cipher.open(text, at.binding())
	if err != nil {
		return damaged("%q %v", at.name(), err)
	}
	if words, ok := plain.(commentText); ok && l.drop != nil { // sops makes values of the comments in a list
		l.value = words
		l.drop()
		return nil
	} else if ok {
		plain = string(words)
	}
	l.value = plain
	if l.put == nil {
		return nil
	}
	return l.put(plain)
}

// comment opens a comment. Comments are not part of the MAC, and one that does not open was never encrypted: whoever adds
// one adds nothing but words.
func (w *walk) comment(c *comment, at spot, level *heard) error {
	rule := w.meta.rule
	level.hear(rule.comments && rule.matches(c.text))
	said := at.said || level.matched
	if rule.sealsMatches { // the line that asks for encryption stays readable itself
		said = at.said || level.matchedBefore
	}
	if !w.sealed(at, said) {
		return nil
	}
	plain, err := w.cipher.open(c.text, at.binding())
	words, ok := plain.(commentText)
	if err != nil || !ok {
		return nil
	}
	text := string(words)
	if strings.ContainsAny(text, "\n\r") {
		return damaged("a comment is of more than one line")
	}
	c.text = text
	if c.put != nil {
		c.put(text)
	}
	return nil
}

// binding is what the cipher binds a value to.
func (at spot) binding() string {
	if at.path == "" {
		return ":"
	}
	return at.path
}

// name is the path as errors tell it.
func (at spot) name() string {
	name := strings.ReplaceAll(strings.TrimSuffix(at.path, ":"), ":", ".")
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "") + "..."
	}
	return name
}

// verify compares the hash of all values with the one in the file.
func (w *walk) verify() error {
	stored, err := w.cipher.open(w.meta.mac, w.meta.modified)
	if err != nil {
		return damaged("its MAC %v", err)
	}
	want, ok := stored.(string)
	sum := []byte(strings.ToUpper(hex.EncodeToString(w.hash.Sum(nil))))
	if !ok || subtle.ConstantTimeCompare([]byte(want), sum) != 1 {
		return damaged("its MAC does not fit its values: it was changed without sops, or in part")
	}
	return nil
}

// unique refuses a key that is written twice: readers disagree about which one counts.
func unique(b branch) error {
	seen := make(map[string]bool, len(b))
	i := slices.IndexFunc(b, func(it item) bool {
		again := it.comment == nil && seen[it.key]
		seen[it.key] = it.comment == nil || seen[it.key]
		return again
	})
	if i >= 0 {
		return damaged("key %q is written twice", spot{path: b[i].key}.name())
	}
	return nil
}
