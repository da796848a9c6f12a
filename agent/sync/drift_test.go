package sync_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agentsync "github.com/pluralsh/plural/agent/sync"
	"github.com/pluralsh/plural/api"
)

func TestWhatIsPutBackIsTold(t *testing.T) {
	w := newWorld(t)
	told := make(chan agentsync.Event, 100)
	w.event = func(e agentsync.Event) {
		if e.Reason == agentsync.Healed {
			told <- e
		}
	}
	web, db := w.configMap("web", "one"), w.configMap("db", "one")
	w.hub.asks("", web, db)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	w.becomes(db, api.Phase_HEALTHY)
	web = w.configMap("web", "two") // a person's commit is none
	w.hub.asks("", web, db)
	w.becomes(web, api.Phase_HEALTHY)

	by, patch := metav1.PatchOptions{FieldManager: "kubectl-edit"}, []byte(`{"data":{"value":"edited"}}`)
	if _, err := w.objects.Patch(t.Context(), "web", types.MergePatchType, patch, by); err != nil {
		t.Fatal(err)
	}
	next := func() (e agentsync.Event) {
		t.Helper()
		select {
		case e = <-told:
		case <-time.After(30 * time.Second):
			t.Fatal("nothing is told")
		}
		return e
	}
	e := next()
	want := "ConfigMap " + w.ns + `/web is put back: data.value taken from "kubectl-edit"`
	if e.Service != "web" || e.Message != want || e.Key != web.GetKey() || e.Warning || time.Since(e.Time) > time.Minute {
		t.Errorf("told %+v, want %s", e, want)
	}
	w.healed("db", "one")
	if e := next(); e.Service != "db" || !strings.HasSuffix(e.Message, "/db is put back: it was deleted") {
		t.Errorf("told %+v", e)
	}
	w.healed("db", "one") // within the minute
	w.passes(3)
	if len(told) > 0 {
		t.Errorf("told %+v", <-told)
	}
}
