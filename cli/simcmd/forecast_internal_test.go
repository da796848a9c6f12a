package simcmd

import (
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/simcmd/stage"
)

// TestAForecastNamesWhatEndsFirst varies one thing at a time.
func TestAForecastNamesWhatEndsFirst(t *testing.T) {
	// A poll costs 0.3 ms of a core, a bundle 0.12 ms.
	steady, touchAll := row{Seconds: 10, Cores: 0.03, Polls: 1000}, row{Seconds: 10, Cores: 0.012, Bundles: 1000}
	for _, tt := range []struct {
		name     string
		services int
		poll     time.Duration
		cores    int
		memory   float64
		clusters int
		ends     string
	}{
		{"a small machine", 20, 30 * time.Second, 2, 1e9, 2800, "memory"},
		{"much memory, polled all the time", 20, 100 * time.Millisecond, 2, 64e9, 530, "processor time for polls"},
		{"much memory", 20, 30 * time.Second, 2, 64e9, 80_000, "processor time for a commit that changes everything"},
		{"no room for the hub itself", 20, 30 * time.Second, 2, 100e6, 0, "memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := foreseen(stage.Fleet{Clusters: 1000, Services: tt.services}, tt.poll, tt.cores, tt.memory, steady, touchAll)
			if f.Clusters != tt.clusters || f.Bottleneck != tt.ends || f.Fits != (tt.clusters >= 1000) {
				t.Errorf("%+v", f)
			}
		})
	}
}
