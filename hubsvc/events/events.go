// Package events owns the events of the fleet, for people and sinks.
//
// All replicas show an event; the one that publishes what is served passes it on to sinks.
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/notify"
	"github.com/pluralsh/plural/hubsvc/view"
)

// eventSubject is where a replica says what agents told it. All show it; the one that edits the fleet tells sinks.
const eventSubject = "plural.event"

// Options are what Events works with. All must be set but Conn.
type Options struct {
	// Conn leads to the other replicas; nil for a hub that is alone.
	Conn *nats.Conn
	// Known says whether the fleet has a cluster of that name.
	Known func(cluster string) bool
	// Note shows an event to whoever looks, and says whether it is news; Tell passes it on to sinks.
	Note func(v1.Event) bool
	Tell func(notify.Event)
	// Speaks says whether this replica is the one that tells sinks.
	Speaks  func() bool
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Events takes in what happens.
type Events struct {
	Options
	// Notices are what this replica has noticed lately.
	Notices  Notices
	refusals *refusals
}

// New makes an Events.
func New(o Options) *Events { return &Events{Options: o, refusals: newRefusals(o.Metrics)} }

// Heard takes in what a cluster's agent says happened. What the hub alone can know it does not believe.
func (h *Events) Heard(cluster string, said *tunnelapi.Event) {
	if view.HubsOwn(said.GetReason()) {
		h.Log.Debug("an agent's event is left out: only the hub says that", "cluster", cluster, "reason", said.GetReason())
		return
	}
	h.Happened(cluster, said)
}

// Happened takes in what happened in a cluster.
func (h *Events) Happened(cluster string, said *tunnelapi.Event) {
	e := eventOf(cluster, said, time.Now())
	if h.Conn != nil {
		text, err := json.Marshal(e)
		if err == nil {
			err = h.Conn.Publish(eventSubject, text) // this replica hears it too
		}
		if err == nil {
			return
		}
		h.Log.Debug("an event is not passed on", "cluster", cluster, "error", err)
	}
	h.Announce(e)
}

// Exceeded tells people of a cluster whose agent reports in a loop.
func (h *Events) Exceeded(cluster string) {
	h.Happened(cluster, &tunnelapi.Event{
		Reason: view.ReportsLimited, Warning: true, UnixMs: time.Now().UnixMilli(),
		Message: fmt.Sprintf("the agent of cluster %s reports more often than the hub takes: what is shown of the cluster lags. If it goes on, "+
			"look at plural logs agent/%s for what changes all the time; if somebody else has its key, register the cluster anew", cluster, cluster),
	})
}

// oldestEvent is how old an event may be, as its agent says: one that finds no connection waits for one.
const oldestEvent = 24 * time.Hour

// eventOf is what an agent says happened. When, the agent says only within bounds.
func eventOf(cluster string, said *tunnelapi.Event, now time.Time) v1.Event {
	at := time.UnixMilli(said.GetUnixMs())
	if at.After(now) || at.Before(now.Add(-oldestEvent)) {
		at = now
	}
	return v1.Event{
		Time: at.UTC(), Cluster: cluster, Service: said.GetService(), Reason: said.GetReason(), Warning: said.GetWarning(),
		Message: said.GetMessage(), Key: said.GetKey(),
	}
}

// Run takes up what agents told any replica, until ctx ends.
func (h *Events) Run(ctx context.Context) error {
	if h.Conn == nil {
		return nil
	}
	subscription, err := h.Conn.Subscribe(eventSubject, func(m *nats.Msg) {
		var e v1.Event
		if json.Unmarshal(m.Data, &e) == nil {
			h.Announce(e)
		}
	})
	if err != nil {
		return fmt.Errorf("listen for events: %w", err)
	}
	<-ctx.Done()
	_ = subscription.Unsubscribe() // fails once the connection has gone, which ends it too
	return nil
}

// Announce shows an event to whoever looks and, if it is news, tells it to whoever wants to be told.
func (h *Events) Announce(e v1.Event) {
	if h.Note(e) {
		h.Pass(e)
	}
}

// Pass passes an event on to sinks. Every replica knows of it, and one speaks.
func (h *Events) Pass(e v1.Event) {
	if h.Speaks() {
		h.Tell(notify.Event{
			Time: e.Time, Cluster: e.Cluster, Service: e.Service, Reason: e.Reason, Message: e.Message, Key: e.Key, Warning: e.Warning,
		})
	}
}
