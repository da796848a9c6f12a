package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"
	"time"
)

// follower fills a mirror from another one, as a replica does: pack by pack, the newest first, until nothing is missing.
type follower struct {
	owner  *Mirror
	copied int
	// meanwhile runs between the manifest and the first pack.
	meanwhile func()
}

func (f *follower) Traffic() Traffic { return Traffic{} }

func (f *follower) Fetch(ctx context.Context, refs []string, into Receiver) (Answer, error) {
	manifest := f.owner.Manifest()
	if f.meanwhile != nil {
		f.meanwhile()
	}
	answer := Answer{Tips: map[string]Tip{}, Fetched: manifest.Fetched}
	kept := slices.Clone(manifest.Before)
	for tip := range maps.Values(manifest.Tips) {
		kept = append(kept, tip.Commit)
	}
	for _, ref := range refs {
		tip, ok := manifest.Tips[ref]
		if !ok && slices.Contains(kept, ref) {
			tip, ok = Tip{ID: ref, Commit: ref, Revision: ref}, true
		}
		if !ok {
			answer.Problems = append(answer.Problems, &RefError{Ref: ref, Err: errors.New("the owner does not have it")})
			continue
		}
		answer.Tips[ref] = tip
	}
	if err := into.LeaveOut(manifest.LeftOut, manifest.MaxFile); err != nil {
		return answer, err
	}
	for _, p := range manifest.Packs {
		if f.complete(answer, into) {
			break
		}
		if into.HasPack(p.Name) {
			continue
		}
		if err := f.copy(ctx, p.Name, into); err != nil {
			return answer, err
		}
	}
	return answer, nil
}

func (f *follower) complete(answer Answer, into Receiver) bool {
	for tip := range maps.Values(answer.Tips) {
		if !into.Complete(tip.Commit) {
			return false
		}
	}
	return true
}

func (f *follower) copy(ctx context.Context, name string, into Receiver) error {
	pack, err := f.owner.OpenPack(name)
	if err != nil {
		return err
	}
	defer pack.Close()
	f.copied++
	return into.Pack(ctx, pack)
}

func TestAFollowerKeepsUpWhileTheOwnerCompacts(t *testing.T) {
	c := charts{}
	owner, m := openMirror(t, t.TempDir()), openMirror(t, t.TempDir())
	f := &follower{owner: owner}
	const rounds = maxPacks + 8
	compactions, generation := 0, ""
	for i := range rounds {
		c.put("main", "a", fmt.Sprint(i))
		fetch(t, owner, c, "main")
		if owner.state.Generation != generation {
			compactions, generation = compactions+1, owner.state.Generation
		}
		if changed := fetch(t, m, f, "main"); !slices.Equal(changed, []string{"main"}) || m.Tips()["main"] != owner.Tips()["main"] {
			t.Fatalf("after %d changes the follower has %v, the owner %v", i, m.Tips(), owner.Tips())
		}
		if got := content(t, m, "main", "a"); got != fmt.Sprint(i) || !m.Fetched().Equal(owner.Fetched()) {
			t.Fatalf("content = %q, fetched %v", got, m.Fetched())
		}
	}
	if compactions < 2 || f.copied > rounds {
		t.Errorf("%d generations of the owner, %d packs copied for %d changes", compactions, f.copied, rounds)
	}
	copied := f.copied
	fetch(t, m, f, "main")
	if f.copied != copied {
		t.Error("packs were copied where nothing changed")
	}
}

func TestANewFollowerOfAnOwnerWithHistoryTakesWhatItNeeds(t *testing.T) {
	c := charts{}
	owner := openMirror(t, t.TempDir())
	for i := range 10 {
		c.put("main", "a", fmt.Sprint("replaced", i))
		c.put("main", fmt.Sprint("kept", i/5), fmt.Sprint(i))
		fetch(t, owner, c, "main")
	}
	first := owner.Manifest().Before[0]
	m, f := openMirror(t, t.TempDir()), &follower{owner: owner}
	fetch(t, m, f, "main", first)
	if got, want := content(t, m, "main", "kept0"), content(t, owner, "main", "kept0"); got != want {
		t.Errorf("content = %q, want %q", got, want)
	}
	if got, want := content(t, m, first, "a"), content(t, owner, first, "a"); got != want {
		t.Errorf("content = %q, want %q", got, want)
	}
}

