package simcmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/cli/ui"
)

// list is what programs get.
type list struct {
	Items []row `json:"items"`
}

func show(rows []row) ui.View {
	view := ui.View{Value: list{rows}, Columns: []ui.Column{
		{Name: "SCENARIO"},
		{Name: "CLUSTERS"},
		{Name: "SECONDS"},
		{Name: "HUB CORES"},
		{Name: "HUB MB"},
		{Name: "PEAK MB", Wide: true},
		{Name: "POLLS"},
		{Name: "P50 MS"},
		{Name: "P99 MS"},
		{Name: "REPORTS", Wide: true},
		{Name: "TURNS", Wide: true},
		{Name: "BUNDLES", Wide: true},
		{Name: "CONNECTIONS", Wide: true},
		{Name: "LAST AGENT"},
		{Name: "RETRIES"},
		{Name: "FAILED"},
	}}
	for i := range rows {
		r := &rows[i]
		view.Names = append(view.Names, "scenario/"+r.Scenario)
		view.Rows = append(view.Rows, []string{
			r.Scenario, strconv.Itoa(r.Clusters), short(r.Seconds), fmt.Sprintf("%.3f", r.Cores), fmt.Sprintf("%.0f", r.RSSMB),
			fmt.Sprintf("%.0f", r.PeakMB), count(r.Polls), short(r.P50), short(r.P99), count(r.Reports), count(r.Turns), count(r.Bundles),
			count(r.Connections), r.lastAgent(), count(r.Retries), count(r.Failures),
		})
	}
	return view
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func short(f float64) string { return fmt.Sprintf("%.1f", f) }

// lastAgent is a time, or how many never came.
func (r *row) lastAgent() string {
	switch {
	case r.Missing > 0:
		return fmt.Sprintf("%d missing", r.Missing)
	case r.LastAgent > 0:
		return short(r.LastAgent) + "s"
	}
	return "-"
}

// printBench writes a line "bench NAME VALUE UNIT" for each figure. A scenario after the first has its name in it.
func printBench(w io.Writer, prefix string, rows []row) error {
	for i := range rows {
		r := &rows[i]
		name := prefix + "_" + strings.ReplaceAll(r.Scenario, "-", "_")
		figures := []struct {
			name  string
			value float64
			unit  string
		}{
			{"hub_cores", r.Cores, "cores"},
			{"hub_rss_mb", r.RSSMB, "MB"},
			{"poll_p50_ms", r.P50, "ms"},
			{"poll_p99_ms", r.P99, "ms"},
			{"last_agent_s", r.LastAgent, "s"},
			{"retries", float64(r.Retries), "requests"},
			{"failures", float64(r.Failures), "requests"},
			{"missing", float64(r.Missing), "agents"},
		}
		for _, f := range figures {
			if _, err := fmt.Fprintf(w, "bench %s_%s %.4g %s\n", name, f.name, f.value, f.unit); err != nil {
				return err
			}
		}
	}
	return nil
}
