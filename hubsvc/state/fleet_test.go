package state_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/hubsvc/state"
)

const (
	clusters = 10_000
	services = 20
)

// names are those of a fleet's clusters.
var names = func() []string {
	list := make([]string, clusters)
	for i := range list {
		list[i] = fmt.Sprintf("edge-%05d", i)
	}
	return list
}()

// full is a cluster's report of its services, all of them well. Clusters of one kind run the same, others nothing
// alike.
func full(cluster, kind int, sequence uint64) *api.Report {
	random := rand.NewChaCha8(sha256.Sum256([]byte(digest("keys", kind))))
	r := &api.Report{
		AgentVersion: "v0.7.0", KubernetesVersion: "v1.35.4", Boot: digest("boot", cluster)[:26], Sequence: sequence,
		Root: digest("root", cluster), ReceivedUnixMs: time.Now().UnixMilli(),
	}
	for i := range services {
		var raw [sha256.Size]byte
		_, _ = random.Read(raw[:]) // never fails
		key := hex.EncodeToString(raw[:])
		r.Services = append(r.Services, &api.ServiceReport{
			Service: fmt.Sprintf("service-%02d", i), Key: key, AppliedKey: key, Phase: api.Phase_HEALTHY, Objects: 12, Ready: 12,
		})
	}
	return r
}

func digest(what string, of int) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(what, " of ", of)))
	return hex.EncodeToString(sum[:])
}

func fill(t testing.TB, store *state.Store, names []string, kind func(cluster int) int) {
	t.Helper()
	for i, name := range names {
		if err := store.Put(t.Context(), name, full(i, kind(i), 1)); err != nil {
			t.Fatal(err)
		}
	}
}

func heap() float64 {
	var stats runtime.MemStats
	for range 3 { // what is shared is let go of by the second collection
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / 1e6
}

func TestAFleetsReportsTakeLittleMemory(t *testing.T) {
	const part = clusters / 4
	for name, c := range map[string]struct {
		kind func(int) int
		most float64
	}{
		"nothing alike": {func(cluster int) int { return cluster }, 6.5},
		"all alike":     {func(int) int { return 0 }, 2.5},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := state.Open(state.Options{}) // not run: what it keeps itself
			if err != nil {
				t.Fatal(err)
			}
			before := heap()
			fill(t, store, names[:part], c.kind)
			used := heap() - before
			t.Logf("%d clusters with %d services each: %.1f MB", part, services, used)
			if used > c.most {
				t.Errorf("%.1f MB, more than %.1f", used, c.most)
			}
			if got, ok := store.Report(names[7]); !ok || len(got.GetServices()) != services {
				t.Errorf("report = %v", got)
			}
		})
	}
}

// BenchmarkReports is one minute of a fleet's reports in each turn, with the bucket and the server in the same process.
func BenchmarkReports(b *testing.B) {
	for name, kind := range map[string]func(turn int) func(int) int{
		"steady":  func(int) func(int) int { return func(cluster int) int { return cluster } },
		"changed": func(turn int) func(int) int { return func(cluster int) int { return cluster + turn*clusters } },
	} {
		b.Run(name, func(b *testing.B) {
			server := serve(b, b.TempDir())
			defer server.Close()
			store, stop := run(b, server, "hub")
			fill(b, store, names, kind(0))
			reports := make([]*api.Report, clusters)
			turn, used := 0, time.Duration(0)
			for b.Loop() {
				turn++
				for i := range reports {
					reports[i] = full(i, kind(turn)(i), uint64(turn+1))
				}
				began := cpu()
				for i, name := range names {
					if err := store.Put(b.Context(), name, reports[i]); err != nil {
						b.Fatal(err)
					}
				}
				eventually(b, func() error {
					if left := store.Unwritten(); left > 0 {
						return fmt.Errorf("%d are left to write", left)
					}
					return nil
				})
				used += cpu() - began
			}
			b.ReportMetric(used.Seconds()/float64(turn)/60, "cores")
			b.ReportMetric(heap(), "heap-MB")
			stop()
		})
	}
}

// BenchmarkReadAll reads every cluster's report, as the view of a whole fleet does.
func BenchmarkReadAll(b *testing.B) {
	store, err := state.Open(state.Options{})
	if err != nil {
		b.Fatal(err)
	}
	fill(b, store, names, func(cluster int) int { return cluster })
	for b.Loop() {
		for _, name := range names {
			if _, ok := store.Report(name); !ok {
				b.Fatal(name)
			}
		}
	}
}

// cpu is the time that this process has used.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
