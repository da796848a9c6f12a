package logring

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// What is kept of a line.
const (
	maxMessage    = 4 << 10 // bytes
	maxValue      = 1 << 10 // bytes
	maxAttributes = 32
)

// handler notes each record before it hands it on.
type handler struct {
	ring   *Ring
	next   slog.Handler
	before []string // attributes that every line has
	group  string   // "outer.inner.", before the names of further ones
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	line := Line{Time: record.Time, Level: record.Level, Message: clip(record.Message, maxMessage), Attributes: slices.Clone(h.before)}
	record.Attrs(func(a slog.Attr) bool {
		line.Attributes = h.append(line.Attributes, h.group, a)
		return true
	})
	h.ring.add(line)
	return h.next.Handle(ctx, record)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	derived.next, derived.before = h.next.WithAttrs(attrs), slices.Clone(h.before)
	for _, a := range attrs {
		derived.before = h.append(derived.before, h.group, a)
	}
	return &derived
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	derived := *h
	derived.next, derived.group = h.next.WithGroup(name), h.group+name+"."
	return &derived
}

// append adds an attribute, or those of a group.
func (h *handler) append(to []string, group string, a slog.Attr) []string {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, inner := range a.Value.Group() {
			to = h.append(to, group, inner)
		}
		return to
	}
	if a.Equal(slog.Attr{}) || len(to) >= maxAttributes {
		return to
	}
	a.Key = group + a.Key
	return append(to, format(a))
}

// format is "key=value".
func format(a slog.Attr) string {
	value := clip(a.Value.String(), maxValue)
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
		value = strconv.Quote(value)
	}
	return clip(a.Key, maxValue) + "=" + value
}

// clip keeps the beginning of a text, in a copy that holds on to nothing larger.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.Clone(strings.ToValidUTF8(text[:limit], "")) + "…"
}
