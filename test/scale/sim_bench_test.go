package scale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// played is what `plural sim run -o json` shows of one scenario.
type played struct {
	Scenario string   `json:"scenario"`
	Cores    float64  `json:"hubCores"`
	RSS      float64  `json:"hubRssMB"`
	P99      float64  `json:"pollP99Ms"`
	Last     float64  `json:"lastAgentSeconds"`
	Missing  int      `json:"missingAgents"`
	Turns    int      `json:"turns"`
	Retries  int      `json:"retries"`
	Failures int      `json:"failures"`
	Errors   []string `json:"errors"`
}

// BenchmarkSim loads the shipped hub with simulated fleets, and prints a line "bench NAME VALUE UNIT" for each figure that
// has a target, beside that target. It runs once, and takes some ten minutes. A figure is the hub's own; the machine is
// shared with the agents.
func BenchmarkSim(b *testing.B) {
	if b.N > 1 {
		return
	}
	// What most fleets are: polls each 30 s, and a commit that changes everything.
	usual := play(b, "--clusters", "1100", "--ramp", "20s", "--scenario", "steady,touch-all")
	figure("sim_1100_hub_cores", usual["steady"].Cores, "cores", 0.05)
	figure("sim_1100_hub_rss_mb", usual["steady"].RSS, "MB", 200)
	figure("sim_1100_poll_p99_ms", usual["steady"].P99, "ms", 20)
	figure("sim_touch_all_1100_s", usual["touch-all"].Last, "s", 60)

	// A hub that asks for polls each 2 s, so that a commit is everywhere in less than 5; then what goes wrong in a day.
	quick := play(b, "--clusters", "1000", "--ramp", "10s", "--poll-interval", "2s", "--for", "30s",
		"--scenario", "steady,commit,restart,partition,slow")
	figure("sim_1000_2s_hub_cores", quick["steady"].Cores, "cores", 0)
	figure("sim_commit_fanout_1000_s", quick["commit"].Last, "s", 5)
	figure("sim_restart_1000_s", quick["restart"].Last, "s", 0)
	figure("sim_partition_1000_s", quick["partition"].Last, "s", 0)
	figure("sim_slow_1000_s", quick["slow"].Last, "s", 0)

	large := play(b, "--clusters", "10000", "--ramp", "60s", "--scenario", "steady,touch-all,storm")
	figure("sim_10000_hub_cores", large["steady"].Cores, "cores", 0.5)
	figure("sim_10000_hub_rss_mb", large["steady"].RSS, "MB", 600)
	figure("sim_10000_poll_p99_ms", large["steady"].P99, "ms", 20)
	figure("sim_touch_all_s", large["touch-all"].Last, "s", 60)
	figure("sim_reconnect_10000_s", large["storm"].Last, "s", 60)
}

// figure prints a figure. Most is the target, or zero where there is none.
func figure(name string, value float64, unit string, most float64) {
	fmt.Printf("bench %s %.4g %s\n", name, value, unit)
	if most > 0 && value > most {
		fmt.Printf("# %s is over its target of %g %s\n", name, most, unit)
	}
}

// play runs the simulator with 20 services a cluster and a fixed seed. An agent that a scenario lost, and a request that
// failed again when it was repeated, fail the benchmark, but while there is no way to the hub.
func play(b *testing.B, args ...string) map[string]played {
	b.Helper()
	program, err := filepath.Abs("../../bin/plural")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		b.Skipf("SKIPPED: bin/plural is not built: run make plural first: %v", err)
	}
	sim := exec.CommandContext(b.Context(), program,
		append([]string{"sim", "run", "--services", "20", "--seed", "1", "-o", "json"}, args...)...)
	var out bytes.Buffer
	sim.Stdout, sim.Stderr = &out, os.Stderr
	if err := sim.Run(); err != nil {
		b.Fatalf("plural sim %s: %v", args, err)
	}
	var list struct{ Items []played }
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		b.Fatalf("plural sim: %v\n%s", err, out.Bytes())
	}
	all := make(map[string]played, len(list.Items))
	for _, row := range list.Items {
		all[row.Scenario] = row
		cutOff := row.Scenario == "partition" || row.Scenario == "restart"
		if row.Missing > 0 || row.Failures > 0 && !cutOff {
			b.Errorf("%s: %d agents missing, %d requests failed again: %s", row.Scenario, row.Missing, row.Failures, strconv.Quote(fmt.Sprint(row.Errors)))
		}
	}
	return all
}
