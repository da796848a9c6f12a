package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Err is an error told to a person: what happened, why, and what to do about it. All fields but Msg may be empty.
type Err struct {
	Msg   string `json:"message"`
	Cause string `json:"cause,omitempty"`
	// Problems are the single mistakes when there are several.
	Problems []Problem `json:"problems,omitempty"`
	// Fix is a command or an instruction that mends it.
	Fix string `json:"fix,omitempty"`
	// Doc is the class of the error, about which docs/errors.md tells more.
	Doc Doc `json:"-"`
	// See is a command that shows more.
	See string `json:"-"`
	// Code is the exit code; 0 means ExitFailed.
	Code Code `json:"code"`
	// Err is the error behind this one, for errors.Is and errors.As. It is not printed.
	Err error `json:"-"`
}

// Problem is one of several mistakes.
type Problem struct {
	// Where is "file:line:column", or empty.
	Where   string `json:"where,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	// Missing is what is named and does not exist, as KIND/NAME. It is not printed.
	Missing string `json:"-"`
}

// Error is one line, for logs and for wrapping.
func (e *Err) Error() string {
	if e.Cause == "" {
		return e.Msg
	}
	return e.Msg + ": " + e.Cause
}

// Unwrap is the error behind.
func (e *Err) Unwrap() error { return e.Err }

// CodeOf is the exit code for err; nil is ExitOK.
func CodeOf(err error) Code {
	if err == nil {
		return ExitOK
	}
	var told *Err
	if errors.As(err, &told) && told.Code != ExitOK {
		return told.Code
	}
	return ExitFailed
}

// Silent is the error of a command that has said everything already and only ends with a code.
func Silent(code Code) error { return &Err{Code: code} }

// Render prints err in the form of the program: a line that says what happened, and indented ones for cause, fix and
// more. An error that is no *Err is printed as it stands. Control characters are escaped.
func Render(w io.Writer, err error) {
	told := tell(err)
	if told.Msg == "" {
		return
	}
	var b strings.Builder
	field(&b, "error: ", told.Msg)
	field(&b, "  cause: ", told.Cause)
	for _, p := range grouped(told.Problems) {
		p.write(&b)
	}
	field(&b, "  fix:   ", told.Fix)
	field(&b, "  more:  ", told.more())
	_, _ = io.WriteString(w, b.String())
}

// RenderJSON prints err as one JSON object.
func RenderJSON(w io.Writer, err error) {
	told := tell(err)
	if told.Msg == "" {
		return
	}
	var b bytes.Buffer
	_ = encodeJSON(&b, map[string]any{"error": object{ // plain fields: cannot fail
		Message: told.Msg, Cause: told.Cause, Problems: told.Problems, Fix: told.Fix, More: told.more(), Code: CodeOf(err),
	}})
	_, _ = w.Write(b.Bytes())
}

// object is an error as programs read it: docs/schema/error.json.
type object struct {
	Message  string    `json:"message"`
	Cause    string    `json:"cause,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
	Fix      string    `json:"fix,omitempty"`
	More     string    `json:"more,omitempty"`
	Code     Code      `json:"code"`
}

// more is where to look and to read further.
func (e *Err) more() string {
	if e.See == "" || e.Doc == "" {
		return e.See + e.Doc.Address()
	}
	return e.See + "  ·  " + e.Doc.Address()
}

func tell(err error) *Err {
	var told *Err
	if errors.As(err, &told) {
		return told
	}
	return &Err{Msg: err.Error()}
}

const (
	// groupFrom is how many equal problems become one, which names this many of its places.
	groupFrom = 4
	named     = 3
)

// grouped are the problems with one in the place of many that say the same of different places.
func grouped(list []Problem) []Problem {
	type kind struct{ message, fix string }
	places := map[kind][]string{}
	for _, p := range list {
		k := kind{p.Message, p.Fix}
		places[k] = append(places[k], p.Where)
	}
	var all []Problem
	for _, p := range list {
		k := kind{p.Message, p.Fix}
		where, left := places[k]
		switch {
		case !left:
			continue
		case len(where) >= groupFrom:
			p.Where = fmt.Sprintf("%s and %d more", strings.Join(where[:named], ", "), len(where)-named)
			delete(places, k)
		}
		all = append(all, p)
	}
	return all
}

// Write prints p on one line, and its fix on a second.
func (p Problem) Write(w io.Writer) {
	var b strings.Builder
	p.write(&b)
	_, _ = io.WriteString(w, b.String())
}

func (p Problem) write(b *strings.Builder) {
	text := p.Message
	if p.Where != "" {
		text = p.Where + ": " + text
	}
	field(b, "  ", text)
	field(b, "    fix: ", p.Fix)
}

// field writes text behind label, further lines below the first one's text.
func field(b *strings.Builder, label, text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	indent := strings.Repeat(" ", len(label))
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			label = indent
		}
		fmt.Fprintln(b, strings.TrimRight(label+Clean(line), " "))
	}
}
