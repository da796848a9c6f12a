package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pluralsh/plural/api"
)

func TestPackedReportSaysAllThatItSaid(t *testing.T) {
	p, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	report := &api.Report{
		TokenIssuer:  &api.TokenIssuer{Issuer: "https://kubernetes.default.svc", Keys: []byte(`{"keys":[]}`), Agent: []byte{1, 2}},
		AgentVersion: "v1", Boot: "b", Root: "r", Held: &api.Held{Token: "3f2a9c0d11aa", Count: 2, Names: []string{"db", "web"}, Message: "2 of 3"},
		Services: []*api.ServiceReport{{
			Service: "web", Key: "k2", AppliedKey: "k1", AppliedVersion: "1.14.2", QuarantinedKey: "k2", Phase: api.Phase_FAILED,
			Held: &api.Held{Token: "0d11aa3f2a9c", Count: 1}, Notes: []string{"note"},
			Tests:    []*api.TestReport{{Name: "smoke", Outcome: api.TestReport_FAILED, Key: "k2", Log: "boom", Tries: 3, TookMs: 5, FinishedUnixMs: 7}},
			Problems: []*api.ObjectReport{{Group: "apps", Kind: "Deployment", Name: "web", Reason: "Conflict", Message: "m"}},
		}},
	}
	want := proto.CloneOf(report)
	packed, err := p.pack(report)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.unpack(packed)
	if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
