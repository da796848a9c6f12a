package hubsvc

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pluralsh/plural/hubsvc/tunnel"
)

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
