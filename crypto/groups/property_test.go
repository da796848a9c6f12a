package groups

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"pgregory.net/rapid"
)

// TestWhoCanReadIsWhoIsListed makes groups, adds, removes and rotates at random, and then asks for everybody and every
// group whether the keys say what the lists say, for this epoch and all before it.
func TestWhoCanReadIsWhoIsListed(t *testing.T) {
	people := []string{"alice", "bob", "carol"}
	base := newWorld(t, people...)
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, files: cloneFiles(base), people: base.people, clusters: base.clusters}
		recipients := map[string][]string{} // by group, the epoch's is at epoch-1
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			w.step(rt, recipients)
		}
		set := w.set()
		for _, person := range people {
			k := set.Unlock(repository, []age.Identity{w.people[person]})
			for _, group := range set.Names() {
				listed := slices.Contains(set.GroupsOf(Member{Person, person}), group)
				if listed != slices.Contains(set.ReadersOf(group), Member{Person, person}) {
					rt.Errorf("GroupsOf and ReadersOf disagree on %s and %s", person, group)
				}
				for epoch := range len(recipients[group]) {
					id, err := k.Identity(group, epoch+1)
					if (err == nil) != listed {
						rt.Errorf("%s listed in %s: %v, opens epoch %d: %v", person, group, listed, epoch+1, err)
					}
					if err == nil && publicOf(id) != recipients[group][epoch] {
						rt.Errorf("%s got another identity of %s %d", person, group, epoch+1)
					}
				}
			}
		}
	})
}

func cloneFiles(w *world) fstest.MapFS {
	files := fstest.MapFS{}
	for name, f := range w.files {
		files[name] = f
	}
	return files
}

// step is one random change by somebody who may make it; what is refused changes nothing.
func (w *world) step(rt *rapid.T, recipients map[string][]string) {
	set := w.set()
	person := rapid.SampledFrom([]string{"alice", "bob", "carol"})
	groups := []string{"a", "b", "c", "d"}
	group := rapid.SampledFrom(groups).Draw(rt, "group")
	member := Member{Person, person.Draw(rt, "member")}
	if rapid.Bool().Draw(rt, "nested") {
		member = Member{Subgroup, rapid.SampledFrom(groups).Draw(rt, "member group")}
	}
	var changes Changes
	var err error
	rotated := []string{group}
	readers := set.ReadersOf(group)
	switch action := rapid.SampledFrom([]string{"add", "add", "remove", "rotate"}).Draw(rt, "action"); {
	case len(readers) == 0:
		changes, err = set.Create(repository, group, []Member{{Person, person.Draw(rt, "first")}}, CreateOptions{})
	case action == "add":
		rotated = nil
		changes, err = set.Add(repository, w.ring(readers[0].Name), group, member, nil)
	default:
		var remove []Member
		if action == "remove" {
			remove = []Member{member}
		}
		for _, by := range readers {
			changes, rotated, err = set.Rotate(repository, w.ring(by.Name), []string{group}, remove, nil)
			if err == nil {
				break
			}
		}
	}
	if err != nil {
		return
	}
	w.apply(changes, nil)
	for _, name := range rotated {
		recipients[name] = append(recipients[name], w.recipient(name))
		if g, _ := w.set().Group(name); g.Epoch != len(recipients[name]) {
			rt.Fatal(fmt.Sprint("epoch ", g.Epoch, " after ", len(recipients[name]), " identities of ", name))
		}
	}
}
