package tables

import "charm.land/bubbles/v2/key"

// keymap is what keys do in every table.
type keymap struct {
	enter, faults, sort, reverse, mark, span, all, left, right key.Binding
	up, down, top, bottom, halfUp, halfDown, pageUp, pageDown  key.Binding
}

func keysOf(leads string) keymap {
	return keymap{
		enter:   bind("enter", leads),
		faults:  bind("f", "faults"),
		sort:    bind("o", "sort by"),
		reverse: bind("O", "turn the order round"),
		mark:    bind("space", "mark"),
		// Terminals say it by one of three names.
		span:     bind("ctrl+space", "mark up to here", "ctrl+@", "ctrl+`"),
		all:      bind("*", "mark all, or none"),
		left:     bind("left", "columns to the left"),
		right:    bind("right", "columns to the right"),
		up:       bind("k", "up", "up"),
		down:     bind("j", "down", "down"),
		top:      bind("g", "first row", "home"),
		bottom:   bind("G", "last row", "end"),
		halfUp:   bind("ctrl+u", "half a page up"),
		halfDown: bind("ctrl+d", "half a page down"),
		pageUp:   bind("ctrl+b", "page up", "pgup"),
		pageDown: bind("ctrl+f", "page down", "pgdown"),
	}
}

func bind(first, text string, also ...string) key.Binding {
	return key.NewBinding(key.WithKeys(append([]string{first}, also...)...), key.WithHelp(first, text))
}

// Keys are those of every table, the most useful first.
func Keys() []key.Binding { return keysOf("look into it").bindings() }

// Keys are the table's own.
func (t *table[T]) Keys() []key.Binding { return t.keys.bindings() }

func (k keymap) bindings() []key.Binding {
	return []key.Binding{
		k.enter, k.faults, k.sort, k.mark, k.reverse, k.span, k.all, k.down, k.up, k.top, k.bottom, k.halfDown, k.halfUp, k.pageDown,
		k.pageUp, k.left, k.right,
	}
}
