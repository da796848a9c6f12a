package render

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Reason classes an Error by who can do something about it.
type Reason string

const (
	// Invalid input does not render; its author must change it.
	Invalid Reason = "Invalid"
	// Refused input asks for what rendering never does: the network, another program, a file outside.
	Refused Reason = "Refused"
	// Limit means the input takes more than Limits allow.
	Limit Reason = "Limit"
	// Crash means the child died in a way nobody foresaw.
	Crash Reason = "Crash"
)

// Error is why a service does not render. The same input gives the same Error, so trying again without a change is
// of use for Crash only.
type Error struct {
	Reason Reason `json:"reason"`
	// File is relative to the root of Input.Files; empty when no file is known to be at fault.
	File string `json:"file,omitempty"`
	// Line counts from 1; 0 means unknown.
	Line int `json:"line,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Fix says what would be accepted, or is empty.
	Fix string `json:"fix,omitempty"`
}

// Error reads "apps/web/deploy.yaml:12: message: fix".
func (e *Error) Error() string {
	text := e.Message
	if e.File != "" {
		text = place{e.File, e.Line}.String() + ": " + text
	}
	if e.Fix != "" {
		text += ": " + e.Fix
	}
	return text
}

// place is where in the input something was read.
type place struct {
	file string
	line int
}

// String is "file:line", or "file" when no line is known.
func (p place) String() string {
	name := p.file
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		name = strconv.Quote(name)
	}
	if p.line == 0 {
		return name
	}
	return name + ":" + strconv.Itoa(p.line)
}

func (p place) invalid(format string, args ...any) *Error {
	return &Error{Reason: Invalid, File: p.file, Line: p.line, Message: fmt.Sprintf(format, args...)}
}

func (p place) refused(fix, format string, args ...any) *Error {
	return &Error{Reason: Refused, File: p.file, Line: p.line, Message: fmt.Sprintf(format, args...), Fix: fix}
}

func (p place) limit(format string, args ...any) *Error {
	return &Error{Reason: Limit, File: p.file, Line: p.line, Message: fmt.Sprintf(format, args...)}
}

func (p place) tooMuchMemory(limits Limits) *Error {
	return p.limit("rendering takes more than %d MiB of memory", limits.Memory>>20)
}

// cleaned bounds what a stranger's template can put before a reader's eyes.
func (e *Error) cleaned() *Error {
	c := *e
	c.Message = strings.TrimSpace(strings.Map(visible, c.Message))
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + "…"
	}
	return &c
}

// visible maps what could steer a terminal to the replacement character.
func visible(r rune) rune {
	if r == '\n' || r == '\t' || unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}
