package gitsource

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Git's protocol is made of packets: four hex digits of length, which count themselves, and data. Lengths 0 to 2 are
// marks.
const (
	flushPacket = "0000"
	delimPacket = "0001"
	maxPacket   = 65520
)

// mark is what a packet without data means.
type mark int

const (
	data  mark = iota // not a mark
	flush             // end of a list or an answer
	delim             // end of a section
	end               // end of an answer over HTTP
)

// RemoteError is what the server said instead of an answer.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return fmt.Sprintf("the remote says %.500q", e.Text) }

// packets reads what a server sends.
type packets struct {
	r   *bufio.Reader
	buf []byte
}

func newPackets(r io.Reader) *packets {
	return &packets{r: bufio.NewReaderSize(r, 32<<10), buf: make([]byte, maxPacket)}
}

// next gives one packet's data, which is good until the next call. A complaint of the server is a *RemoteError.
func (p *packets) next() ([]byte, mark, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return nil, data, cutOff(err)
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 32)
	switch {
	case err != nil:
		return nil, data, fmt.Errorf("not git's protocol: a packet begins with %q", head[:])
	case n == 0:
		return nil, flush, nil
	case n == 1:
		return nil, delim, nil
	case n == 2:
		return nil, end, nil
	case n < 4 || n > maxPacket:
		return nil, data, fmt.Errorf("not git's protocol: a packet of %d bytes", n)
	}
	body := p.buf[:n-4]
	if _, err := io.ReadFull(p.r, body); err != nil {
		return nil, data, cutOff(err)
	}
	if text, ok := strings.CutPrefix(string(body[:min(len(body), 1000)]), "ERR "); ok {
		return nil, data, &RemoteError{Text: strings.TrimSpace(text)}
	}
	return body, data, nil
}

// line is next for text.
func (p *packets) line() (string, mark, error) {
	body, m, err := p.next()
	return strings.TrimSuffix(string(body), "\n"), m, err
}

// errCutOff is an answer that ended in its middle.
var errCutOff = errors.New("the remote ended its answer in the middle")

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutOff
	}
	return err
}

// request is written packet by packet.
type request struct{ strings.Builder }

func (q *request) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(q, "%04x%s\n", len(text)+5, text)
}

// sideband is the pack in an answer of numbered channels: 1 is the pack, 2 progress, 3 a last complaint.
type sideband struct {
	p     *packets
	rest  []byte
	ended bool
}

func (s *sideband) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.ended { // a server at the other end of a stream now waits for us
			return 0, io.EOF
		}
		body, m, err := s.p.next()
		switch {
		case err != nil:
			return 0, err
		case m != data:
			s.ended = true
		case len(body) == 0:
		case body[0] == 1:
			s.rest = body[1:]
		case body[0] == 3:
			return 0, &RemoteError{Text: strings.TrimSpace(string(body[1:min(len(body), 1000)]))}
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
