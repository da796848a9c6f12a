package simcmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/simcmd/stage"
	"github.com/pluralsh/plural/cli/ui"
)

// What docs/sizing.md measured of a hub's memory: what it takes by itself, for the connection of a cluster, and for each service on
// one, in bytes; and how much more it takes while a commit touches everything.
const (
	hubBytes, clusterBytes, serviceBytes = 100e6, 50e3, 5e3
	touched                              = 1.5
	// measuredClusters is the largest fleet that was tried.
	measuredClusters = 10_000
)

const (
	// used is how much of a machine is given to a hub before it counts as full.
	used = 0.8
	// hurry is how long a commit that changes every service may take to the last cluster.
	hurry = 2 * time.Minute
	// sample is how many clusters are simulated for a forecast, samples their services.
	sample, samples = 50, 20
)

// forecast is what a machine is foreseen to carry.
type forecast struct {
	// Cores and MemoryMB are the machine's, what is free of it.
	Cores    int     `json:"cores"`
	MemoryMB float64 `json:"memoryMB"`
	// Services are each cluster's, PollSeconds the wait between two of its polls.
	Services    int     `json:"servicesPerCluster"`
	PollSeconds float64 `json:"pollSeconds"`
	// PollMs and BundleMs are what a poll, with its share of reports, and a bundle were measured to cost, in milliseconds of a core.
	PollMs   float64 `json:"pollMs"`
	BundleMs float64 `json:"bundleMs"`
	// Clusters is how many the machine carries, Bottleneck what there would have to be more of.
	Clusters   int    `json:"clusters"`
	Bottleneck string `json:"bottleneck"`
	// Wanted is the fleet that was asked for; Fits says whether it is carried, Need what its hub takes.
	Wanted       int     `json:"wantedClusters"`
	Fits         bool    `json:"fits"`
	NeedCores    float64 `json:"needCores"`
	NeedMB       float64 `json:"needMB"`
	NeedTouchAll float64 `json:"touchAllSeconds"`
}

// foresee measures what a poll and a bundle cost here, on a small fleet of its own, and says from that what the machine carries.
func foresee(ctx context.Context, f *cmdutil.Factory, wanted stage.Fleet, poll time.Duration) error {
	switch {
	case f.Hub != "":
		return &ui.Err{Msg: "a forecast is of this machine, not of a hub elsewhere", Fix: "plural sim run --hub " + f.Hub +
			" --repo FOLDER loads that one"}
	case poll <= 0:
		return &ui.Err{Msg: "intervals are longer than nothing", Fix: "for example --poll-interval 30s"}
	}
	if err := checkFleet(wanted); err != nil {
		return err
	}
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	memory, err := freeMemory()
	if err != nil {
		return err
	}
	f.Say("measuring this machine with a hub and %d simulated clusters, some 8 seconds", sample)
	quiet := *f
	quiet.Quiet = true
	small := wanted
	small.Clusters, small.Services = sample, min(wanted.Services, samples)
	o := &options{
		factory: &quiet, fleet: small, scenarios: []string{"steady", "touch-all"}, lasts: 2 * time.Second, ramp: 300 * time.Millisecond,
		poll: 500 * time.Millisecond, report: time.Second, changes: 1,
	}
	rows, err := o.play(ctx)
	if err != nil {
		return err
	}
	result := foreseen(wanted, poll, runtime.NumCPU(), memory, rows[1], rows[2])
	return f.Print(printer, ui.View{
		Value: result, Screen: result.write, Names: []string{"clusters/" + strconv.Itoa(result.Clusters)},
		Note: "next  plural sim run --clusters " + strconv.Itoa(wanted.Clusters) + "   plays such a fleet, some minutes",
	})
}

// foreseen works the forecast out of what was measured of a steady fleet, and of a commit that changes every service.
func foreseen(wanted stage.Fleet, poll time.Duration, cores int, memory float64, steady, touchAll row) *forecast {
	f := &forecast{
		Cores: cores, MemoryMB: memory / 1e6, Services: wanted.Services, PollSeconds: poll.Seconds(), Wanted: wanted.Clusters,
		PollMs:   1000 * steady.Cores * steady.Seconds / float64(max(steady.Polls, 1)),
		BundleMs: 1000 * touchAll.Cores * touchAll.Seconds / float64(max(touchAll.Bundles, 1)),
	}
	services, all := float64(wanted.Services), float64(cores)*used
	cluster := clusterBytes + services*serviceBytes
	f.Clusters, f.Bottleneck = int((memory*used/touched-hubBytes)/cluster), "memory"
	for bottleneck, carried := range map[string]float64{
		"processor time for polls":                            all * f.PollSeconds * 1000 / f.PollMs,
		"processor time for a commit that changes everything": all * hurry.Seconds() * 1000 / (f.BundleMs * services),
	} {
		if int(carried) < f.Clusters {
			f.Clusters, f.Bottleneck = int(carried), bottleneck
		}
	}
	f.Clusters = rounded(max(f.Clusters, 0))
	n := float64(wanted.Clusters)
	f.NeedCores, f.NeedMB = n*f.PollMs/1000/f.PollSeconds, (hubBytes+n*cluster)*touched/1e6
	f.NeedTouchAll = n * services * f.BundleMs / 1000 / all
	f.Fits = wanted.Clusters <= f.Clusters
	return f
}

// rounded has two digits that mean something.
func rounded(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}

func (f *forecast) write(w io.Writer) error {
	fits := "It fits."
	if !f.Fits {
		fits = fmt.Sprintf("It does not fit: there is too little %s.", f.Bottleneck)
	}
	tried := ""
	if f.Clusters > measuredClusters {
		tried = fmt.Sprintf(" Fleets of more than %d clusters have not been tried.", measuredClusters)
	}
	_, err := fmt.Fprintf(w, `This machine, with %d cores and %.0f MB of free memory, carries a hub of about
%d clusters with %d services each, that is %d deployments, polled every %s.%s
What ends first is %s.

A fleet of %d clusters with %d services each takes %.2f cores while nothing
happens, and up to %.0f MB of memory. A commit reaches the last cluster after %.0f s;
one that changes every service takes %.0f s more. %s

Give its hub %d MB and %s. docs/sizing.md has what larger fleets took.
`, f.Cores, f.MemoryMB, f.Clusters, f.Services, f.Clusters*f.Services, time.Duration(f.PollSeconds*float64(time.Second)), tried, f.Bottleneck,
		f.Wanted, f.Services, f.NeedCores, f.NeedMB, 1.2*f.PollSeconds, f.NeedTouchAll, fits,
		int(f.NeedMB/64+1)*64, cores(f.NeedCores))
	return err
}

// cores is how many a hub is to be given that uses so much of them while nothing happens.
func cores(needed float64) string {
	if n := int(needed*2) + 1; n > 1 {
		return fmt.Sprintf("%d cores", n)
	}
	return "1 core"
}

// freeMemory is what the system could give to programs, in bytes. It needs /proc.
func freeMemory() (float64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("measure free memory: %w", err)
	}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 || fields[0] != "MemAvailable:" {
			continue
		}
		kib, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return 0, fmt.Errorf("measure free memory: %w", err)
		}
		return kib * 1024, nil
	}
	return 0, fmt.Errorf("measure free memory: /proc/meminfo has no MemAvailable")
}
