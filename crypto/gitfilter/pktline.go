package gitfilter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// maxPacket is git's bound of one packet, its length of four digits included.
	maxPacket = 65520
	maxData   = maxPacket - 4
	// maxLines bounds a list of "key=value" packets.
	maxLines = 64
)

// errTooLarge means that a file is larger than what a filter takes.
var errTooLarge = errors.New("file is too large")

// packets reads and writes git's pkt-line format: four hex digits that count themselves and the data; 0000 ends a list.
type packets struct {
	in  *bufio.Reader
	out *bufio.Writer
}

func newPackets(in io.Reader, out io.Writer) *packets {
	return &packets{bufio.NewReaderSize(in, maxPacket), bufio.NewWriterSize(out, maxPacket)}
}

// next reads one packet. Data is nil at the end of a list, and only good until the next call.
func (p *packets) next() (data []byte, err error) {
	head, err := p.in.Peek(4)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	n, err := packetLen(head)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		_, err := p.in.Discard(4)
		return nil, err
	}
	// The whole packet fits into the buffer, so it is not copied.
	packet, err := p.in.Peek(n)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	_, err = p.in.Discard(n)
	return packet[4:], err
}

// packetLen reads the four digits; 0 is the end of a list.
func packetLen(head []byte) (int, error) {
	n := 0
	for _, c := range head {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int(c-'a'+10)
		case c >= 'A' && c <= 'F':
			n = n<<4 | int(c-'A'+10)
		default:
			return 0, fmt.Errorf("git sent %q where a packet's length should be", head)
		}
	}
	if n != 0 && n < 4 || n > maxPacket {
		return 0, fmt.Errorf("git sent a packet of length %d", n)
	}
	return n, nil
}

// lines reads a list of lines.
func (p *packets) lines() ([]string, error) {
	var lines []string
	for {
		data, err := p.next()
		if err != nil || data == nil {
			return lines, err
		}
		if len(lines) == maxLines {
			return nil, fmt.Errorf("git sent a list of more than %d lines", maxLines)
		}
		lines = append(lines, strings.TrimSuffix(string(data), "\n"))
	}
}

// content reads a file into buf. It reads to the file's end in any case; the error is errTooLarge when that was farther
// than most.
func (p *packets) content(buf []byte, most int) ([]byte, error) {
	buf = buf[:0]
	var tooLarge error
	for {
		data, err := p.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if data == nil {
			return buf, tooLarge
		}
		if len(buf)+len(data) > most {
			buf, tooLarge = buf[:0], errTooLarge
		}
		if tooLarge == nil {
			buf = append(buf, data...)
		}
	}
}

// list writes lines and the end of the list.
func (p *packets) list(lines ...string) {
	for _, line := range lines {
		p.packet([]byte(line + "\n"))
	}
	p.end()
}

// file writes content and its end.
func (p *packets) file(content []byte) {
	for len(content) > 0 {
		n := min(len(content), maxData)
		p.packet(content[:n])
		content = content[n:]
	}
	p.end()
}

// packet leaves errors to flush, as end does: a bufio.Writer keeps its first.
func (p *packets) packet(data []byte) {
	_, _ = fmt.Fprintf(p.out, "%04x", len(data)+4)
	_, _ = p.out.Write(data)
}

func (p *packets) end() { _, _ = p.out.WriteString("0000") }

func (p *packets) flush() error { return p.out.Flush() }
