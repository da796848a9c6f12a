package hubsvc

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealed"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// BenchmarkSealedFleet is what the hub pays for a commit to a repository with a thousand clusters in one group and a
// thousand sealed files: as the first that it sees, and as one that touches nothing of them.
func BenchmarkSealedFleet(b *testing.B) {
	const n = 1000
	s, o := newSafe(b), newOrigin(b)
	files := s.fleet(nil)
	var members []groups.Member
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		files["clusters/"+name+".yaml"] = cluster(name, nil)
		members = append(members, groups.Member{Kind: groups.Cluster, Name: name})
	}
	changes, err := s.set().Create(repositoryID, "wide", members, groups.CreateOptions{ClusterKey: s.clusterKey})
	if err != nil {
		b.Fatal(err)
	}
	for name, text := range changes {
		files[name] = string(text)
	}
	for i := range n {
		name := fmt.Sprintf("secrets/f%d.yaml", i)
		files[name] = s.seal(name, "password: x\n")
	}
	o.push(files)
	open := func() *candidate {
		snap, err := snapshot.Open(o.work, "HEAD")
		if err != nil {
			b.Fatal(err)
		}
		f, err := fleet.Load(snap.FS())
		if err != nil {
			b.Fatal(err)
		}
		return &candidate{f, snap}
	}
	first := open()
	o.push(map[string]string{"README.md": "hello"})
	second := open()
	checker, cache, resolver := sealed.New(), envelopeCache{}, resolve.New()
	work := func(b *testing.B, c *candidate) {
		if problems, err := checker.Check(b.Context(), c.snapshot); err != nil || len(problems) > 0 {
			b.Fatal(problems, err)
		}
		envelopes, err := cache.in(c.snapshot)
		if err != nil {
			b.Fatal(err)
		}
		plan, err := newPlan(b.Context(), c, means{resolver, pinned{newest: newest{own: c.snapshot}}, "own", envelopes, &plan{}}, gateway.Terms{}, slog.New(slog.DiscardHandler))
		if err != nil || len(plan.roots) != n+1 {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			checker, cache, resolver = sealed.New(), envelopeCache{}, resolve.New()
			work(b, first)
		}
	})
	b.Run("untouched", func(b *testing.B) {
		for b.Loop() {
			work(b, second)
		}
	})
}
