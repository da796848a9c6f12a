// Package block owns a block of lines that the program maintains in somebody else's text file.
//
// It refuses to know files and what the text means, except that a script's first line must stay first. A text goes in and
// comes out with the block put into it or cut out of it; everything outside the two marker lines stays byte for byte.
package block

import (
	"bytes"
	"fmt"
	"strings"
)

// The lines around a managed block.
const (
	Start = "# >>> plural: this block is managed, changes inside it are lost"
	End   = "# <<< plural"
)

// UnendedError means that a block's first line stands in a text, and its last line does not.
type UnendedError struct{ Line int }

func (e *UnendedError) Error() string {
	return fmt.Sprintf("line %d: the managed block that starts here has no end", e.Line)
}

// Fix says what to write into the text.
func (e *UnendedError) Fix() string { return fmt.Sprintf("add a line %q below it", End) }

// Put is text with body between the marker lines, replacing what stood there; without markers the block goes to the
// end, below an empty line. The block takes over text's line endings. The error is a *UnendedError.
func Put(text, body []byte) ([]byte, error) {
	start, end, err := find(text)
	if err != nil {
		return nil, err
	}
	var gap string
	if start == len(text) && start > 0 {
		gap = eol(text)
		if text[start-1] != '\n' {
			gap += gap
		}
	}
	return splice(text, start, end, gap+framed(text, body)), nil
}

// PutFirst is Put, except that a new block goes to the top, below a script's #! line: nothing that the script does can
// keep the block from running.
func PutFirst(text, body []byte) ([]byte, error) {
	start, end, err := find(text)
	if err != nil {
		return nil, err
	}
	var gap string
	if start == len(text) {
		start = shebang(text)
		end = start
		if start > 0 && text[start-1] != '\n' {
			gap = eol(text)
		}
	}
	return splice(text, start, end, gap+framed(text, body)), nil
}

// Cut is text without the block, and without the empty line that Put set above it. What Put or PutFirst made of a text
// that ends in a newline becomes that text again. The error is a *UnendedError.
func Cut(text []byte) ([]byte, error) {
	start, end, err := find(text)
	if err != nil {
		return nil, err
	}
	if start < len(text) && end == len(text) {
		above := text[:start]
		for _, gap := range []string{"\r\n", "\n"} {
			if bytes.HasSuffix(above, []byte("\n"+gap)) {
				start -= len(gap)
				break
			}
		}
	}
	return splice(text, start, end, ""), nil
}

// Body is what stands between the marker lines, nil when there is no block. The error is a *UnendedError.
func Body(text []byte) ([]byte, error) {
	start, end, err := find(text)
	if err != nil || start == len(text) {
		return nil, err
	}
	_, body, _ := bytes.Cut(text[start:end], []byte("\n"))
	return body[:lastLine(body)], nil
}

// lastLine is where the last line of a block begins.
func lastLine(block []byte) int {
	return bytes.LastIndexByte(bytes.TrimRight(block, "\r\n"), '\n') + 1
}

func framed(text, body []byte) string {
	eol := eol(text)
	return Start + eol + strings.ReplaceAll(string(body), "\n", eol) + End + eol
}

func eol(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) || bytes.HasSuffix(text, []byte("\r")) {
		return "\r\n"
	}
	return "\n"
}

// shebang is where a script's second line begins, 0 for a text whose first line says nothing about how it is run.
func shebang(text []byte) int {
	if !bytes.HasPrefix(text, []byte("#!")) {
		return 0
	}
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i + 1
	}
	return len(text)
}

func splice(text []byte, start, end int, insert string) []byte {
	out := make([]byte, 0, len(text)+len(insert))
	out = append(out, text[:start]...)
	out = append(out, insert...)
	return append(out, text[end:]...)
}

// find is where the block with its marker lines starts and ends; both are the end of text when there is none.
func find(text []byte) (start, end int, err error) {
	start = -1
	at, number := 0, 0
	startLine := 0
	for line := range bytes.Lines(text) {
		number++
		next := at + len(line)
		switch strings.TrimRight(string(line), " \t\r\n") {
		case Start:
			if start < 0 {
				start, startLine = at, number
			}
		case End:
			if start >= 0 {
				return start, next, nil
			}
		}
		at = next
	}
	if start >= 0 {
		return 0, 0, &UnendedError{Line: startLine}
	}
	return len(text), len(text), nil
}
