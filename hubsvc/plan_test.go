package hubsvc

import (
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/pluralsh/plural/crypto/groups"
)

// bloat makes cluster b's envelopes too large for a poll, which whoever can push can do.
func (s *safe) bloat(files map[string]string) {
	s.t.Helper()
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		member := groups.Member{Kind: groups.Cluster, Name: "b"}
		changes, err := s.set().Create(repositoryID, name, []groups.Member{member}, groups.CreateOptions{ClusterKey: s.clusterKey})
		if err != nil {
			s.t.Fatal(err)
		}
		for path, text := range changes {
			files[path] = string(text)
		}
		envelope := groups.EnvelopeFile(name, member)
		files[envelope] += strings.Repeat("x", 250<<10)
	}
}

func TestAClusterWhoseEnvelopesAreTooLargeIsHeldAlone(t *testing.T) {
	s, o := newSafe(t), newOrigin(t)
	p := plans(t, o, t.TempDir())
	files := s.fleet(nil)
	files["clusters/b.yaml"] = cluster("b", nil)
	p.serves(o.push(files))
	before, bundle := p.root("b"), p.on("web").Bundle
	if before == nil {
		t.Fatal("b has nothing to run")
	}

	next := maps.Clone(files)
	next["apps/web/cm.yaml"] = configMap("web", "another")
	s.bloat(next)
	p.serves(o.push(next))
	if p.root("a") == nil || p.on("web").Hold != nil || p.on("web").Bundle == bundle {
		t.Error("a does not get what is new")
	}
	if p.root("b") != before {
		t.Error("b does not keep what it was served last")
	}
	if err := p.pack(t.Context(), bundle, io.Discard); err != nil {
		t.Errorf("b cannot fetch what it was served last: %v", err)
	}
	held := p.plan().desired.Deployments["b"]
	if len(held) == 0 {
		t.Fatal("nothing is said of b")
	}
	for _, d := range held {
		if d.Hold == nil || d.Hold.Cluster != "b" || d.Hold.File != "clusters/b.yaml" || !strings.Contains(d.Hold.Message, "envelopes") || d.Hold.Fix == "" {
			t.Errorf("%s: hold = %+v", d.Service, d.Hold)
		}
	}

	p.serves(o.push(map[string]string{"README.md": "hello"}))
	if p.root("b") != before {
		t.Error("b keeps what it was served last for one commit only")
	}
	for name := range next {
		next[name] = files[name] // "" removes it
	}
	p.serves(o.push(next))
	if p.root("b") == before || p.plan().desired.Deployments["b"][0].Hold != nil {
		t.Error("b is not served again")
	}
}