func TestAFollowerWithLeftoversIsNotConfused(t *testing.T) {
	c := charts{}
	owner, m := openMirror(t, t.TempDir()), openMirror(t, t.TempDir())
	other := charts{}
	for i := range 3 {
		other.put("other", "b", fmt.Sprint("from when this replica owned it", i))
		fetch(t, m, other, "other")
	}
	c.put("main", "a", "1")
	fetch(t, owner, c, "main")
	_, err := m.Fetch(t.Context(), &follower{owner: owner}, []string{"main", "other"})
	var gone *RefError
	if !errors.As(err, &gone) || gone.Ref != "other" {
		t.Errorf("Fetch: %v", err)
	}
	if got := content(t, m, "main", "a") + content(t, m, "other", "b"); got != "1from when this replica owned it2" {
		t.Errorf("content = %q", got)
	}
}

func TestAPackThatVanishesBeforeItIsOpenedIsTriedAgainByTheNextFetch(t *testing.T) {
	c := charts{}
	owner, m := openMirror(t, t.TempDir()), openMirror(t, t.TempDir())
	c.put("main", "a", "1")
	fetch(t, owner, c, "main")
	f := &follower{owner: owner}
	fetch(t, m, f, "main")
	c.put("main", "a", "2")
	fetch(t, owner, c, "main")
	f.meanwhile = func() { must(t, owner.compact(t.Context())) }
	if _, err := m.Fetch(t.Context(), f, []string{"main"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Fetch: %v", err)
	}
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
	f.meanwhile = nil
	fetch(t, m, f, "main")
	if got := content(t, m, "main", "a"); got != "2" {
		t.Errorf("content = %q", got)
	}
}

func TestAPackThatIsOpenOutlivesItsGeneration(t *testing.T) {
	c := charts{}
	owner, m := openMirror(t, t.TempDir()), openMirror(t, t.TempDir())
	c.put("main", "a", "1")
	fetch(t, owner, c, "main")
	pack, err := owner.OpenPack(owner.Manifest().Packs[0].Name)
	must(t, err)
	defer pack.Close()
	must(t, owner.compact(t.Context()))
	r, err := m.receiver(t.Context())
	must(t, err)
	must(t, r.Pack(t.Context(), pack))
	if !r.Complete(owner.Tips()["main"].Commit) {
		t.Error("the commit is not complete")
	}
}

func TestAFollowersDamageIsRepairedFromTheOwner(t *testing.T) {
	c := charts{}
	owner, m := openMirror(t, t.TempDir()), openMirror(t, t.TempDir())
	c.put("main", "a", "1")
	fetch(t, owner, c, "main")
	f := &follower{owner: owner}
	fetch(t, m, f, "main")
	must(t, os.RemoveAll(m.dir))
	fetch(t, m, f, "main")
	if got := content(t, openMirror(t, m.dir), "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
}

func TestNothingButPacksIsOpenedByName(t *testing.T) {
	m := openMirror(t, t.TempDir())
	for _, name := range []string{"", "state.json", "../../../state.json", "pack-1.pack", "/etc/passwd", "pack-../../../../../../../../../../etc/pass.pack"} {
		if f, err := m.OpenPack(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("OpenPack(%q) = %v, %v", name, f, err)
		}
	}
}

func TestReadersAreNotDisturbedByFetchesAndCompactions(t *testing.T) {
	c := charts{}
	c.put("main", "a", "same")
	m := openMirror(t, t.TempDir())
	fetch(t, m, c, "main")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	failed := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := readSame(m); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	for i := range 8 {
		c.put("main", "b", fmt.Sprint(i))
		fetch(t, m, c, "main")
		must(t, m.compact(t.Context()))
	}
	cancel()
	must(t, <-failed)
}

func readSame(m *Mirror) error {
	s, err := m.Snapshot("main")
	if err != nil {
		return err
	}
	f, err := s.FS().Open("a")
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err == nil && string(data) != "same" {
		err = fmt.Errorf("read %q", data)
	}
	return errors.Join(err, f.Close())
}
