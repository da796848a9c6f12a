package audit

import (
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// A replica that stopped reading before it had enough may have the next record of all.
func TestAPageEndsWhereAReplicaHasToBeAskedForMore(t *testing.T) {
	at := func(minute int) found {
		when := time.Date(2026, 11, 22, 10, minute, 0, 0, time.UTC)
		return found{Record: v1.AuditRecord{ID: when.Format("15:04"), Time: when}, To: place{File: "f", Offset: int64(minute)}}
	}
	pages := map[string]*pageAnswer{
		"hub-0": {Found: []found{at(9), at(1)}, To: place{Done: true}},
		"hub-1": {Found: []found{at(8)}, To: place{File: "f", Offset: 5}},
	}
	places := map[string]place{"hub-0": {}, "hub-1": {}}
	var ids []string
	for _, e := range merge(pages, places, 10) {
		ids = append(ids, e.Record.ID)
	}
	if len(ids) != 2 || ids[0] != "10:09" || ids[1] != "10:08" {
		t.Errorf("%v, and hub-1 may have some before 10:01", ids)
	}
	if places["hub-1"] != pages["hub-1"].To || places["hub-0"] != at(9).To {
		t.Errorf("the next page begins at %+v", places)
	}
}
