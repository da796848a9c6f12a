package gitsource

import (
	"context"
	"errors"
	"strings"

	"github.com/pluralsh/plural/workspace/mirror"
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

// descent is a commit and one that it may have come out of.
type descent struct{ commit, older string }

// maxWalked bounds how many commits may lie between two whose descent is shown.
const maxWalked = 200_000

// cameOutOf shows by the commits themselves that one came out of another: they name their parents, and their ids are made of
// that. A server's word is believed only when it says no.
func (s *Source) cameOutOf(ctx context.Context, j *job, commit, older string) (bool, error) {
	of := descent{commit, older}
	if came, ok := s.proofs[of]; ok {
		return came, nil
	}
	came, err := reaches(ctx, j.into, of)
	final := true
	if err == nil && !came && s.descends(ctx, j.server, commit, older) != no {
		brought := s.bringBetween(ctx, j, of)
		if brought != nil && !own(brought) {
			return false, brought
		}
		final = brought == nil // or it is asked again
		came, err = reaches(ctx, j.into, of)
	}
	if err == nil && (came || final) {
		s.proofs[of] = came
	}
	return came, err
}

// reaches walks from parent to parent, as far as commits are here.
func reaches(ctx context.Context, into mirror.Receiver, of descent) (bool, error) {
	seen := map[string]bool{of.commit: true}
	for next := []string{of.commit}; len(next) > 0 && len(seen) <= maxWalked; {
		id := next[0]
		if id == of.older {
			return true, nil
		}
		if next = next[1:]; ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		kind, body, err := into.Object(id)
		if err != nil || kind != "commit" {
			continue
		}
		for _, parent := range parents(body) {
			if !seen[parent] {
				seen[parent] = true
				next = append(next, parent)
			}
		}
	}
	return false, nil
}

// parents stand together behind a commit's tree.
func parents(body []byte) []string {
	var list []string
	_, headers, _ := strings.Cut(string(body), "\n")
	for line := range strings.Lines(headers) {
		parent, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "parent ")
		if !ok {
			break
		}
		list = append(list, parent)
	}
	return list
}

// bringBetween asks for the commits between two, and for nothing that they hold where the server can leave that out.
func (s *Source) bringBetween(ctx context.Context, j *job, of descent) error {
	wants := []string{of.commit}
	if !j.server.v2 {
		q := wantV0(j.server, wants, false)
		q.WriteString(flushPacket)
		q.line("have %s", of.older)
		q.line("done")
		return s.askV0(ctx, j, q)
	}
	q := j.server.command("fetch")
	q.line("no-progress")
	q.line("ofs-delta")
	if j.server.has("fetch", "filter") {
		q.line("filter tree:0")
	}
	q.line("want %s", of.commit)
	q.line("have %s", of.older)
	q.line("done")
	q.WriteString(flushPacket)
	return s.askV2(ctx, j, q.String(), wants)
}
