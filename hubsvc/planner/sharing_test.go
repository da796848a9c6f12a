package planner

import (
	"testing"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

func TestClustersThatRunTheSameShareIt(t *testing.T) {
	on := func(cluster, key string, hold *resolve.Problem) []resolve.Deployment {
		return []resolve.Deployment{{Service: "web", Cluster: cluster, Key: key, Hold: hold, Parameters: map[string]string{"a": "b"}}}
	}
	s := sharing{}
	one, same, other := s.of(on("a", "k1", nil))[0], s.of(on("b", "k1", nil))[0], s.of(on("c", "k2", nil))[0]
	if one != same || one == other || one.Cluster != "" {
		t.Errorf("%p %p %p, cluster %q", one, same, other, one.Cluster)
	}
	here, there := &resolve.Problem{Cluster: "a"}, &resolve.Problem{Cluster: "b"}
	held, alsoHeld := s.of(on("a", "", here))[0], s.of(on("b", "", there))[0]
	if held == alsoHeld || held.Hold != here || alsoHeld.Hold != there {
		t.Error("what is held on one cluster is shared with another, which has a reason of its own")
	}
	if one.Parameters == nil {
		t.Error("parameters are gone before they are encoded")
	}
	if s.strip(); one.Parameters != nil || one.Key != "k1" {
		t.Errorf("stripped = %+v", one)
	}
}

func TestTestsThatWereFilledInForAClusterAreItsOwn(t *testing.T) {
	on := func(cluster, variant string) []resolve.Deployment {
		tests := []fleet.Test{{Name: "smoke", HTTP: &fleet.HTTPTest{Path: "/" + cluster}}}
		return []resolve.Deployment{{Service: "web", Cluster: cluster, Key: "k1", Variant: variant, Operation: resolve.Operation{Tests: tests}}}
	}
	s := sharing{}
	one, other := s.of(on("a", "v1"))[0], s.of(on("b", "v2"))[0]
	if one == other || other.Tests[0].HTTP.Path != "/b" {
		t.Errorf("b is tried with %+v", other.Tests[0].HTTP)
	}
	if s.strip(); one.Tests != nil || other.Tests != nil {
		t.Error("tests are kept once they are encoded")
	}
}
