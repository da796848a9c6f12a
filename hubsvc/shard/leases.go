package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/internal/kv"
)

const (
	streamName = "leases"
	subjects   = "plural_lease."
	// hintSubject wakes the others after a change; what changed they read for themselves.
	hintSubject = "plural_lease_hint"
	// replicateEvery is the wait between two attempts to have the leases kept by all servers that should.
	replicateEvery = 10 * time.Second
)

// errStale says that the answer came from a server that is behind one that answered before.
var errStale = errors.New("a server that is behind answered")

// errOvertaken says that a lease is not what its writer took it for.
var errOvertaken = errors.New("the lease was written by somebody else")

// leases is the stream of all leases, one message a member. Only the goroutine of Run uses it. It is read from the
// stream's leader alone: followers, and with them the usual reads of buckets, may be behind.
type leases struct {
	js       jetstream.JetStream
	replicas int

	stream   jetstream.Stream // nil while not opened
	complete bool             // kept by as many servers as it should
	tried    time.Time
	// created and last tell the newest state that was read.
	created time.Time
	last    uint64
	members map[string]sighting
}

func (l *leases) open(ctx context.Context) error {
	if l.stream != nil && (l.complete || time.Since(l.tried) < replicateEvery) {
		return nil
	}
	l.tried = time.Now()
	stream, complete, err := kv.Stream(ctx, l.js, jetstream.StreamConfig{
		Name: streamName, Description: "which replicas of the hub are there", Subjects: []string{subjects + "*"},
		MaxMsgsPerSubject: 1, Storage: jetstream.FileStorage, Replicas: l.replicas,
	})
	if err != nil {
		return err
	}
	l.stream, l.complete = stream, complete
	return nil
}

// read gives all leases by ID.
func (l *leases) read(ctx context.Context) (map[string]sighting, error) {
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	info, err := l.stream.Info(ctx, jetstream.WithSubjectFilter(subjects+"*"))
	if err != nil {
		return nil, l.failed("read leases", err)
	}
	if info.Created.Equal(l.created) && info.State.LastSeq < l.last {
		return nil, errStale
	}
	if !info.Created.Equal(l.created) || info.State.LastSeq != l.last || len(info.State.Subjects) != len(l.members) {
		members, err := l.get(ctx, info.State.Subjects)
		if err != nil {
			return nil, l.failed("read leases", err)
		}
		l.members, l.created, l.last = members, info.Created, info.State.LastSeq
	}
	copied := make(map[string]sighting, len(l.members))
	for id, m := range l.members {
		copied[id] = m
	}
	return copied, nil
}

func (l *leases) get(ctx context.Context, subjects map[string]uint64) (map[string]sighting, error) {
	members := make(map[string]sighting, len(subjects))
	for subject := range subjects {
		m, err := l.one(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		members[m.ID] = m
	}
	return members, nil
}

func (l *leases) one(ctx context.Context, subject string) (sighting, error) {
	message, err := l.stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return sighting{}, err
	}
	m := sighting{revision: message.Sequence}
	if err := json.Unmarshal(message.Data, &m.record); err != nil || subject != subjects+token(m.ID) {
		return sighting{}, fmt.Errorf("lease %s is unreadable", subject)
	}
	return m, nil
}

// mine reads one member's lease; its revision is zero when there is none.
func (l *leases) mine(ctx context.Context, id string) (sighting, error) {
	m, err := l.one(ctx, subjects+token(id))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return sighting{}, nil
	}
	if err != nil {
		return sighting{}, l.failed("read the own lease", err)
	}
	return m, nil
}

// write stores a lease over revision after, zero for none, or over whatever is there when after is nil. The error wraps
// errOvertaken when something else is there.
func (l *leases) write(ctx context.Context, r *record, after *uint64) (revision uint64, err error) {
	if err := l.open(ctx); err != nil {
		return 0, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("encode lease: %w", err)
	}
	options := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}
	if after != nil {
		options = append(options, jetstream.WithExpectLastSequencePerSubject(*after))
	}
	ack, err := l.js.Publish(ctx, subjects+token(r.ID), body, options...)
	if err != nil {
		return 0, l.failed("write lease", err)
	}
	return ack.Sequence, nil
}

// forget removes what is left of a member that has long been gone, unless it is back.
func (l *leases) forget(ctx context.Context, m *sighting) error {
	if err := l.stream.DeleteMsg(ctx, m.revision); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return l.failed("remove the lease of "+m.ID, err)
	}
	return nil
}

// failed says what went wrong. A stream that has gone is made anew by the next attempt.
func (l *leases) failed(what string, err error) error {
	answer := new(jetstream.APIError)
	switch {
	case errors.As(err, &answer) && (answer.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		answer.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return fmt.Errorf("%s: %w", what, errOvertaken)
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrNoStreamResponse):
		l.stream = nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// token makes one word of a NATS subject of any text, and leaves plain names as they are.
func token(text string) string {
	return strings.ReplaceAll(url.PathEscape(text), ".", "%2E")
}
