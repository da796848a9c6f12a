package shard_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/hubsvc/shard"
)

// short is for tests in which innocents may lose their lease to an election.
const short = 6 * time.Second

func TestAKilledOwnersRepositoriesMoveAndReturn(t *testing.T) {
	f := newFleet(t, shard.DefaultTTL)
	before := f.agreed(f.replicas...)
	watched := f.guard()
	epochs := []uint64{f.replicas[0].shard.Epoch(), f.replicas[2].shard.Epoch()}
	killed := time.Now()
	f.replicas[1].kill()
	after := f.agreed(f.replicas[0], f.replicas[2])
	t.Logf("moved %.1f s after the owner was killed", time.Since(killed).Seconds())
	for repo, owner := range after {
		if before[repo] != "hub-1" && before[repo] != owner {
			t.Fatalf("%s moved from %s to %s although its owner lives", repo, before[repo], owner)
		}
	}
	if diff := cmp.Diff(epochs, []uint64{f.replicas[0].shard.Epoch(), f.replicas[2].shard.Epoch()}); diff != "" {
		t.Logf("an election took somebody's lease: %s", diff)
	}
	watched()
	returned := time.Now()
	f.replicas[1].start()
	if diff := cmp.Diff(before, f.agreed(f.replicas...)); diff != "" {
		t.Error(diff)
	}
	t.Logf("moved back %.1f s after it returned", time.Since(returned).Seconds())
}

func TestACrashedReplicaTakesItsOwnLeaseBackAtOnce(t *testing.T) {
	f := newFleet(t, shard.DefaultTTL)
	before := f.agreed(f.replicas...)
	epoch := f.replicas[1].shard.Epoch()
	f.replicas[1].kill()
	if err := os.RemoveAll(f.replicas[1].dir); err != nil {
		t.Fatal(err)
	}
	f.replicas[1].start()
	if diff := cmp.Diff(before, f.agreed(f.replicas...)); diff != "" {
		t.Error(diff)
	}
	if again := f.replicas[1].shard.Epoch(); again <= epoch {
		t.Errorf("epoch %d after %d", again, epoch)
	}
}

func TestARollingRestartDisturbsNobodyElse(t *testing.T) {
	f := newFleet(t, shard.DefaultTTL)
	before := f.agreed(f.replicas...)
	for i, r := range f.replicas {
		others := append([]*replica{}, f.replicas[:i]...)
		others = append(others, f.replicas[i+1:]...)
		epochs := []uint64{others[0].shard.Epoch(), others[1].shard.Epoch()}
		began := time.Now()
		if err := r.shard.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.agreed(others...)
		t.Logf("handed over after %s", time.Since(began).Round(time.Millisecond))
		r.close()
		f.agreed(others...)
		r.start()
		if diff := cmp.Diff(before, f.agreed(f.replicas...)); diff != "" {
			t.Error(diff)
		}
		t.Logf("restarted after %s", time.Since(began).Round(time.Millisecond))
		if diff := cmp.Diff(epochs, []uint64{others[0].shard.Epoch(), others[1].shard.Epoch()}); diff != "" {
			t.Errorf("%s restarted, and another lost its lease: %s", r.name, diff)
		}
	}
}

