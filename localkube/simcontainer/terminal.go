package simcontainer

import (
	"bytes"
	"errors"
	"io"
)

// What a person types to end the input, or the program.
const (
	endOfInput = 0x04
	interrupt  = 0x03
	backspace  = 0x7f
)

// errInterrupted is what a program that reads sees of an interrupt.
var errInterrupted = errors.New("interrupted")

// terminalInput is what a terminal makes of keys: lines, echoed while they are typed.
type terminalInput struct {
	from    io.Reader
	echo    io.Writer
	pressed []byte // keys that were not looked at yet
	line    []byte // typed, not yet entered
	ready   []byte // entered, not yet read
	ended   error  // of the keys, or an interrupt
}

// terminalOutput starts each line at the left.
type terminalOutput struct{ to io.Writer }

func newTerminal(keys io.Reader, screen io.Writer) (io.Reader, io.Writer) {
	output := terminalOutput{screen}
	return &terminalInput{from: keys, echo: output}, output
}

func (t terminalOutput) Write(p []byte) (int, error) {
	if _, err := t.to.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Read returns one line, or a part of it, as programs get it from a terminal. What is typed after an end of input is
// for the next program that reads.
func (t *terminalInput) Read(p []byte) (int, error) {
	for len(t.ready) == 0 {
		key, err := t.next()
		if err != nil {
			return 0, err
		}
		if key == endOfInput && len(t.line) == 0 {
			return 0, io.EOF
		}
		if err := t.press(key); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

// next waits for a key.
func (t *terminalInput) next() (byte, error) {
	for len(t.pressed) == 0 {
		if t.ended != nil {
			return 0, t.ended
		}
		keys := make([]byte, 1024)
		var n int
		n, t.ended = t.from.Read(keys)
		t.pressed = keys[:n]
	}
	key := t.pressed[0]
	t.pressed = t.pressed[1:]
	return key, nil
}

// press does what a terminal does on one key.
func (t *terminalInput) press(key byte) error {
	const longestLine = 4096 // of a real terminal
	var err error
	switch {
	case key == interrupt:
		t.pressed, t.ended = nil, errInterrupted
		_, err = io.WriteString(t.echo, "^C\n")
	case key == endOfInput:
		t.ready, t.line = t.line, nil
	case key == backspace:
		if len(t.line) > 0 {
			t.line = t.line[:len(t.line)-1]
			_, err = io.WriteString(t.echo, "\b \b")
		}
	case key == '\r' || key == '\n':
		t.ready, t.line = append(t.line, '\n'), nil
		_, err = io.WriteString(t.echo, "\n")
	case len(t.line) < longestLine:
		t.line = append(t.line, key)
		_, err = t.echo.Write([]byte{key})
	}
	return err
}
