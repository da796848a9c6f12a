package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
)

func TestEveryEditHasADryRun(t *testing.T) {
	h := serve(t, 1, nil)
	const base = "0123456789012345678901234567890123456789"
	three, same := "3", `"message": "m", "base": "`+base+`", "confirm": "c"`
	for _, test := range []struct {
		path, body string
		want       api.Edit
	}{
		{"services/web/suspend", `{` + same + `}`, api.Edit{Action: "suspend", Name: "web"}},
		{"services/web/resume", `{` + same + `}`, api.Edit{Action: "resume", Name: "web"}},
		{"services/web/ack", `{"token": "t", ` + same + `}`, api.Edit{Action: "ack", Name: "web", Token: "t"}},
		{"services/web/set", `{"parameters": {"replicas": "3", "old": null}, "values": {"n": 1.10}, ` + same + `}`, api.Edit{
			Action: "set", Name: "web", Set: &v1.SetRequest{
				Parameters: map[string]*string{"replicas": &three, "old": nil}, Values: map[string]any{"n": json.Number("1.10")},
				Message: "m", Base: base, Confirm: "c",
			},
		}},
		{"history/0123456/undo", `{` + same + `}`, api.Edit{Action: "undo", Name: "0123456"}},
	} {
		for _, query := range []string{"", "?dry-run=1", "?dry-run=false"} {
			h.edits = nil
			want := test.want
			want.Message, want.Base, want.Confirm, want.DryRun = "m", base, "c", query == "?dry-run=1"
			code, got := ask[v1.Edited](t, h, http.MethodPost, "/v1/"+test.path+query, "alice", test.body)
			if diff := cmp.Diff([]api.Edit{want}, h.edits); code != http.StatusOK || got.DryRun != want.DryRun || diff != "" {
				t.Errorf("%s: %d %+v\n%s", test.path+query, code, got, diff)
			}
		}
		if code, _ := ask[v1.Error](t, h, http.MethodPost, "/v1/"+test.path+"?dry-run=1", "bob", test.body); code != http.StatusForbidden {
			t.Errorf("%s: who may not edit may look: %d", test.path, code)
		}
	}
	h.edits = nil
	for path, body := range map[string]string{
		"services/web/suspend?dryrun=1": "", "services/web/set?dry-run=maybe": "", "services/web/set?dry-run=0&dry-run=1": "",
		"services/web/suspend": `{"base": "HEAD"}`, "history/HEAD/undo": "", "history/012345/undo": "", "history/0123456/undo": `{"token": "t"}`,
		"services/web/set": `{"parameters": {"n": 3}}`, "services/web/resume": `{"version": "1"}`,
	} {
		if code, e := ask[v1.Error](t, h, http.MethodPost, "/v1/"+path, "alice", body); code != http.StatusBadRequest || e.Fix == "" {
			t.Errorf("%s %s: %d %+v", path, body, code, e)
		}
	}
	for _, path := range []string{"services/db/set", "upgrades/nothing/upgrade"} {
		if code, e := ask[v1.Error](t, h, http.MethodPost, "/v1/"+path, "alice", ""); code != http.StatusNotFound || e.Fix == "" {
			t.Errorf("%s: %d %+v", path, code, e)
		}
	}
	if len(h.edits) > 0 {
		t.Errorf("got through: %+v", h.edits)
	}
	if _, e := ask[v1.Error](t, h, http.MethodPost, "/v1/services/web/ack", "alice", `{"token": "unknown"}`); len(e.Problems) != 1 {
		t.Errorf("%+v", e)
	}
}
