package tail_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pluralsh/plural/agent/tail"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/logring"
)

func TestTheAgentsLogIsReadAsTheChannelHasIt(t *testing.T) {
	ring := logring.New(tail.Lines)
	log := slog.New(ring.Handler(slog.NewTextHandler(new(bytes.Buffer), nil)))
	log.Info("first", "service", "web")
	log.Warn("second", "service", "db", "n", 2)
	log.Error("third", "service", "web")
	var got []*tunnelapi.LogLine
	err := tail.Logs(t.Context(), ring, &tunnelapi.LogsRequest{Tail: 2, Service: "web"}, func(l *tunnelapi.LogLine) error {
		if l.GetUnixMs() == 0 {
			t.Errorf("line %v has no time", l)
		}
		l.UnixMs = 0
		got = append(got, l)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []*tunnelapi.LogLine{
		{Level: "info", Message: "first", Attributes: []string{"service=web"}},
		{Level: "error", Message: "third", Attributes: []string{"service=web"}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if err := tail.Logs(t.Context(), ring, &tunnelapi.LogsRequest{Tail: -1}, nil); err != nil {
		t.Error(err)
	}
}
