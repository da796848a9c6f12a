package hub

import (
	"bytes"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func TestStatusTellsOfACertificateThatCannotBeRenewedAndOfNoOther(t *testing.T) {
	f := &cmdutil.Factory{IO: &ui.Streams{}, Now: time.Now}
	ends := time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)
	hub := &v1.Hub{Version: "v1", Certificates: []v1.Certificate{
		{Name: "replica", Ends: ends}, {Name: "hub", Ends: ends, Error: "the key is \x1b[31manother's"},
	}}
	var out bytes.Buffer
	if err := screen(f, &out, hub, nil); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if !strings.Contains(got, "2026-12-24  the key is") || strings.Contains(got, "\x1b") || strings.Contains(got, "\nreplica") {
		t.Errorf("%s", got)
	}
	out.Reset()
	hub.Certificates[1].Error = ""
	if err := screen(f, &out, hub, nil); err != nil || strings.Contains(out.String(), "CERTIFICATE") {
		t.Errorf("%v: %s", err, &out)
	}
}
