package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/pluralsh/plural/test/support/needs"
)

func pack(t testing.TB, fsys fs.FS, inputs ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Pack(&out, fsys, inputs, Limits{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpack(t testing.TB, data []byte) *Files {
	t.Helper()
	files, err := Unpack(bytes.NewReader(data), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func sample() fstest.MapFS {
	return fstest.MapFS{
		"apps/web/deploy.yaml": {Data: []byte("kind: Deployment\n"), Mode: 0o644},
		"apps/web/run.sh":      {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
		"apps/web-2/a":         {Data: []byte("a"), Mode: 0o644},
		"apps/web.yaml":        {Data: []byte("sorts between"), Mode: 0o644},
		"base/größe.yaml":      {Data: []byte("non-ASCII name"), Mode: 0o644},
		"base/" + strings.Repeat("long/", 30) + "x": {Data: []byte("deep"), Mode: 0o644},
		"base/" + strings.Repeat("x", 250):          {Data: []byte("long name"), Mode: 0o644},
		"values.yaml":                               {Data: []byte("values"), Mode: 0o755},
		"elsewhere/secret":                          {Data: []byte("not an input"), Mode: 0o644},
	}
}

func TestPackedFilesComeBack(t *testing.T) {
	files := unpack(t, pack(t, sample(), "base", "apps", "apps/web/run.sh", "values.yaml"))
	got := map[string]uint32{}
	for _, e := range files.Entries() {
		got[e.Path] = e.Mode
		data, err := fs.ReadFile(files, e.Path)
		if err != nil || !bytes.Equal(data, sample()[e.Path].Data) || int64(len(data)) != e.Size {
			t.Errorf("%s = %q, %v", e.Path, data, err)
		}
	}
	want := map[string]uint32{
		"apps/web/deploy.yaml": 0o100644, "apps/web/run.sh": 0o100755, "apps/web-2/a": 0o100644, "apps/web.yaml": 0o100644,
		"base/" + strings.Repeat("long/", 30) + "x": 0o100644,
		"base/größe.yaml":                           0o100644, "base/" + strings.Repeat("x", 250): 0o100644, "values.yaml": 0o100644,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := fstest.TestFS(files, "apps/web/deploy.yaml"); err != nil {
		t.Error(err)
	}
}

func TestPackIsAFunctionOfContentAlone(t *testing.T) {
	first := pack(t, sample(), "apps", "base", "values.yaml")
	touched := sample()
	for _, f := range touched {
		f.ModTime = f.ModTime.AddDate(1, 0, 0)
	}
	delete(touched, "elsewhere/secret")
	if again := pack(t, touched, "values.yaml", "base", "apps/web", "apps"); !bytes.Equal(first, again) {
		t.Error("the same content gave other bytes")
	}
}

func TestKeyIsThatOfTheGitTrees(t *testing.T) {
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	for name, f := range sample() {
		if f.Mode.IsDir() {
			continue
		}
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, f.Data, f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	git("add", "-A")
	git("commit", "-q", "-m", "all")
	inputs := []string{"values.yaml", "apps/web", "base", "apps", "apps/web/run.sh"}
	var list []Input
	for _, in := range inputs {
		list = append(list, Input{Path: in, Hash: git("rev-parse", "HEAD:"+in), Dir: in != "values.yaml" && !strings.HasSuffix(in, ".sh")})
	}
	got, err := unpack(t, pack(t, os.DirFS(dir), inputs...)).Key(inputs)
	if want := Key(list); err != nil || got != want || !ValidKey(got) {
		t.Errorf("key = %s, %v; want %s", got, err, want)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
}

func TestKeyTellsEveryDifference(t *testing.T) {
	base := []Input{{"a", "1", true}, {"b", "2", false}}
	if Key(base) != Key([]Input{base[1], base[0], base[0]}) {
		t.Error("order or repetition changed the key")
	}
	for _, other := range [][]Input{{{"a", "1", true}}, {{"a", "2", true}, {"b", "1", false}}, {{"a", "1", false}, {"b", "2", false}}, {{"a", "1", true}, {"c", "2", false}}, nil} {
		if Key(base) == Key(other) {
			t.Errorf("%v has the same key", other)
		}
	}
}

func TestChangedOrStrayFilesDoNotPassAsTheKey(t *testing.T) {
	files := func(contents map[string][]byte) *Files {
		f, err := NewFiles(contents)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	want, err := files(map[string][]byte{"a/x": []byte("1")}).Key([]string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := files(map[string][]byte{"a/x": []byte("2")}).Key([]string{"a"}); got == want {
		t.Error("changed content has the same key")
	}
	var stray *EntryError
	if _, err := files(map[string][]byte{"a/x": []byte("1"), "b/y": nil}).Key([]string{"a"}); !errors.As(err, &stray) || stray.Path != "b/y" {
		t.Errorf("stray file: %v", err)
	}
	if _, err := files(map[string][]byte{"a/x": nil}).Key([]string{"a", "b"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing input: %v", err)
	}
}

func TestEmptyFoldersKeepTheirPlaceInTheKey(t *testing.T) {
	fsys := fstest.MapFS{"a/x": {Data: []byte("1")}, "a/empty": {Mode: fs.ModeDir | 0o755}}
	with, err := unpack(t, pack(t, fsys, "a")).Key([]string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	delete(fsys, "a/empty")
	if without, _ := unpack(t, pack(t, fsys, "a")).Key([]string{"a"}); with == without {
		t.Error("an empty folder made no difference")
	}
}

func TestPackRefusesWhatIsNoRegularFile(t *testing.T) {
	for _, mode := range []fs.FileMode{fs.ModeSymlink, fs.ModeIrregular, fs.ModeNamedPipe, fs.ModeDevice} {
		err := Pack(&bytes.Buffer{}, fstest.MapFS{"a/x": {Mode: mode}}, []string{"a"}, Limits{})
		var refused *EntryError
		if !errors.As(err, &refused) || refused.Path != "a/x" {
			t.Errorf("%v: %v", mode, err)
		}
	}
	for _, in := range []string{"missing", "a/missing"} {
		if err := Pack(&bytes.Buffer{}, sample(), []string{"apps", in}, Limits{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("input %q: %v", in, err)
		}
	}
	if err := Pack(&bytes.Buffer{}, sample(), []string{"../x"}, Limits{}); err == nil {
		t.Error("input ../x was packed")
	}
}

func TestLimitsHoldOnBothSides(t *testing.T) {
	big := fstest.MapFS{}
	for i := range 200 {
		big[fmt.Sprintf("d/%03d", i)] = &fstest.MapFile{Data: bytes.Repeat([]byte{0}, 1000)}
	}
	data := pack(t, big, "d")
	for name, lim := range map[string]Limits{
		"entries": {Entries: 100}, "bytes unpacked": {Unpacked: 100_000}, "bytes packed": {Packed: 100},
		"bytes of path": {PathLength: 3}, "folders in depth": {PathDepth: 1},
	} {
		var limit *LimitError
		if err := Pack(&bytes.Buffer{}, big, []string{"d"}, lim); !errors.As(err, &limit) || limit.Limit != name {
			t.Errorf("Pack with few %s: %v", name, err)
		}
		if _, err := Unpack(bytes.NewReader(data), lim); !errors.As(err, &limit) || limit.Limit != name {
			t.Errorf("Unpack with few %s: %v", name, err)
		}
	}
}

// archive makes a bundle of raw tar headers.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil && h.Size > 0 {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return compress(t, raw.Bytes())
}

func compress(t testing.TB, raw []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(raw, nil)
}

// B1, B2: names that leave the folder, and entries that are no files.
func TestUnpackRefusesHostileEntries(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"parent": {Name: "../x"}, "root": {Name: "/x"}, "through": {Name: "a/../../x"}, "dot": {Name: "./x"}, "double": {Name: "a//x"},
		"windows": {Name: `C:\x`}, "backslash": {Name: `a\..\b`}, "control": {Name: "a\nb"}, "escape": {Name: "\x1b[31m"}, "empty": {Name: ""},
		"symlink":  {Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		"hardlink": {Name: "x", Typeflag: tar.TypeLink, Linkname: "y"},
		"device":   {Name: "x", Typeflag: tar.TypeChar}, "block": {Name: "x", Typeflag: tar.TypeBlock}, "fifo": {Name: "x", Typeflag: tar.TypeFifo},
		"setuid": {Name: "x", Mode: 0o4755}, "private": {Name: "x", Mode: 0o600},
		"gnu":      {Name: "x", Format: tar.FormatGNU},
		"xattr":    {Name: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}},
		"linkpath": {Name: "x", PAXRecords: map[string]string{"comment": "b"}},
		"folder":   {Name: "x/../../y/", Typeflag: tar.TypeDir, Mode: 0o755},
	} {
		t.Run(name, func(t *testing.T) {
			var refused *EntryError
			if _, err := Unpack(bytes.NewReader(archive(t, h)), Limits{}); !errors.As(err, &refused) {
				t.Errorf("Unpack: %v, want an EntryError", err)
			} else if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("error text %q is not escaped", err)
			}
		})
	}
}

func TestUnpackRefusesNamesThatCollide(t *testing.T) {
	for name, headers := range map[string][]tar.Header{
		"twice": {{Name: "x"}, {Name: "x"}}, "file below file": {{Name: "x"}, {Name: "x/y"}}, "file over folder": {{Name: "x/y"}, {Name: "x"}},
	} {
		var refused *EntryError
		if _, err := Unpack(bytes.NewReader(archive(t, headers...)), Limits{}); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// B4: bombs, and archives that are none or not whole.
func TestUnpackRefusesBombsAndFragments(t *testing.T) {
	var limit *LimitError
	bomb := archive(t, tar.Header{Name: "x", Size: 160 << 20})
	if _, err := Unpack(bytes.NewReader(bomb), Limits{}); !errors.As(err, &limit) {
		t.Errorf("bomb of %d bytes: %v", len(bomb), err)
	}
	many := make([]tar.Header, 60_000)
	for i := range many {
		many[i].Name = fmt.Sprint(i)
	}
	if _, err := Unpack(bytes.NewReader(archive(t, many...)), Limits{}); !errors.As(err, &limit) || limit.Limit != "entries" {
		t.Errorf("many files: %v", err)
	}
	whole := pack(t, sample(), "apps", "base")
	for n := range whole {
		if _, err := Unpack(bytes.NewReader(whole[:n]), Limits{}); err == nil {
			t.Fatalf("the first %d of %d bytes were unpacked", n, len(whole))
		}
	}
	for name, data := range map[string][]byte{
		"trailing bytes": append(bytes.Clone(whole), 'x'), "second archive": append(bytes.Clone(whole), whole...), "text": []byte("not a bundle"), "gzip": {0x1f, 0x8b, 8, 0},
	} {
		if _, err := Unpack(bytes.NewReader(data), Limits{}); err == nil {
			t.Errorf("%s: unpacked", name)
		}
	}
}

func TestValidKeyRefusesPathsAndOtherFormats(t *testing.T) {
	good := Key(nil)
	for _, key := range []string{"", "b1-", good + "0", good[:len(good)-1], strings.ToUpper(good), "b2" + good[2:], "b1-../" + good[6:]} {
		if ValidKey(key) {
			t.Errorf("ValidKey(%q)", key)
		}
	}
	if !ValidKey(good) {
		t.Errorf("ValidKey(%q) is false", good)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(pack(f, sample(), "apps", "base"))
	f.Add(archive(f, tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/"}))
	f.Add([]byte{})
	lim := Limits{Packed: 1 << 20, Unpacked: 1 << 20, Entries: 100}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := Unpack(bytes.NewReader(data), lim)
		if err != nil {
			return
		}
		want, err := files.Key([]string{"."})
		if err != nil {
			return // no input that the property speaks of
		}
		var again bytes.Buffer
		if err := Pack(&again, files, []string{"."}, lim); err != nil {
			t.Fatalf("what was unpacked cannot be packed: %v", err)
		}
		if got, err := unpack(t, again.Bytes()).Key([]string{"."}); err != nil || got != want {
			t.Fatalf("key %s became %s, %v", want, got, err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	fsys := fstest.MapFS{}
	for i := range 100 {
		fsys[fmt.Sprintf("d/%d.yaml", i)] = &fstest.MapFile{Data: bytes.Repeat([]byte("kind: ConfigMap\n"), 500)}
	}
	for b.Loop() {
		pack(b, fsys, "d")
	}
}
