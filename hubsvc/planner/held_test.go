package planner

import (
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// bloat makes cluster b's envelopes too large for a poll, which whoever can push can do.
func bloat(t *testing.T, s *fleetrepo.Safe, files map[string]string) {
	t.Helper()
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		member := groups.Member{Kind: groups.Cluster, Name: "b"}
		changes, err := s.Set().Create(fleetrepo.RepositoryID, name, []groups.Member{member}, groups.CreateOptions{ClusterKey: s.ClusterKey})
		if err != nil {
			t.Fatal(err)
		}
		for path, text := range changes {
			files[path] = string(text)
		}
		envelope := groups.EnvelopeFile(name, member)
		files[envelope] += strings.Repeat("x", 250<<10)
	}
}

func TestAClusterWhoseEnvelopesAreTooLargeIsHeldAlone(t *testing.T) {
	s, o := fleetrepo.NewSafe(t), fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	files := s.Fleet(nil)
	files["clusters/b.yaml"] = fleetrepo.Cluster("b", nil)
	p.serves(o.Push(files))
	before, bundle := p.Root("b"), p.on("web").Bundle
	if before == nil {
		t.Fatal("b has nothing to run")
	}

	next := maps.Clone(files)
	next["apps/web/cm.yaml"] = fleetrepo.ConfigMap("web", "another")
	bloat(t, s, next)
	p.serves(o.Push(next))
	if p.Root("a") == nil || p.on("web").Hold != nil || p.on("web").Bundle == bundle {
		t.Error("a does not get what is new")
	}
	if p.Root("b") != before {
		t.Error("b does not keep what it was served last")
	}
	if err := p.Pack(t.Context(), bundle, io.Discard); err != nil {
		t.Errorf("b cannot fetch what it was served last: %v", err)
	}
	held := p.Plan().Desired.Deployments["b"]
	if len(held) == 0 {
		t.Fatal("nothing is said of b")
	}
	for _, d := range held {
		if d.Hold == nil || d.Hold.Cluster != "b" || d.Hold.File != "clusters/b.yaml" || !strings.Contains(d.Hold.Message, "envelopes") || d.Hold.Fix == "" {
			t.Errorf("%s: hold = %+v", d.Service, d.Hold)
		}
	}

	p.serves(o.Push(map[string]string{"README.md": "hello"}))
	if p.Root("b") != before {
		t.Error("b keeps what it was served last for one commit only")
	}
	for name := range next {
		next[name] = files[name] // "" removes it
	}
	p.serves(o.Push(next))
	if p.Root("b") == before || p.Plan().Desired.Deployments["b"][0].Hold != nil {
		t.Error("b is not served again")
	}
}
