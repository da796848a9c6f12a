package mirror

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// fill makes content that does not compress, the same for the same seed.
func fill(b []byte, seed uint64) {
	_, _ = rand.NewChaCha8([32]byte(binary.BigEndian.AppendUint64(make([]byte, 24), seed))).Read(b)
}

func newStore(t testing.TB) *store {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(packDir(dir), 0o755))
	s, err := openStore(dir, 0)
	must(t, err)
	t.Cleanup(s.close)
	return s
}

// take has a store receive a pack.
func take(t testing.TB, s *store, from io.Reader) error {
	_, err := s.receive(t.Context(), from)
	return err
}

func TestAPackReadsAsGitReadsIt(t *testing.T) {
	r := newRepo(t)
	for i := range 20 {
		lines := make([]byte, 4000)
		fill(lines, 7)
		r.write("grows", fmt.Sprintf("%x\n%d", lines, i))
		r.commit(fmt.Sprint("dir/", i%7, "/", i), strings.Repeat(fmt.Sprintln("line", i%3), 300))
	}
	r.git("tag", "-a", "v1", "-m", "one")
	ids := strings.Fields(r.git("rev-list", "--objects", "--no-object-names", "--all"))
	sizes := strings.Fields(r.run(strings.Join(ids, "\n")+"\n", "cat-file", "--batch-check=%(objectsize)"))
	for name, args := range map[string][]string{
		"offsets": {"--delta-base-offset", "--depth=50", "--window=50"}, "ids": {"--depth=50", "--window=50"}, "no deltas": {"--window=0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			pack := r.packOf(ids, args...)
			must(t, take(t, s, bytes.NewReader(pack)))
			for i, id := range ids {
				want, hash := sizes[i], plumbing.NewHash(id)
				size, err := s.Size(hash)
				must(t, err)
				kind, body, err := s.Read(hash)
				if err != nil || plumbing.ComputeHash(kind, body) != hash || fmt.Sprint(len(body)) != want || fmt.Sprint(size) != want {
					t.Errorf("%s is a %s of %d bytes, size %d, %v; want %s bytes", id, kind, len(body), size, err, want)
				}
			}
			file := filepath.Join(s.dir, (*s.packs.Load())[0].name)
			r.git("verify-pack", file)
			must(t, os.Rename(indexName(file), file+".ours"))
			r.git("index-pack", file)
			ours, theirs := read(t, file+".ours"), read(t, indexName(file))
			if !bytes.Equal(ours, theirs) {
				t.Errorf("the index differs from git's")
			}
		})
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return data
}

// sealed completes a pack with its checksum.
func sealed(objects int, body ...[]byte) []byte {
	pack := append(packHeader(objects), slices.Concat(body...)...)
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

func object(kind plumbing.ObjectType, body []byte) []byte {
	return append(objectHeader(kind, len(body)), deflated(body)...)
}

var deflate = zlib.NewWriter(io.Discard) // making one takes long

func deflated(body []byte) []byte {
	var out bytes.Buffer
	deflate.Reset(&out)
	_, _ = deflate.Write(body)
	_ = deflate.Close()
	return out.Bytes()
}

func refDelta(base plumbing.Hash, delta []byte) []byte {
	return slices.Concat(objectHeader(plumbing.REFDeltaObject, len(delta)), base[:], deflated(delta))
}

// delta copies nothing and writes its result anew.
func delta(base, result int, literal []byte) []byte {
	d := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(base)), uint64(result))
	for part := range slices.Chunk(literal, 127) {
		d = append(append(d, byte(len(part))), part...)
	}
	return d
}

