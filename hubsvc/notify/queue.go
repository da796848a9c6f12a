package notify

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pluralsh/plural/internal/httpclient"
)

const (
	// maxQueued bounds the messages that wait for one sink.
	maxQueued = 500
	// aSecond and burst are how many messages a sink gets.
	aSecond = 1
	burst   = 10
	// attempts is how often one message is tried, with a wait that doubles from firstWait up to lastWait.
	attempts  = 6
	firstWait = time.Second
	lastWait  = time.Minute
	// patience bounds one attempt.
	patience = 15 * time.Second
)

// queue is what one sink is about to be told.
type queue struct {
	notifier *Notifier
	sink     string
	limit    *rate.Limiter
	wake     chan struct{}

	mu      sync.Mutex // guards what follows
	waiting []*Message
	dropped int
	told    string // the cluster that the last message was of
}

func newQueue(n *Notifier, sink string) *queue {
	return &queue{notifier: n, sink: sink, limit: rate.NewLimiter(aSecond, burst), wake: make(chan struct{}, 1)}
}

// put adds a message; when there is no room, the oldest of the cluster that has most of them makes it: one that says a new thing
// each moment must not keep the others from being heard.
func (q *queue) put(m *Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxQueued {
		at := q.loudest()
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.dropped++
		q.notifier.counts.dropped.Inc()
	}
	q.waiting = append(q.waiting, m)
	signal(q.wake)
}

// loudest is where the oldest message stands of the cluster that has most of them.
func (q *queue) loudest() int {
	count := make(map[string]int)
	for _, m := range q.waiting {
		count[m.from()]++
	}
	at := 0
	for i, m := range q.waiting {
		if count[m.from()] > count[q.waiting[at].from()] {
			at = i
		}
	}
	return at
}

// take is the oldest message, of another cluster than the last one if there is any; nil when there is none at all.
func (q *queue) take() *Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	at := max(0, slices.IndexFunc(q.waiting, func(m *Message) bool { return m.from() != q.told }))
	m := q.waiting[at]
	q.waiting = slices.Delete(q.waiting, at, at+1)
	q.told = m.from()
	m.Dropped, q.dropped = q.dropped, 0
	return m
}

// from is the cluster that a message is of; empty when it is of several, or of none.
func (m *Message) from() string {
	if len(m.Clusters) == 1 {
		return m.Clusters[0]
	}
	return ""
}

// run tells one message after the other until ctx ends.
func (q *queue) run(ctx context.Context) {
	for {
		m := q.take()
		if m == nil {
			select {
			case <-ctx.Done():
				return
			case <-q.wake:
				continue
			}
		}
		if q.limit.Wait(ctx) != nil {
			return
		}
		q.tell(ctx, m)
	}
}

// tell tries until the sink has the message, or it is given up.
func (q *queue) tell(ctx context.Context, m *Message) {
	n := q.notifier
	for attempt, wait := 1, firstWait; ; attempt, wait = attempt+1, min(2*wait, lastWait) {
		sink, ok := n.Table().Sinks[q.sink]
		if !ok {
			return
		}
		trying, cancel := context.WithTimeout(ctx, patience)
		err := n.courier.bring(trying, &sink, m)
		cancel()
		if err == nil {
			n.counts.sent.Inc()
			return
		}
		if ctx.Err() != nil {
			return
		}
		if attempt == attempts || !passing(err) {
			n.counts.failed.Inc()
			n.Log.Warn("sink was not told", slog.String("sink", q.sink), slog.String("reason", m.Reason), slog.Int("attempts", attempt), slog.Any("error", err))
			return
		}
		if asked := new(httpclient.RetryError); errors.As(err, &asked) {
			wait = max(wait, min(asked.After, lastWait))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
