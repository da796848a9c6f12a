package gitsource

import (
	"compress/zlib"
	"crypto/sha1"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// looseNoise puts a blob that nothing compresses among a repository's objects, as git itself would.
func looseNoise(t *testing.T, r *repo, random *rand.ChaCha8, size int) string {
	t.Helper()
	body := make([]byte, size)
	_, _ = random.Read(body)
	head := fmt.Sprintf("blob %d\x00", size)
	sum := sha1.New()
	_, _ = io.WriteString(sum, head)
	_, _ = sum.Write(body)
	id := fmt.Sprintf("%x", sum.Sum(nil))
	name := filepath.Join(r.dir, ".git", "objects", id[:2], id[2:])
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	z, err := zlib.NewWriterLevel(f, zlib.NoCompression)
	must(t, err)
	_, err = io.WriteString(z, head)
	must(t, err)
	_, err = z.Write(body)
	must(t, err)
	must(t, z.Close())
	return id
}

func TestARepositoryOfAGibibyteCostsWhatItsTipDoes(t *testing.T) {
	var disk syscall.Statfs_t
	must(t, syscall.Statfs(os.TempDir(), &disk))
	if free := disk.Bavail * uint64(disk.Bsize); testing.Short() || free < 4<<30 {
		t.Skipf("writes 1 GiB; %d MiB are free", free>>20)
	}
	r := newRepo(t)
	random := rand.NewChaCha8([32]byte{})
	var stream strings.Builder
	for i := range 16 {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nx\nM 644 %s noise\n", 1700000000+i,
			looseNoise(t, r, random, 64<<20))
	}
	stream.WriteString("commit refs/heads/main\ncommitter A <a@b> 1700000100 +0000\ndata 1\nx\nD noise\nM 644 inline a\ndata 1\n1\n")
	r.run(stream.String(), "fast-import", "--quiet")
	r.git("reset", "-q", "--hard")
	runtime.GC()
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	dir := t.TempDir()
	m := followInto(t, r.serve().options(), dir)
	m.fetch("main")
	r.commit("a", "2")
	m.fetch("main")
	runtime.ReadMemStats(&end)
	m.want("main", "a", "2")
	grown, traffic, disked := int64(end.HeapSys)-int64(start.HeapSys), m.src.Traffic(), size(t, dir)
	if grown > 64<<20 || traffic.Bytes > 1<<20 || disked > 1<<20 {
		t.Errorf("the heap grew by %d bytes, %d came, %d are on disk", grown, traffic.Bytes, disked)
	}
	t.Logf("the heap grew by %d KiB, %d requests, %d bytes came, %d are on disk", grown>>10, traffic.Requests, traffic.Bytes, disked)
}

// size is how many bytes the files of a folder have.
func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		sum += info.Size()
		return err
	}))
	return sum
}
