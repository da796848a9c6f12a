package ui

import (
	"encoding/json"
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
	// Doc says where to read or look further.
	Doc string `json:"more,omitempty"`
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
	for _, p := range told.Problems {
		p.write(&b)
	}
	field(&b, "  fix:   ", told.Fix)
	field(&b, "  more:  ", told.Doc)
	_, _ = io.WriteString(w, b.String())
}

// RenderJSON prints err as one JSON object.
func RenderJSON(w io.Writer, err error) {
	told := *tell(err)
	if told.Msg == "" {
		return
	}
	told.Code = CodeOf(err)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(map[string]any{"error": told})
}

func tell(err error) *Err {
	var told *Err
	if errors.As(err, &told) {
		return told
	}
	return &Err{Msg: err.Error()}
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
