package hubsvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/channel"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/notify"
	"github.com/pluralsh/plural/hubsvc/state"
	"github.com/pluralsh/plural/hubsvc/view"
)

// eventSubject is where a replica says what agents told it. All show it; the one that edits the fleet tells sinks.
const eventSubject = "plural.event"

// heard takes in what a cluster's agent says happened. What the hub alone can know it does not believe.
func (h *hub) heard(cluster string, said *channel.Event) {
	if view.HubsOwn(said.GetReason()) {
		h.Log.Debug("an agent's event is left out: only the hub says that", "cluster", cluster, "reason", said.GetReason())
		return
	}
	h.happened(cluster, said)
}

// happened takes in what happened in a cluster.
func (h *hub) happened(cluster string, said *channel.Event) {
	e := eventOf(cluster, said, time.Now())
	if h.replica.conn != nil {
		text, err := json.Marshal(e)
		if err == nil {
			err = h.replica.conn.Publish(eventSubject, text) // this replica hears it too
		}
		if err == nil {
			return
		}
		h.Log.Debug("an event is not passed on", "cluster", cluster, "error", err)
	}
	h.announce(e)
}

// takeReport takes a cluster's report in.
func (h *hub) takeReport(ctx context.Context, cluster string, report *api.Report) error {
	err := h.state.Put(ctx, cluster, report)
	if errors.Is(err, state.ErrLeap) {
		return fmt.Errorf("%w: %w", gateway.ErrLeap, err)
	}
	return err
}

// exceeded tells people of a cluster whose agent reports in a loop.
func (h *hub) exceeded(cluster string) {
	h.happened(cluster, &channel.Event{
		Reason: view.ReportsLimited, Warning: true, UnixMs: time.Now().UnixMilli(),
		Message: fmt.Sprintf("the agent of cluster %s reports more often than the hub takes: what is shown of the cluster lags. If it goes on, "+
			"look at plural logs agent/%s for what changes all the time; if somebody else has its key, register the cluster anew", cluster, cluster),
	})
}

// oldestEvent is how old an event may be, as its agent says: one that finds no connection waits for one.
const oldestEvent = 24 * time.Hour

// eventOf is what an agent says happened. When, the agent says only within bounds.
func eventOf(cluster string, said *channel.Event, now time.Time) v1.Event {
	at := time.UnixMilli(said.GetUnixMs())
	if at.After(now) || at.Before(now.Add(-oldestEvent)) {
		at = now
	}
	return v1.Event{
		Time: at.UTC(), Cluster: cluster, Service: said.GetService(), Reason: said.GetReason(), Warning: said.GetWarning(),
		Message: said.GetMessage(), Key: said.GetKey(),
	}
}

// listen takes up what agents told any replica, until ctx ends.
func (h *hub) listen(ctx context.Context) error {
	subscription, err := h.replica.conn.Subscribe(eventSubject, func(m *nats.Msg) {
		var e v1.Event
		if json.Unmarshal(m.Data, &e) == nil {
			h.announce(e)
		}
	})
	if err != nil {
		return fmt.Errorf("listen for events: %w", err)
	}
	<-ctx.Done()
	_ = subscription.Unsubscribe() // fails once the connection has gone, which ends it too
	return nil
}

// announce shows an event to whoever looks and, if it is news, tells it to whoever wants to be told.
func (h *hub) announce(e v1.Event) {
	if h.view.Note(e) {
		h.tell(e)
	}
}

// tell passes an event on to sinks. Every replica knows of it, and one speaks.
func (h *hub) tell(e v1.Event) {
	if h.edits() {
		h.reaching.notifier.Note(notify.Event{
			Time: e.Time, Cluster: e.Cluster, Service: e.Service, Reason: e.Reason, Message: e.Message, Key: e.Key, Warning: e.Warning,
		})
	}
}