func TestAPartitionLeavesOneOwnerAndHeals(t *testing.T) {
	partitions := map[string]func(f *fleet){
		"cut": func(f *fleet) {
			f.network.Cut("hub-0", "hub-1")
			f.network.Cut("hub-0", "hub-2")
		},
		"stalled": func(f *fleet) {
			for _, other := range []string{"hub-1", "hub-2"} {
				f.network.Stall("hub-0", other)
				f.network.Stall(other, "hub-0")
			}
		},
		"not heard": func(f *fleet) {
			f.network.Stall("hub-0", "hub-1")
			f.network.Stall("hub-0", "hub-2")
		},
		"not hearing": func(f *fleet) {
			f.network.Stall("hub-1", "hub-0")
			f.network.Stall("hub-2", "hub-0")
		},
	}
	for name, disturb := range partitions {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, short)
			before := f.agreed(f.replicas...)
			defer f.guard()()
			began := time.Now()
			disturb(f)
			f.eventually(f.replicas[0].ownsNothing)
			t.Logf("minority stood down after %.1f s", time.Since(began).Seconds())
			f.agreed(f.replicas[1], f.replicas[2])
			t.Logf("majority took over after %.1f s", time.Since(began).Seconds())
			f.network.Heal()
			began = time.Now()
			if diff := cmp.Diff(before, f.agreed(f.replicas...)); diff != "" {
				t.Error(diff)
			}
			t.Logf("healed after %.1f s", time.Since(began).Seconds())
		})
	}
}

func TestOneBrokenPathBetweenTwoLeavesOneOwner(t *testing.T) {
	f := newFleet(t, short)
	before := f.agreed(f.replicas...)
	defer f.guard()()
	f.network.Stall("hub-0", "hub-1")
	f.eventually(func() error { // two of three can always be a majority
		for _, pair := range [][]*replica{f.replicas, {f.replicas[0], f.replicas[2]}, {f.replicas[1], f.replicas[2]}} {
			if _, err := f.owners(pair...); err == nil {
				return nil
			}
		}
		return fmt.Errorf("nobody agrees")
	})
	f.network.Heal()
	if diff := cmp.Diff(before, f.agreed(f.replicas...)); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutAMajorityNobodyOwnsAnythingUntilThereIsOneAgain(t *testing.T) {
	f := newFleet(t, short)
	before := f.agreed(f.replicas...)
	defer f.guard()()
	f.replicas[0].kill()
	f.replicas[1].kill()
	f.eventually(f.replicas[2].ownsNothing)
	f.eventually(func() error {
		if owner, ok := f.replicas[2].shard.Owner(repos[0]); ok {
			return fmt.Errorf("%s still counts as owner", owner.ID)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := f.replicas[2].shard.Drain(ctx); err == nil {
		t.Error("drained, although nobody can have heard of it")
	}
	f.replicas[2].leave()
	f.replicas[2].join() // starts without a majority, and waits for one
	f.replicas[0].start()
	f.replicas[1].start()
	if diff := cmp.Diff(before, f.agreed(f.replicas...)); diff != "" {
		t.Error(diff)
	}
}

func TestOfTwoProcessesWithOneNameTheEarlierStandsDown(t *testing.T) {
	f := newFleet(t, short)
	before := f.agreed(f.replicas...)
	earlier := f.replicas[1]
	later := &replica{fleet: f, name: earlier.name, listen: earlier.listen, server: f.replicas[2].server}
	later.join()
	f.eventually(earlier.ownsNothing)
	if diff := cmp.Diff(before, f.agreed(f.replicas[0], later, f.replicas[2])); diff != "" {
		t.Error(diff)
	}
	if err := earlier.ownsNothing(); err != nil {
		t.Error(err)
	}
	if later.shard.Epoch() <= earlier.shard.Epoch() {
		t.Errorf("the later one's epoch is %d, the earlier one's %d", later.shard.Epoch(), earlier.shard.Epoch())
	}
	later.leave()
	if diff := cmp.Diff(before, f.agreed(f.replicas...)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsToldReachesAllThatListen(t *testing.T) {
	f := newFleet(t, short)
	const repo = "https://git.example.com/a b.git#*>"
	heard := make(chan string, 1000)
	for _, r := range f.replicas {
		stop, err := r.shard.Listen("hint", func(repo string) { heard <- repo })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	f.eventually(func() error { // subscriptions spread, and hints may be lost
		f.replicas[0].shard.Tell("hint", repo)
		if len(heard) < len(f.replicas) {
			return fmt.Errorf("heard by %d", len(heard))
		}
		return nil
	})
	if got := <-heard; got != repo {
		t.Errorf("heard %q", got)
	}
}
