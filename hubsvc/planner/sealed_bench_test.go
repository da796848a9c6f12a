package planner

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealcheck"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// BenchmarkSealedFleet is what the hub pays for a commit to a repository with a thousand clusters in one group and a
// thousand sealed files: as the first that it sees, and as one that touches nothing of them.
func BenchmarkSealedFleet(b *testing.B) {
	const n = 1000
	s, o := fleetrepo.NewSafe(b), fleetrepo.New(b)
	files := s.Fleet(nil)
	var members []groups.Member
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		files["clusters/"+name+".yaml"] = fleetrepo.Cluster(name, nil)
		members = append(members, groups.Member{Kind: groups.Cluster, Name: name})
	}
	changes, err := s.Set().Create(fleetrepo.RepositoryID, "wide", members, groups.CreateOptions{ClusterKey: s.ClusterKey})
	if err != nil {
		b.Fatal(err)
	}
	for name, text := range changes {
		files[name] = string(text)
	}
	for i := range n {
		name := fmt.Sprintf("secrets/f%d.yaml", i)
		files[name] = s.Seal(name, "password: x\n")
	}
	o.Push(files)
	open := func() *sources.Commit {
		snap, err := snapshot.Open(o.Work, "HEAD")
		if err != nil {
			b.Fatal(err)
		}
		f, err := fleet.Load(snap.FS())
		if err != nil {
			b.Fatal(err)
		}
		return &sources.Commit{Fleet: f, Snapshot: snap}
	}
	first := open()
	o.Push(map[string]string{"README.md": "hello"})
	second := open()
	checker, cache, resolver := sealcheck.New(), envelopeCache{}, resolve.New()
	work := func(b *testing.B, c *sources.Commit) {
		if problems, err := checker.Check(b.Context(), c.Snapshot); err != nil || len(problems) > 0 {
			b.Fatal(problems, err)
		}
		envelopes, err := cache.in(c.Snapshot)
		if err != nil {
			b.Fatal(err)
		}
		plan, err := newPlan(b.Context(), c, planInputs{resolver, pinned{newest: newest{own: c.Snapshot}}, "own", envelopes, &Plan{}}, gateway.Terms{}, slog.New(slog.DiscardHandler))
		if err != nil || len(plan.roots) != n+1 {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			checker, cache, resolver = sealcheck.New(), envelopeCache{}, resolve.New()
			work(b, first)
		}
	})
	b.Run("untouched", func(b *testing.B) {
		for b.Loop() {
			work(b, second)
		}
	})
}
