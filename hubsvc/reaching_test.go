package hubsvc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/api/channel"
	"github.com/pluralsh/plural/hubsvc/tunnel"
)

// A9: whatever time an agent says, what happened stands where it was heard of, and can be shown: JSON has no year 292278994.
func TestAnAgentDoesNotDecideWhenSomethingHappened(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for said, want := range map[int64]time.Time{
		now.Add(-time.Minute).UnixMilli(): now.Add(-time.Minute), now.Add(-7 * time.Hour).UnixMilli(): now.Add(-7 * time.Hour),
		now.Add(time.Hour).UnixMilli(): now, now.AddDate(-10, 0, 0).UnixMilli(): now, now.AddDate(10, 0, 0).UnixMilli(): now,
		0: now, -1: now, math.MaxInt64: now, math.MinInt64: now,
	} {
		got := eventOf("edge", &channel.Event{Service: "web", Reason: "Failed", UnixMs: said}, now)
		if !got.Time.Equal(want) || got.Cluster != "edge" || got.Service != "web" {
			t.Errorf("%d: %v", said, got)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%d cannot be shown: %v", said, err)
		}
	}
}

// Whoever asks for a cluster is told that it cannot be reached, and the log alone why: that names the hub's own network.
func TestPeopleAreNotToldTheHubsOwnAddresses(t *testing.T) {
	var log bytes.Buffer
	h := &hub{Options: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	inside := fmt.Errorf("reach cluster %q over replica %q: 10.1.2.3:7443 does not answer", "edge", "hub-1")
	for _, tt := range []struct {
		err    error
		says   string
		logged bool
	}{
		{tunnel.ErrAbsent, "not connected", false},
		{fmt.Errorf("%w; or the replica that knows does not answer: nats: timeout", tunnel.ErrAbsent), "not connected", true},
		{inside, "replica", true},
	} {
		log.Reset()
		err := h.unreached("edge", tt.err)
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "10.1.2.3") || strings.Contains(err.Error(), "nats") {
			t.Errorf("told: %v", err)
		}
		if (log.Len() > 0) != tt.logged {
			t.Errorf("logged: %s", log.String())
		}
		if errors.Is(tt.err, tunnel.ErrAbsent) != errors.Is(err, tunnel.ErrAbsent) {
			t.Errorf("it is another kind of error now: %v", err)
		}
	}
}