func TestPacksThatLieAreRefusedWithoutATrace(t *testing.T) {
	blob := object(plumbing.BlobObject, []byte("hello"))
	id := plumbing.ComputeHash(plumbing.BlobObject, []byte("hello"))
	good := sealed(1, blob)
	cycleA, cycleB := plumbing.NewHash(strings.Repeat("a", 40)), plumbing.NewHash(strings.Repeat("b", 40))
	packs := map[string][]byte{
		"empty":                  nil,
		"not a pack":             sealed(0)[4:],
		"html":                   []byte("<html><body>Please log in to the captive portal first</body></html>"),
		"truncated":              good[:len(good)-3],
		"changed":                append(append(slices.Clone(good[:14]), good[14]^1), good[15:]...),
		"absurd count":           sealed(0xfffffff0),
		"count too small":        sealed(0, blob),
		"count too large":        sealed(2, blob),
		"garbage at the end":     sealed(1, blob, []byte("xxxxxxxxxxxxxxxxxxxxxxxxxxxx")),
		"unknown kind":           sealed(1, object(plumbing.ObjectType(5), []byte("hello"))),
		"size too small":         sealed(1, objectHeader(plumbing.BlobObject, 4), deflated([]byte("hello"))),
		"size too large":         sealed(1, objectHeader(plumbing.BlobObject, 6), deflated([]byte("hello"))),
		"huge size":              sealed(1, objectHeader(plumbing.BlobObject, 1<<40), deflated([]byte("hello"))),
		"delta of another pack":  sealed(1, refDelta(cycleA, delta(5, 3, []byte("abc")))),
		"delta of itself":        sealed(2, refDelta(cycleA, delta(5, 3, []byte("abc"))), refDelta(cycleB, delta(5, 3, []byte("abd")))),
		"delta grows to 2^40":    sealed(2, blob, refDelta(id, delta(5, 1<<40, []byte("abc")))),
		"delta of another size":  sealed(2, blob, refDelta(id, delta(9, 3, []byte("abc")))),
		"delta ends early":       sealed(2, blob, refDelta(id, delta(5, 9, []byte("abc")))),
		"delta of nothing":       sealed(2, blob, refDelta(id, nil)),
		"delta points before it": sealed(1, []byte{byte(plumbing.OFSDeltaObject)<<4 | 3, 0x7f}, deflated([]byte("abc"))),
	}
	for name, pack := range packs {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			if err := take(t, s, bytes.NewReader(pack)); err == nil {
				t.Error("taken in")
			} else if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < 0x20 }) {
				t.Errorf("error %q", err)
			}
			if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	must(t, take(t, newStore(t), bytes.NewReader(good)))
}

// chain is a pack of deltas on each other, the last one first: whoever follows them recursively holds them all.
func chain(depth, size int) []byte {
	body := make([]byte, size)
	base := slices.Clone(body)
	base[0] = 1
	list := [][]byte{object(plumbing.BlobObject, base)}
	for i := range depth {
		next := slices.Clone(body)
		binary.BigEndian.PutUint32(next[1:], uint32(i+1))
		list = append(list, refDelta(plumbing.ComputeHash(plumbing.BlobObject, base), delta(size, size, next)))
		base = next
	}
	slices.Reverse(list)
	return sealed(len(list), list...)
}

func TestAChainOfHugeDeltasTakesLittleMemory(t *testing.T) {
	pack := chain(8, 8<<20)
	s := newStore(t)
	peak := watch(t, func() { must(t, take(t, s, bytes.NewReader(pack))) })
	if peak > 40<<20 { // a body, the one made of it, and what is not collected yet
		t.Errorf("receiving took %d MiB", peak>>20)
	}
}

func TestManySmallObjectsTakeLittleMemory(t *testing.T) {
	const count = 10_000
	from := newStore(t)
	w := newPackWriter(from, 0)
	for i := range count {
		body := fmt.Appendf(nil, "small object %d", i)
		must(t, w.add(plumbing.BlobObject, plumbing.ComputeHash(plumbing.BlobObject, body), body))
	}
	must(t, w.finish())
	p, to := (*from.packs.Load())[0], newStore(t)
	peak := watch(t, func() { must(t, take(t, to, io.NewSectionReader(p.file, 0, p.size))) })
	if peak/count > 1000 {
		t.Errorf("receiving took %d bytes an object", peak/count)
	}
}

func TestAChainOfTooManyDeltasIsRefused(t *testing.T) {
	var limit *snapshot.LimitError
	if err := take(t, newStore(t), bytes.NewReader(chain(maxChain+5, 16))); !errors.As(err, &limit) {
		t.Errorf("receive: %v, want a LimitError", err)
	}
	must(t, take(t, newStore(t), bytes.NewReader(chain(maxChain-5, 16))))
}

// watch gives how much the live heap grew at most while something ran.
func watch(t testing.TB, run func()) (peak int64) {
	t.Helper()
	var stats runtime.MemStats
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // garbage does not count
	runtime.GC()
	runtime.ReadMemStats(&stats)
	start := int64(stats.HeapAlloc)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				runtime.ReadMemStats(&stats)
				peak = max(peak, int64(stats.HeapAlloc)-start)
			}
		}
	}()
	run()
	close(done)
	<-ended
	return peak
}

