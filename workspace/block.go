package workspace

import (
	"bytes"
	"fmt"
	"strings"
)

// The lines around a managed block.
const (
	blockStart = "# >>> plural: this block is managed, changes inside it are lost"
	blockEnd   = "# <<< plural"
)

// withBlock is text with body between the marker lines, replacing what stood there; without markers the block goes to
// the end. Everything outside stays byte for byte. The block takes over text's line endings.
func withBlock(text, body []byte) ([]byte, error) {
	eol := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		eol = "\r\n"
	}
	block := blockStart + eol + strings.ReplaceAll(string(body), "\n", eol) + blockEnd + eol

	start, end, err := findBlock(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Write(text[:start])
	if start == len(text) && start > 0 {
		if text[start-1] != '\n' {
			out.WriteString(eol)
		}
		out.WriteString(eol)
	}
	out.WriteString(block)
	out.Write(text[end:])
	return out.Bytes(), nil
}

// findBlock is where the block with its marker lines starts and ends; both are the end of text when there is none.
func findBlock(text []byte) (start, end int, err error) {
	start = -1
	at, number := 0, 0
	startLine := 0
	for line := range bytes.Lines(text) {
		number++
		next := at + len(line)
		switch strings.TrimRight(string(line), " \t\r\n") {
		case blockStart:
			if start < 0 {
				start, startLine = at, number
			}
		case blockEnd:
			if start >= 0 {
				return start, next, nil
			}
		}
		at = next
	}
	if start >= 0 {
		return 0, 0, refuse(fmt.Sprintf("add a line %q below it", blockEnd), "line %d: the managed block that starts here has no end", startLine)
	}
	return len(text), len(text), nil
}
