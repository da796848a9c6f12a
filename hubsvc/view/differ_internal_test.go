package view

import (
	"fmt"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// What is kept for each cluster that ever had an event was kept for good.
func TestAClusterThatIsQuietHasNoPaceKept(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	v := New(Options{
		Desired: func() *Desired { return &Desired{} }, Sources: func() []v1.Source { return nil },
		Now: func() time.Time { return now }, StaleAfter: time.Minute,
	})
	for i := range 1000 {
		v.Note(v1.Event{Cluster: fmt.Sprint("gone-", i), Reason: "Applied"})
	}
	loud := func() (news int) {
		for i := range 2 * eventsAtOnce {
			if v.Note(v1.Event{Cluster: "loud", Service: fmt.Sprint(i), Reason: "Failed"}) {
				news++
			}
		}
		return news
	}
	now = now.Add(eventsAtOnce*eventsEach - eventsEach)
	loud()
	now = now.Add(eventsEach)
	if news := loud(); news > 1 || len(v.events.paces) != 1 {
		t.Errorf("%d paces are kept, and the one cluster that has had its share may have %d more events", len(v.events.paces), news)
	}
}