// zeros writes a file of so many zero bytes and commits it.
func (r *repo) zeros(name string, size int64) {
	r.t.Helper()
	file, err := os.Create(filepath.Join(r.dir, name))
	must(r.t, err)
	must(r.t, errors.Join(file.Truncate(size), file.Close()))
	r.git("-c", "core.bigFileThreshold=1m", "add", name)
	r.git("commit", "-q", "-m", name)
}

func TestAHugeFileIsLeftOutWithoutTakingMemory(t *testing.T) {
	o := newOrigin(t)
	o.commit("ok", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	o.zeros("zero", snapshot.MaxBlob+1)
	o.write("ok", "2")
	o.git("commit", "-q", "-a", "-m", "2")
	var err error
	peak := watch(t, func() { _, err = m.Fetch(t.Context(), o, []string{"main"}) })
	must(t, err)
	if peak > 32<<20 {
		t.Errorf("took %d MiB", peak>>20)
	}
	if got := content(t, m, "main", "ok"); got != "2" {
		t.Errorf("content = %q", got)
	}
	wantLeftOut(t, m, "main", "zero", snapshot.MaxBlob+1)
	fetch(t, openMirror(t, m.dir), o, "main")
}

// wantLeftOut wants a file of a ref to be told as too large by all who ask.
func wantLeftOut(t *testing.T, m *Mirror, ref, name string, size int64) {
	t.Helper()
	snap, err := m.Snapshot(ref)
	must(t, err)
	id, _, err := snap.Hash(name)
	must(t, err)
	_, read := fs.ReadFile(snap.FS(), name)
	for _, err := range []error{snap.TooLarge(id), read} {
		if limit := new(snapshot.LimitError); !errors.As(err, &limit) || limit.Size != size || limit.Max != m.maxFile {
			t.Errorf("%s: %v, want a LimitError of %d", name, err, size)
		}
	}
}

func TestAFileThatIsMadeOfAHugeOneIsLeftOutToo(t *testing.T) {
	o := newOrigin(t)
	noise := make([]byte, 3<<20)
	fill(noise, 1)
	o.write("one", string(noise))
	o.commit("two", string(noise[:2<<20])+"x"+string(noise[2<<20:]))
	pack := o.packOf(o.objects([]string{o.git("rev-parse", "HEAD")}), "--delta-base-offset", "--window=50")
	m, err := OpenLimited(t.TempDir(), 1<<20)
	must(t, err)
	if len(pack) > 4<<20 {
		t.Fatalf("the pack has %d bytes: no file in it is made of the other", len(pack))
	}
	fetch(t, m, o, "main")
	for _, name := range []string{"one", "two"} {
		snap, err := m.Snapshot("main")
		must(t, err)
		id, _, err := snap.Hash(name)
		must(t, err)
		if limit := new(snapshot.LimitError); !errors.As(snap.TooLarge(id), &limit) {
			t.Errorf("%s: %v, want a LimitError", name, snap.TooLarge(id))
		}
	}
}

func TestWhatIsLeftOutStaysSoOverCompactionDamageAndRestart(t *testing.T) {
	o := newOrigin(t)
	o.zeros("zero", snapshot.MaxBlob+1)
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	must(t, m.compact(t.Context()))
	wantLeftOut(t, m, "main", "zero", snapshot.MaxBlob+1)
	m = openMirror(t, m.dir)
	m.suspect.Store(true) // somebody missed something
	o.commit("a", "1")
	fetch(t, m, o, "main")
	wantLeftOut(t, m, "main", "zero", snapshot.MaxBlob+1)
	follows := openMirror(t, t.TempDir())
	fetch(t, follows, &follower{owner: m}, "main")
	wantLeftOut(t, follows, "main", "zero", snapshot.MaxBlob+1)
	if m.damaged.Load() {
		t.Error("it counts as damage")
	}
}

func TestAnotherLimitBringsWhatWasLeftOut(t *testing.T) {
	o := newOrigin(t)
	o.commit("large", strings.Repeat("x", 2<<20))
	for _, most := range []int64{1 << 20, 3 << 20} {
		dir := t.TempDir()
		m, err := OpenLimited(dir, 4<<20-most)
		must(t, err)
		fetch(t, m, o, "main")
		m, err = OpenLimited(dir, most)
		must(t, err)
		fetch(t, m, o, "main")
		if most < 2<<20 {
			wantLeftOut(t, m, "main", "large", 2<<20)
		} else if got := content(t, m, "main", "large"); len(got) != 2<<20 {
			t.Errorf("%d bytes", len(got))
		}
	}
}

func TestTreeBombTakesTimeByItsObjectsNotItsFiles(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	ids := []string{o.git("rev-parse", "HEAD:a")}
	tree := o.rawTree(treeLine(t, "100644", "a", ids[0]))
	for range 10 {
		ids = append(ids, tree)
		var body strings.Builder
		for i := range 10 {
			body.WriteString(treeLine(t, "40000", fmt.Sprint(i), tree))
		}
		tree = o.rawTree(body.String())
	}
	commit := o.git("commit-tree", "-m", "bomb", tree)
	o.git("update-ref", "refs/heads/main", commit)
	o.instead = func() []byte { return o.packOf(append(ids, tree, commit)) }
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	if got := content(t, m, "main", "1/2/3/4/5/6/7/8/9/0/a"); got != "1" {
		t.Errorf("content = %q", got)
	}
}

// endless is a source that never ends and never fails.
type endless struct{ cancel context.CancelFunc }

func (e endless) Read(p []byte) (int, error) {
	e.cancel()
	return copy(p, "PACK"), nil
}

func TestReceivingStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := openMirror(t, t.TempDir())
	r, err := m.receiver(ctx)
	must(t, err)
	if err := r.Pack(ctx, endless{cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("Pack: %v", err)
	}
}

func TestACompactedMirrorOfManyBytesIsSplitIntoPacksThatCanBeReceived(t *testing.T) {
	s, to := newStore(t), newStore(t)
	w := newPackWriter(s, 100<<10)
	var ids []plumbing.Hash
	for i := range 10 {
		body := make([]byte, 50<<10)
		fill(body, uint64(i))
		id := plumbing.ComputeHash(plumbing.BlobObject, body)
		must(t, w.add(plumbing.BlobObject, id, body))
		ids = append(ids, id)
	}
	must(t, w.finish())
	if n := len(*s.packs.Load()); n != 5 {
		t.Errorf("%d packs", n)
	}
	for _, p := range *s.packs.Load() {
		must(t, take(t, to, io.NewSectionReader(p.file, 0, p.size)))
	}
	for _, id := range ids {
		if kind, body, err := to.Read(id); err != nil || plumbing.ComputeHash(kind, body) != id {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func FuzzReceive(f *testing.F) {
	blob := object(plumbing.BlobObject, []byte("hello"))
	id := plumbing.ComputeHash(plumbing.BlobObject, []byte("hello"))
	f.Add([]byte("\x00\x00\x00\x01"), blob)
	f.Add([]byte("\x00\x00\x00\x02"), append(blob, refDelta(id, delta(5, 3, []byte("abc")))...))
	f.Add([]byte("\x00\x00\x00\x03"), chain(2, 40)[12:])
	f.Fuzz(func(t *testing.T, count, body []byte) {
		pack := append([]byte("PACK\x00\x00\x00\x02"), append(count, body...)...)
		sum := sha1.Sum(pack)
		s := newStore(t)
		if err := take(t, s, bytes.NewReader(append(pack, sum[:]...))); err != nil {
			return
		}
		for _, p := range *s.packs.Load() {
			for i := range p.index.n {
				id := plumbing.Hash(p.index.ids[i*sumSize : (i+1)*sumSize])
				kind, body, err := s.Read(id)
				if err != nil || plumbing.ComputeHash(kind, body) != id {
					t.Fatalf("object %s of a pack that was taken in reads as %s, %v", id, kind, err)
				}
				if size, err := s.Size(id); err != nil || size != int64(len(body)) {
					t.Fatalf("object %s: size %d, %v; has %d bytes", id, size, err, len(body))
				}
			}
		}
	})
}

func FuzzIndex(f *testing.F) {
	var out bytes.Buffer
	sum := make([]byte, sumSize)
	must(f, encodeIndex(&out, []entry{{id: plumbing.ComputeHash(plumbing.BlobObject, nil), at: 12}}, sum))
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= sumSize { // so that more than the checksum is tried
			own := sha1.Sum(data[:len(data)-sumSize])
			data = append(data[:len(data)-sumSize:len(data)-sumSize], own[:]...)
		}
		x, err := parseIndex(data, sum)
		if err != nil {
			return
		}
		for i := range 256 {
			x.find(plumbing.Hash{byte(i)})
		}
	})
}
