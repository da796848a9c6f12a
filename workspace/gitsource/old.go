package gitsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/mirror"
)

// Servers that know only git's first protocol have listed their refs in the greeting.

var errSideband = errors.New("the server is too old: it does not know side-band-64k")

// fetchV0 names the objects, as far as the server lets them be asked for by id. A commit that it gives out only as part of
// a branch is found by fetching all branches and tags with their history, once for each state of the remote.
func (s *Source) fetchV0(ctx context.Context, j *job, wants []string) error {
	server := j.server
	if _, ok := server.can["side-band-64k"]; !ok {
		return errSideband
	}
	hidden := slices.DeleteFunc(slices.Clone(wants), server.gives)
	if len(hidden) > 0 && len(wants) > 1 {
		return &absentError{id: hidden[0]} // they are then asked for one by one
	}
	if len(hidden) == 0 {
		return s.packV0(ctx, j, wants, true)
	}
	id := hidden[0]
	if s.absent[id] == server.fingerprint || len(server.branches) == 0 {
		return &absentError{id: id}
	}
	if err := s.packV0(ctx, j, slices.Compact(slices.Sorted(slices.Values(server.branches))), false); err != nil {
		return err
	}
	if _, _, err := j.into.Object(id); err != nil {
		s.absent[id] = server.fingerprint
		return &absentError{id: id}
	}
	return nil
}

// gives says whether an old server lets an object be asked for by its id.
func (g *greeting) gives(id string) bool {
	_, reachable := g.can["allow-reachable-sha1-in-want"]
	return reachable || g.offered[id] || slices.Contains(sortedValues(g.refs), id)
}

func sortedValues(m map[string]string) []string {
	var all []string
	for _, key := range sortedKeys(m) {
		all = append(all, m[key])
	}
	return all
}

func (s *Source) packV0(ctx context.Context, j *job, wants []string, tips bool) error {
	_, shallow := j.server.can["shallow"]
	shallow = shallow && tips
	q := wantV0(j.server, wants, shallow)
	var have []string
	if shallow {
		have = j.haves
		for _, id := range have {
			q.line("shallow %s", id)
		}
		q.line("%s", j.deepen())
	}
	q.WriteString(flushPacket)
	for _, id := range have {
		q.line("have %s", id)
	}
	q.line("done")
	return s.askV0(ctx, j, q)
}

func (s *Source) askV0(ctx context.Context, j *job, q *request) error {
	res, err := s.wire.ask(ctx, 0, q.String())
	if err != nil {
		return err
	}
	defer res.Close()
	return takeV0(ctx, newPackets(res), j.into)
}

// wantV0 begins a request with its wants and the capabilities to be used, of those that the server has.
func wantV0(server *greeting, wants []string, shallow bool) *request {
	capabilities := "side-band-64k agent=plural"
	for _, c := range []string{"multi_ack_detailed", "ofs-delta", "no-progress"} {
		if _, ok := server.can[c]; ok {
			capabilities += " " + c
		}
	}
	if _, detailed := server.can["multi_ack_detailed"]; !detailed {
		if _, ok := server.can["multi_ack"]; ok {
			capabilities += " multi_ack"
		}
	}
	if shallow {
		capabilities += " shallow"
		if _, ok := server.can["deepen-since"]; ok {
			capabilities += " deepen-since"
		}
	}
	q := &request{}
	for i, want := range wants {
		if i == 0 {
			want += " " + capabilities
		}
		q.line("want %s", want)
	}
	return q
}

// takeV0 passes over what stands before the pack: borders of the history, and which commits are common.
func takeV0(ctx context.Context, p *packets, into mirror.Receiver) error {
	for {
		body, m, err := p.next()
		text := string(body[:min(len(body), 60)])
		switch {
		case err != nil:
			return fmt.Errorf("request pack: %w", err)
		case m != data, strings.HasPrefix(text, "shallow "), strings.HasPrefix(text, "unshallow "),
			strings.HasPrefix(text, "ACK "), strings.HasPrefix(text, "NAK"):
		case len(body) > 0 && body[0] <= 3:
			pack := &sideband{p: p}
			if body[0] == 1 {
				pack.rest = slices.Clone(body[1:])
			}
			return take(ctx, pack, into)
		default:
			return fmt.Errorf("not git's protocol: %q where the pack should begin", text)
		}
	}
}
