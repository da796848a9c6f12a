package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

const (
	// maxHaves bounds how many commits a server is told not to send again.
	maxHaves = 256
	// mostNear bounds how many refs are fetched as changes in one turn, each by a request of its own.
	mostNear = 8
	// nearAge bounds how old a commit may be for what came out of it to be fetched as changes: the longer ago, the less
	// is left of it, and the more lies between.
	nearAge = 30 * 24 * time.Hour
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// wanted are the objects that must be asked for: those that are not here, and once in a process's life those that are here
// and not whole, which an interrupted fetch may have left. What the mirror then still refuses, it refuses for what it is.
func (s *Source) wanted(j *job, found map[string]string) []string {
	var wants []string
	into := j.into
	for ref, id := range found {
		if known := into.Tip(ref); known.ID == s.tipID(id) && into.Complete(known.Commit) && !s.unjudged(j, ref, id) {
			continue
		}
		commit, err := peel(into, id)
		_, tried := s.tried[id]
		if err != nil || !tried && !into.Complete(commit) {
			wants = append(wants, id)
		}
	}
	slices.Sort(wants)
	return slices.Compact(wants)
}

// unjudged says that a verdict is due on an object that is not here any more.
func (s *Source) unjudged(j *job, ref, id string) bool {
	if _, judged := s.verdicts[verdict{j.names[ref], id}]; judged || s.options.Check == nil {
		return false
	}
	_, _, err := j.into.Object(id)
	return err != nil
}

// forget drops what was remembered of objects that no ref names any more.
func (s *Source) forget(refs []string, found map[string]string) {
	named := map[string]bool{}
	for _, id := range found {
		named[id] = true
	}
	gone := func(id string, _ error) bool { return !named[id] }
	maps.DeleteFunc(s.tried, gone)
	maps.DeleteFunc(s.verdicts, func(v verdict, _ error) bool { return !named[v.id] })
	maps.DeleteFunc(s.proofs, func(d descent, _ bool) bool { return !named[d.commit] })
	maps.DeleteFunc(s.absent, func(id, _ string) bool { return !named[id] })
	maps.DeleteFunc(s.tracks, func(ref string, _ *track) bool { return !slices.Contains(refs, ref) })
}

// bringAll fetches what the refs name and is not here. What has come out of a commit that is here is asked for as a
// change to that, anything else as one commit with all its files. Errors that concern single objects are by their id.
func (s *Source) bringAll(ctx context.Context, j *job, found map[string]string) (map[string]error, error) {
	wants := s.wanted(j, found)
	near := s.near(ctx, j, found, wants)
	for id, since := range near {
		j.since = since
		failed, err := s.bring(ctx, j, []string{id})
		if err != nil {
			return nil, err
		}
		commit, unknown := peel(j.into, id)
		if failed[id] != nil || unknown != nil || !j.into.Complete(commit) {
			// The commits between were too much, where the tip alone may not be; or the server left out too much.
			delete(s.tried, id)
			delete(near, id)
		}
	}
	j.since = 0
	return s.bring(ctx, j, slices.DeleteFunc(wants, func(id string) bool { return near[id] > 0 }))
}

// near are those that came out of commits that are here, with the times of those commits.
func (s *Source) near(ctx context.Context, j *job, found map[string]string, wants []string) map[string]int64 {
	list := map[string]int64{}
	if _, old := j.server.can["deepen-since"]; !old && !j.server.has("fetch", "shallow") {
		return list
	}
	for _, ref := range sortedKeys(found) {
		id, was := found[ref], original(j.into.Tip(ref))
		if isID(ref) || was == "" || list[id] > 0 || len(list) == mostNear {
			continue
		}
		if !slices.Contains(wants, id) || tooLarge(s.tried[id]) != nil {
			continue
		}
		_, body, err := j.into.Object(was)
		since := committed(body)
		if err == nil && since > time.Now().Add(-nearAge).Unix() && s.descent(ctx, j, ref, id, was) == yes {
			list[id] = since
		}
	}
	return list
}

// committed is a commit's time, in seconds; zero when it has none.
func committed(body []byte) int64 {
	for line := range strings.Lines(string(body)) {
		if line == "\n" {
			break
		}
		rest, ok := strings.CutPrefix(line, "committer ")
		if _, rest, _ = strings.Cut(rest, "> "); ok {
			seconds, _, _ := strings.Cut(rest, " ")
			at, _ := strconv.ParseInt(seconds, 10, 64) // zero when it is none
			return at
		}
	}
	return 0
}

// bring fetches objects, less what is here. What is wrong with one of them comes back under its id, and holds up no other.
func (s *Source) bring(ctx context.Context, j *job, wants []string) (map[string]error, error) {
	failed := map[string]error{}
	wants = slices.DeleteFunc(slices.Clone(wants), func(id string) bool {
		if too := tooLarge(s.tried[id]); too != nil {
			failed[id] = too // it was as large the last time
		}
		return failed[id] != nil
	})
	for some := range slices.Chunk(wants, maxWants) {
		err := s.fetchPack(ctx, j, some)
		for _, id := range some {
			if own(err) && len(some) > 1 {
				if err := s.one(ctx, j, id, failed); err != nil {
					return nil, err
				}
				continue
			}
			s.note(id, err, failed)
		}
		if err != nil && !own(err) {
			return nil, err
		}
	}
	return failed, nil
}

func (s *Source) one(ctx context.Context, j *job, id string, failed map[string]error) error {
	err := s.fetchPack(ctx, j, []string{id})
	s.note(id, err, failed)
	if err != nil && !own(err) {
		return err
	}
	return nil
}

func (s *Source) note(id string, err error, failed map[string]error) {
	s.tried[id] = err
	if err != nil {
		failed[id] = err
	}
}

// own says whether an error is about the object asked for, rather than about the server being able to answer.
func own(err error) bool {
	remote, absent := new(RemoteError), new(absentError)
	return err != nil && (errors.As(err, &remote) || errors.As(err, &absent) || tooLarge(err) != nil)
}

// tooLarge is err when that will not be otherwise the next time.
func tooLarge(err error) error {
	limit, long := new(snapshot.LimitError), new(httpclient.TooLongError)
	if errors.As(err, &limit) || errors.As(err, &long) {
		return err
	}
	return nil
}

// absentError is a commit that the remote does not give out.
type absentError struct {
	id  string
	why error
}

func (e *absentError) Error() string {
	text := fmt.Sprintf("commit %s is not in any branch or tag of the remote", e.id)
	if e.why != nil {
		text += ": " + e.why.Error()
	}
	return text
}
func (e *absentError) Unwrap() error { return e.why }

// fetchPack makes one request for objects.
func (s *Source) fetchPack(ctx context.Context, j *job, wants []string) error {
	if j.server.v2 {
		return s.fetchV2(ctx, j, wants)
	}
	return s.fetchV0(ctx, j, wants)
}

// fetchV2 leaves out the files that nobody reads for their size, where the server can. One that says it can and then refuses is
// not asked for that again.
func (s *Source) fetchV2(ctx context.Context, j *job, wants []string) error {
	if s.unfiltered || !j.server.has("fetch", "filter") {
		return s.askV2(ctx, j, j.requestV2(wants, ""), wants)
	}
	j.into.Unsent()
	err := s.askV2(ctx, j, j.requestV2(wants, fmt.Sprintf("filter blob:limit=%d", j.into.MaxFile()+1)), wants)
	if remote := new(RemoteError); errors.As(err, &remote) && strings.Contains(remote.Text, "filter") {
		s.unfiltered = true
		return s.askV2(ctx, j, j.requestV2(wants, ""), wants)
	}
	return err
}

func (s *Source) askV2(ctx context.Context, j *job, request string, wants []string) error {
	res, err := s.wire.ask(ctx, 2, request)
	if err != nil {
		return err
	}
	defer res.Close()
	p := newPackets(res)
	for {
		line, m, err := p.line()
		remote := new(RemoteError)
		switch {
		case errors.As(err, &remote) && len(wants) == 1 && strings.Contains(remote.Text, "not our ref"):
			return &absentError{id: wants[0]}
		case err != nil:
			return fmt.Errorf("request pack: %w", err)
		case m == data && line == "packfile":
			return take(ctx, &sideband{p: p}, j.into)
		case m == flush || m == end:
			return fmt.Errorf("request pack: %w", errCutOff)
		}
	}
}

// deepen says how much history is asked for: since some time, or none.
func (j *job) deepen() string {
	if j.since > 0 {
		return fmt.Sprintf("deepen-since %d", j.since)
	}
	return "deepen 1"
}

func (j *job) requestV2(wants []string, filter string) string {
	q := j.server.command("fetch")
	q.line("no-progress")
	q.line("ofs-delta")
	for _, want := range wants {
		q.line("want %s", want)
	}
	if j.server.has("fetch", "shallow") { // without it, a commit that is here would stand for its history
		for _, have := range j.haves {
			q.line("shallow %s", have)
			q.line("have %s", have)
		}
		q.line("%s", j.deepen())
	}
	if filter != "" {
		q.line("%s", filter)
	}
	q.line("done")
	q.WriteString(flushPacket)
	return q.String()
}

// take hands a pack to the mirror, and reads the answer to its end.
func take(ctx context.Context, pack io.Reader, into mirror.Receiver) error {
	if err := into.Pack(ctx, pack); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, io.LimitReader(pack, leftover))
	return err
}

// haves are the last good commits, and those of the remote that they were made of.
func haves(refs []string, into mirror.Receiver) []string {
	all := into.Commits()
	for _, ref := range refs {
		if made := into.Tip(ref); made.Revision != made.Commit && isID(made.Revision) && into.Complete(made.Revision) {
			all = append(all, made.Revision)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxHaves)]
}
