package simcmd_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/cli"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/needs"
)

// TestMain is the whole program when it is started as the hub, or to render.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == "hub" {
		os.Exit(cli.Main(os.Args[1:], ui.System()))
	}
	os.Exit(m.Run())
}

// run runs plural with what it would have printed.
func run(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	needs.Program(t, "git", "git")
	var stdout, stderr bytes.Buffer
	code = cli.Main(args, &ui.Streams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr, Width: 200})
	return stdout.String(), stderr.String(), code
}

// quick are the flags of a simulation that is over soon.
func quick(t *testing.T, more ...string) []string {
	return append([]string{
		"sim", "run", "--clusters", "12", "--services", "3", "--ramp", "100ms", "--for", "300ms", "--poll-interval", "300ms",
		"--report-interval", "300ms", "--bundle-bytes", "512", "--keep", t.TempDir(),
	}, more...)
}

// TestBareItForeseesInWordsWhatTheMachineCarries is plural sim.
func TestBareItForeseesInWordsWhatTheMachineCarries(t *testing.T) {
	began := time.Now()
	out, errOut, code := run(t, "sim", "--clusters", "700", "--services", "10")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	for _, want := range []string{
		" carries a hub of about\n", " clusters with 10 services each", "What ends first is ", "A fleet of 700 clusters with 10 services each takes ",
		"Give its hub ", "docs/sizing.md",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	const most = time.Minute // ten seconds, on a machine that has nothing else to do
	if took := time.Since(began); took > most || !strings.Contains(errOut, "next  plural sim run --clusters 700") {
		t.Errorf("after %s: %s", took, errOut)
	}
}

type row struct {
	Scenario string
	Cores    float64 `json:"hubCores"`
	RSS      float64 `json:"hubRssMB"`
	Last     float64 `json:"lastAgentSeconds"`
	Missing  int     `json:"missingAgents"`
	Polls    int
	Turns    int
	Bundles  int
	Failures int
	Errors   []string
}

func TestEveryScenarioIsPlayedAgainstARealHub(t *testing.T) {
	out, errOut, code := run(t, quick(t, "--scenario", "steady,commit,touch-all,storm,restart,partition,slow", "-o", "json")...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	var list struct{ Items []row }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bundles := map[string]int{"start": 36, "commit": 12, "touch-all": 36}
	for _, r := range list.Items {
		if r.RSS < 10 || r.Polls == 0 || r.Missing > 0 || r.Last == 0 && r.Scenario != "steady" {
			t.Errorf("%+v", r)
		}
		if want, ok := bundles[r.Scenario]; ok && r.Bundles != want {
			t.Errorf("%s: %d bundles, want %d", r.Scenario, r.Bundles, want)
		}
	}
	if len(list.Items) != 8 {
		t.Errorf("%d scenarios, want 8", len(list.Items))
	}
}

func TestAFleetInWhichServicesFallIllWaitsForEnterAndReportsEachChange(t *testing.T) {
	out, errOut, code := run(t, quick(t, "--scenario", "changes,steady", "--changes", "50", "--channels", "4", "--for", "2s", "--step", "-o", "json")...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	var list struct{ Items []row }
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 3 {
		t.Fatalf("%v\n%s", err, out)
	}
	if changes := list.Items[1]; changes.Turns < 10 || changes.Turns > 100 || changes.Failures > 0 || changes.Polls == 0 {
		t.Errorf("%+v", changes)
	}
	said := []string{"playing start", "enter plays changes", "playing changes", "enter plays steady", "playing steady"}
	lines := strings.Split(strings.TrimSpace(errOut), "\n")
	if diff := cmp.Diff(said, lines[max(0, len(lines)-len(said)):]); diff != "" {
		t.Errorf("what is said (-want +got):\n%s", diff)
	}
}

func TestBenchLinesNameTheirScenario(t *testing.T) {
	out, errOut, code := run(t, quick(t, "--scenario", "touch-all", "--bench", "sim_12")...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	for _, want := range []string{"bench sim_12_start_hub_rss_mb ", "bench sim_12_touch_all_last_agent_s ", "bench sim_12_touch_all_missing 0 agents\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestAHubThatDoesNotStartSaysWhy(t *testing.T) {
	_, errOut, code := run(t, quick(t, "--hub-arg", "--branch=nothing-of-the-kind=", "--hub-arg", "--no-such-flag")...)
	if code == 0 || !strings.Contains(errOut, "no-such-flag") {
		t.Errorf("exit code %d\n%s", code, errOut)
	}
}

func TestAFleetForAnotherHubIsWritten(t *testing.T) {
	dir := t.TempDir()
	if _, errOut, code := run(t, "sim", "init", dir, "--clusters", "3", "--services", "2", "--hub", "https://hub.example.com"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	if _, errOut, code := run(t, "validate", "-C", filepath.Join(dir, "fleet")); code != 0 {
		t.Errorf("the fleet is not valid: exit code %d\n%s", code, errOut)
	}
}

func TestWhatCannotBePlayedIsRefusedBeforeAnythingStarts(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown scenario":   {"run", "--scenario", "steady,flood"},
		"belong together":    {"run", "--hub", "https://hub.example.com"},
		"longer than":        {"run", "--poll-interval", "0s"},
		"at most 99999":      {"--clusters", "0"},
		"of this machine":    {"--hub", "https://hub.example.com"},
		"--changes is at":    {"run", "--changes", "0"},
		"--channels at":      {"run", "--channels", "-1"},
		"unexpected":         {"word"},
		"--range FROM..TO":   {"replay"},
		"which hub will the": {"init", "dir"},
	} {
		if _, errOut, code := run(t, append([]string{"sim"}, args...)...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit code %d, want %q in\n%s", args, code, want, errOut)
		}
	}
}
