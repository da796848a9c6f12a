package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkFleet measures what users feel, on the shipped binaries, and prints a line "bench NAME VALUE UNIT" for each
// figure. It runs once, however long that takes.
func BenchmarkFleet(b *testing.B) {
	if b.N > 1 {
		return
	}
	bin := binaries(b)
	for _, program := range []string{"plural", "plural-agent", "localkube"} {
		info, err := os.Stat(filepath.Join(bin, program))
		if err != nil {
			b.Fatal(err)
		}
		report("binary_"+strings.ReplaceAll(program, "-", "_")+"_mb", float64(info.Size())/1e6, "MB")
	}
	for name, args := range map[string][]string{
		"help": {"--help"}, "version": {"version"}, "completion": {"completion", "bash"}, "complete": {"__complete", "cluster", ""},
	} {
		report("startup_"+name+"_ms", milliseconds(median(20, func() time.Duration { return startUp(b, bin, args...) })), "ms")
	}
	began := time.Now()
	l := up(b)
	report("up_local_seconds", time.Since(began).Seconds(), "s")
	report("commit_to_applied_p50_ms", milliseconds(median(20, l.commitToApplied())), "ms")
	l.reportMemory()
	began = time.Now()
	l.run("down", l.repo)
	report("down_seconds", time.Since(began).Seconds(), "s")
}

func report(name string, value float64, unit string) {
	fmt.Printf("bench %s %.4g %s\n", name, value, unit)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(times int, measure func() time.Duration) time.Duration {
	all := make([]time.Duration, times)
	for i := range all {
		all[i] = measure()
	}
	slices.Sort(all)
	return all[times/2]
}

// startUp is how long a command takes that does next to nothing, process and all.
func startUp(tb testing.TB, bin string, args ...string) time.Duration {
	tb.Helper()
	began := time.Now()
	if err := exec.CommandContext(tb.Context(), filepath.Join(bin, "plural"), args...).Run(); err != nil {
		tb.Fatal(err)
	}
	return time.Since(began)
}

// commitToApplied pushes a new image and waits until all clusters' API servers show it.
func (l *local) commitToApplied() func() time.Duration {
	n := 0
	kubes := map[string]func() string{}
	for _, cluster := range clusters {
		kubes[cluster] = l.imageWatcher(cluster)
	}
	return func() time.Duration {
		n++
		tag := fmt.Sprintf("6.8.%d", n)
		l.replace("apps/podinfo/deployment.yaml.tmpl", `podinfo:.+`, "podinfo:"+tag)
		l.git("add", "-A")
		l.git("commit", "-qm", "Update podinfo to "+tag)
		began := time.Now()
		l.git("push", "-q", "origin", "HEAD")
		l.eventually("all clusters run "+tag, time.Minute, func() bool {
			return !slices.ContainsFunc(clusters, func(c string) bool { return !strings.HasSuffix(kubes[c](), ":"+tag) })
		})
		return time.Since(began)
	}
}

// reportMemory prints what the hub and the agents hold resident, each child render aside.
func (l *local) reportMemory() {
	agents, most := 0, 0.0
	for name, p := range l.parts() {
		switch {
		case name == "hub":
			report("hub_rss_mb", rss(l.t, p.PID), "MB")
		case strings.HasPrefix(name, "agent-"):
			agents++
			most = max(most, rss(l.t, p.PID))
		}
	}
	if agents != len(clusters) {
		l.t.Errorf("%d agents run, want %d", agents, len(clusters))
	}
	report("agent_rss_mb", most, "MB")
}

func rss(tb testing.TB, pid int) float64 {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Skipf("SKIPPED: memory is read from /proc: %v", err)
	}
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	fields := strings.Fields(string(rest))
	kilobytes, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kilobytes / 1000
}
