package solve

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pluralsh/plural/workspace/packages"
)

// thousand are packages of ten versions, of which each needs five others in ranges that exclude most of theirs: the newest
// versions of all do not fit together, and some hundred dead ends lie on the way to those that do.
func thousand() (list, []Want) {
	const count = 1000
	r := rand.New(rand.NewPCG(1, 2))
	var all list
	var wants []Want
	for p := range count {
		name := fmt.Sprintf("package-%d", p)
		wants = append(wants, Want{Name: name, By: "packages/" + name + "/package.yaml"})
		for minor := range 10 {
			v := Version{Name: name, Version: fmt.Sprintf("1.%d.0", minor)}
			for range min(5, count-1-p) {
				on, least := p+1+r.IntN(count-1-p), r.IntN(minor+1)
				v.Dependencies = append(v.Dependencies, packages.Dependency{
					Package: fmt.Sprintf("package-%d", on), Version: fmt.Sprintf(">=1.%d <1.%d", least, min(minor, 8)+1+r.IntN(2)),
				})
			}
			all = append(all, v)
		}
	}
	return all, wants
}

// indexed answers as quickly as a catalog that was read beforehand.
type indexed map[string][]Version

func (u indexed) Versions(name string) ([]Version, error) { return u[name], nil }

func index(all list) indexed {
	u := indexed{}
	for _, v := range all {
		u[v.Name] = append(u[v.Name], v)
	}
	return u
}

func BenchmarkSolveThousandPackages(b *testing.B) {
	all, wants := thousand()
	u := index(all)
	least := time.Hour
	for b.Loop() {
		begin := time.Now()
		s, err := Solve(wants, u, nil)
		if err != nil {
			b.Fatal(err)
		}
		if len(s.Picks) != len(wants) {
			b.Fatalf("%d picks", len(s.Picks))
		}
		least = min(least, time.Since(begin))
	}
	fmt.Printf("bench solve_1000_packages_ms %.1f ms\n", float64(least.Microseconds())/1000) //nolint:forbidigo // what make bench reads
}

// Each of fourteen packages takes one of thirteen seats, and no two take the same: there is no short proof that this cannot be.
func TestASearchThatWouldNotEndIsGivenUp(t *testing.T) {
	var all list
	var wants []Want
	for p := range 14 {
		wants = append(wants, Want{Name: fmt.Sprintf("guest-%d", p), By: "host"})
		for seat := range 13 {
			v := Version{Name: fmt.Sprintf("guest-%d", p), Version: fmt.Sprintf("%d.0.0", seat)}
			for q := range p {
				v.Dependencies = append(v.Dependencies, packages.Dependency{Package: fmt.Sprintf("guest-%d", q), Version: fmt.Sprintf("!=%d.0.0", seat)})
			}
			all = append(all, v)
		}
	}
	if _, core, err := solve(wants, index(all), nil, 1000); !errors.Is(err, ErrTooHard) {
		t.Errorf("%v, %v", core, err)
	}
}
