package view_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/pluralsh/plural/api"
)

// A8: a service is shown with what each of its clusters says, and the word of one must not take those of the others away: JSON has
// no year 292278994.
func TestAClusterThatSaysNonsenseDoesNotHideTheOthers(t *testing.T) {
	for _, finished := range []int64{math.MaxInt64, math.MinInt64, 253_402_300_800_000} {
		w := newWorld([]string{"a", "b"}, []string{"web"})
		for cluster, at := range map[string]int64{"a": finished, "b": now.UnixMilli()} {
			report := healthy("web")
			report.Tests = []*api.TestReport{{Name: "smoke", Outcome: api.TestReport_PASSED, FinishedUnixMs: at, TookMs: finished}}
			w.says(cluster, 0, report)
		}
		service, _ := w.view().Service("web")
		text, err := json.Marshal(service)
		if err != nil || strings.Count(string(text), `"finished"`) != 1 {
			t.Errorf("%d: %v %s", finished, err, text)
		}
	}
}
