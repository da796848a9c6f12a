package paging

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxToken bounds a token that comes from outside, in bytes.
const maxToken = 4096

// maxText bounds what counts of one text, in bytes: it has to go into a token.
const maxText = 256

// clip is what counts of a text, in whole characters.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// cursor is a place in an order: that of the last item of a page.
type cursor[T any] struct {
	keys   []key[T]
	values []value
}

// value is that of one column: the one that the column has is set.
type value struct {
	Text   string `json:"t,omitempty"`
	Number int64  `json:"n,omitempty"`
}

// position is what a token holds.
type position struct {
	// Sort names the order, for a token is good in no other.
	Sort   string  `json:"s"`
	Values []value `json:"v"`
}

// tokenOf is the place of an item.
func tokenOf[T any](item T, keys []key[T]) string {
	p := position{Sort: nameOf(keys), Values: make([]value, len(keys))}
	for i, k := range keys {
		if k.Text == nil {
			p.Values[i].Number = k.Number(item)
			continue
		}
		p.Values[i].Text = clip(k.Text(item))
	}
	raw, err := json.Marshal(p)
	if err != nil { // texts and numbers always encode
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func nameOf[T any](keys []key[T]) string {
	var names []string
	for _, k := range keys {
		name := k.name
		if k.down {
			name = "-" + name
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// parse reads a token of the same order.
func parse[T any](token string, keys []key[T]) (*cursor[T], error) {
	wrong := &Error{"continue is no token of this list in this order", "begin again without it"}
	if len(token) > maxToken {
		return nil, wrong
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, wrong
	}
	var p position
	if json.Unmarshal(raw, &p) != nil || p.Sort != nameOf(keys) || len(p.Values) != len(keys) {
		return nil, wrong
	}
	return &cursor[T]{keys, p.Values}, nil
}

// compare says where an item lies: below zero before the place, above it after.
func (c *cursor[T]) compare(item T) int {
	for i := range c.keys {
		k, v := &c.keys[i], &c.values[i]
		var d int
		if k.Text != nil {
			d = strings.Compare(clip(k.Text(item)), v.Text)
		} else {
			d = cmp.Compare(k.Number(item), v.Number)
		}
		if k.down {
			d = -d
		}
		if d != 0 {
			return d
		}
	}
	return 0
}
