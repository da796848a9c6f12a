package shard

import (
	"fmt"
	"testing"
	"time"
)

const ttl = 12 * time.Second

// of is a view of live members.
func of(ids ...string) *view {
	v := &view{members: make(map[string]sighting)}
	for _, id := range ids {
		v.members[id] = sighting{record: record{Member: Member{ID: id}, Term: "term of " + id}, live: true}
	}
	return v
}

func TestOnlyRepositoriesOfWhoComesOrGoesMove(t *testing.T) {
	const repositories = 10_000
	for n := 1; n < 8; n++ {
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprintf("hub-%d", i))
		}
		few, more := of(ids...), of(append(ids, "newcomer")...)
		moved := 0
		for i := range repositories {
			repo := fmt.Sprintf("https://git.example.com/%d", i)
			before, _ := few.owner(repo)
			after, _ := more.owner(repo)
			if after == before {
				continue
			}
			if moved++; after.ID != "newcomer" {
				t.Fatalf("%s moved from %s to %s when another joined", repo, before.ID, after.ID)
			}
		}
		if fair := repositories / (n + 1); moved < fair*9/10 || moved > fair*11/10 {
			t.Errorf("the newcomer beside %d took %d of %d, a fair part is %d", n, moved, repositories, fair)
		}
	}
}

func TestADrainingMemberOwnsNothing(t *testing.T) {
	v := of("hub-0", "hub-1")
	draining := v.members["hub-1"]
	draining.Draining = true
	v.members["hub-1"] = draining
	for i := range 100 {
		if owner, ok := v.owner(fmt.Sprint(i)); !ok || owner.ID != "hub-0" {
			t.Fatalf("%d is owned by %q", i, owner.ID)
		}
	}
}

func TestAMemberIsGoneWhenALookBeganALeaseAfterItsLastRenewal(t *testing.T) {
	start := time.Now()
	v := new(view)
	look := func(at time.Duration, revision uint64) bool {
		v.look(start.Add(at), start.Add(at+time.Millisecond), map[string]sighting{"hub-1": {revision: revision}}, ttl)
		return v.members["hub-1"].live
	}
	for _, step := range []struct {
		at       time.Duration
		revision uint64
		live     bool
	}{
		{0, 5, true},
		{4 * time.Second, 6, true},
		{16 * time.Second, 6, true},
		{16*time.Second + time.Millisecond, 6, false},
		{20 * time.Second, 6, false},
		{21 * time.Second, 7, true},
	} {
		if live := look(step.at, step.revision); live != step.live {
			t.Errorf("at %s, revision %d: live is %t", step.at, step.revision, live)
		}
	}
}

func TestAMemberWhoseLeaseWasLostCountsUntilItRanOut(t *testing.T) {
	start := time.Now()
	v := new(view)
	v.look(start, start, map[string]sighting{"hub-1": {revision: 5}}, ttl)
	v.look(start.Add(ttl-1), start.Add(ttl), map[string]sighting{}, ttl)
	if !v.members["hub-1"].live {
		t.Error("gone too soon")
	}
	v.look(start.Add(ttl), start.Add(ttl), map[string]sighting{}, ttl)
	if _, ok := v.members["hub-1"]; ok {
		t.Error("not gone")
	}
}

func TestANewcomerWaitsUntilAllWhoOwnSomethingKnowIt(t *testing.T) {
	v := of("hub-0", "hub-1", "hub-2")
	const term = "term of hub-0"
	if v.known("hub-0", term) {
		t.Error("known to nobody, yet settled")
	}
	for _, id := range []string{"hub-1", "hub-2"} {
		m := v.members[id]
		m.Knows = map[string]string{"hub-0": term}
		v.members[id] = m
	}
	if !v.known("hub-0", term) {
		t.Error("known to all, yet not settled")
	}
	if v.known("hub-0", "another term") {
		t.Error("settled in a term that nobody knows")
	}
}
