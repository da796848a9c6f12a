package gitsource

import (
	"context"
	"errors"
	"strings"
)

// answer is what a server knows of two commits.
type answer int

const (
	unknown answer = iota
	yes
	no
)

// descends asks the server whether what it has now came out of a commit that it had before, without fetching any
// history. It is told that we want the newer and have the older, whose parents we lack: a server that finds that common
// ground enough is "ready", and it does only when the older is an ancestor of the newer. It is asked in the first protocol,
// for there the border of our history counts before common ground is looked for; servers of the second speak it too.
func (s *Source) descends(ctx context.Context, server *greeting, newer, older string) answer {
	if _, detailed := server.can["multi_ack_detailed"]; !server.v2 && !detailed {
		return unknown
	}
	q := &request{}
	q.line("want %s multi_ack_detailed side-band-64k ofs-delta agent=plural", newer)
	q.line("shallow %s", older)
	q.WriteString(flushPacket)
	q.line("have %s", older)
	q.WriteString(flushPacket)
	res, err := s.wire.ask(ctx, 0, q.String())
	if err != nil {
		return unknown
	}
	defer res.Close()
	p := newPackets(res)
	for {
		line, m, err := p.line()
		switch {
		case errors.Is(err, errCutOff), err == nil && line == "NAK":
			return no
		case err != nil, m != data, !strings.HasPrefix(line, "ACK "):
			return unknown
		case strings.HasSuffix(line, " ready"):
			return yes
		}
	}
}
