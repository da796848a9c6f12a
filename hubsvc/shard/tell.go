package shard

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// Tell says something of a repository to all replicas that listen, this one included: at most once, and perhaps never.
// A kind is one plain word; plural.KIND.REPO is the subject.
func (s *Shard) Tell(kind, repo string) {
	if err := s.Conn.Publish("plural."+kind+"."+token(repo), nil); err != nil {
		s.Log.Debug("a hint is not passed on", "kind", kind, "repo", repo, "error", err)
	}
}

// Listen calls fn, one call after the other, with each repository that is told of, until stop is called.
func (s *Shard) Listen(kind string, fn func(repo string)) (stop func(), err error) {
	prefix := "plural." + kind + "."
	subscription, err := s.Conn.Subscribe(prefix+"*", func(m *nats.Msg) {
		if repo, err := url.PathUnescape(strings.TrimPrefix(m.Subject, prefix)); err == nil {
			fn(repo)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for hints of kind %s: %w", kind, err)
	}
	return func() { _ = subscription.Unsubscribe() }, nil // fails once the connection has gone, which ends it too
}

// hint has the others look at the leases now.
func (s *Shard) hint() {
	if err := s.Conn.Publish(hintSubject, []byte(s.Self.ID)); err != nil {
		s.Log.Debug("a hint is not passed on", "error", err)
	}
}

// hints wakes the loop when another member's lease has changed.
func (s *Shard) hints() (stop func(), err error) {
	subscription, err := s.Conn.Subscribe(hintSubject, func(m *nats.Msg) {
		if string(m.Data) != s.Self.ID {
			signal(s.wake)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for changes of leases: %w", err)
	}
	return func() { _ = subscription.Unsubscribe() }, nil // as in Listen
}
