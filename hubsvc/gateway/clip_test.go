package gateway

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

// FuzzReport holds the count of entries, made without decoding, to what decoding finds.
func FuzzReport(f *testing.F) {
	whole, err := proto.Marshal(&api.Report{Boot: "x", Services: []*api.ServiceReport{
		{Service: "web", Problems: []*api.ObjectReport{{Kind: "Pod"}, {}}}, {},
	}})
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
		n := len(report.GetServices())
		for _, s := range report.GetServices() {
			n += len(s.GetProblems())
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
