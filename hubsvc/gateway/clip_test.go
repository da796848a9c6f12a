package gateway

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

// FuzzReport holds the count of entries, made without decoding, to what decoding finds.
func FuzzReport(f *testing.F) {
	whole, err := proto.Marshal(&api.Report{Boot: "x", Services: []*api.ServiceReport{
		{
			Service: "web", Problems: []*api.ObjectReport{{Kind: "Pod"}, {}}, Notes: []string{"taken"},
			Tests: []*api.TestReport{{Name: "smoke", Log: "x"}}, Held: &api.Held{Token: "3f2a9c0d11aa", Names: []string{"Pod web/a"}},
		}, {},
	}, Held: &api.Held{Names: []string{"web"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte{0x2a, 0xff, 0xff, 0xff, 0xff, 0x07})
	f.Add([]byte{0x2b, 0x2a, 0x00, 0x2c})
	f.Fuzz(func(t *testing.T, body []byte) {
		err := checkEntries(body)
		report := new(api.Report)
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, report) != nil {
			return
		}
		n := len(report.GetServices()) + len(report.GetHeld().GetNames())
		for _, s := range report.GetServices() {
			n += len(s.GetProblems()) + len(s.GetTests()) + len(s.GetNotes()) + len(s.GetHeld().GetNames())
		}
		if (err == nil) != (n <= maxEntries) {
			t.Fatalf("checkEntries = %v for %d entries", err, n)
		}
		clip(report)
		if encoded, err := proto.Marshal(report); err != nil || len(encoded) > len(body)+64 {
			t.Fatalf("a clipped report has %d bytes, the whole had %d; %v", len(encoded), len(body), err)
		}
	})
}
