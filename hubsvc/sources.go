package hubsvc

import (
	"fmt"
	"time"

	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// sources gives resolve the installation repo as it is at one commit, and every source as it is now.
type sources struct {
	own   *snapshot.Snapshot
	fleet *fleet.Fleet
	repos *gitagent.Set
}

func (s sources) Snapshot(name, ref string) (*snapshot.Snapshot, error) {
	if name == "" {
		return s.own, nil
	}
	source, ok := s.fleet.Source(name)
	if !ok || source.Spec.Git == nil {
		return nil, fmt.Errorf("no source %q", name)
	}
	return s.repos.Snapshot(source.Spec.Git.URL, ref)
}

// sourceWants lists the repositories that a fleet's services read, with the refs they read.
func sourceWants(f *fleet.Fleet) []gitagent.Want {
	var wants []gitagent.Want
	for i := range f.Sources {
		source := &f.Sources[i]
		if source.Spec.Git == nil {
			continue
		}
		interval, _ := time.ParseDuration(source.Spec.Interval) // checked when the fleet was loaded; empty means the hub's own
		want := gitagent.Want{URL: source.Spec.Git.URL, Interval: interval, Refs: []string{source.Spec.Git.Ref}}
		for j := range f.Services {
			if ref := f.Services[j].Spec.Source; ref.Name == source.Metadata.Name && ref.Ref != "" {
				want.Refs = append(want.Refs, ref.Ref)
			}
		}
		wants = append(wants, want)
	}
	return wants
}
