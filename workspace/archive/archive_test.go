package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/test/support/needs"
)

// plain makes a tar file; a header without a type is a file, one without a size holds its own name.
func plain(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		content := make([]byte, h.Size)
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			content = []byte(h.Name)
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil && h.Typeflag == tar.TypeReg {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

func zip(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// listing is path to mode and content.
func listing(t testing.TB, files fs.FS) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := fs.ReadFile(files, name)
		got[name] = fmt.Sprintf("%o %s", info.Mode(), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPlainAndGzippedArchivesGiveTheSameFiles(t *testing.T) {
	raw := plain(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir},
		tar.Header{Name: "./a.yaml", Mode: 0o600},
		tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/", Typeflag: tar.TypeDir},
		tar.Header{Name: "d/run.sh", Mode: 0o4711},
		tar.Header{Name: "d/größe", Mode: 0o664},
		tar.Header{Name: "empty/below/", Typeflag: tar.TypeDir},
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "a commit"}},
		tar.Header{Name: strings.Repeat("long/", 40) + "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}},
	)
	want := map[string]string{
		"a.yaml": "644 ./a.yaml", "d/run.sh": "755 d/run.sh", "d/größe": "644 d/größe",
		strings.Repeat("long/", 40) + "x": "644 " + strings.Repeat("long/", 40) + "x",
	}
	gz := zip(t, raw)
	half := len(raw) / 2
	for name, data := range map[string][]byte{
		"plain": raw, "gzip": gz, "two members": append(zip(t, raw[:half]), zip(t, raw[half:])...), "padded": append(raw, make([]byte, 9000)...),
	} {
		files, err := Unpack(bytes.NewReader(data), Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, listing(t, files)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := fstest.TestFS(files, "a.yaml", "d/run.sh"); err != nil {
			t.Error(err)
		}
		if _, err := fs.Stat(files, "empty"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("empty folder: %v", err)
		}
	}
}

func TestWhatTheTarProgramPacksIsRead(t *testing.T) {
	program := needs.Program(t, "tar", "tar")
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"chart/Chart.yaml": 0o640, "chart/templates/run.sh": 0o700} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, format := range []string{"gnu", "pax", "ustar", "v7"} {
		raw, err := exec.Command(program, "-C", dir, "--format="+format, "-cf", "-", "chart").Output()
		if err != nil {
			t.Fatal(err)
		}
		files, err := UnpackChart(bytes.NewReader(raw))
		if err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		want := map[string]string{"Chart.yaml": "644 chart/Chart.yaml", "templates/run.sh": "755 chart/templates/run.sh"}
		if diff := cmp.Diff(want, listing(t, files)); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
}

func TestAChartIsOneFolder(t *testing.T) {
	inner := tar.Header{Name: "app/charts/db-1.0.0.tgz"}
	files, err := UnpackChart(bytes.NewReader(zip(t, plain(t, tar.Header{Name: "app/Chart.yaml"}, inner))))
	if err != nil {
		t.Fatal(err)
	}
	if got := listing(t, files); len(got) != 2 || got["charts/db-1.0.0.tgz"] == "" {
		t.Errorf("files = %v", got)
	}
	for name, headers := range map[string][]tar.Header{
		"two folders": {{Name: "app/Chart.yaml"}, {Name: "other/Chart.yaml"}},
		"file beside": {{Name: "app/Chart.yaml"}, {Name: "README"}},
		"no folder":   {{Name: "Chart.yaml"}},
		"no chart":    {{Name: "app/values.yaml"}},
		"deeper":      {{Name: "app/Chart.yaml/x"}},
	} {
		var refused *EntryError
		if _, err := UnpackChart(bytes.NewReader(plain(t, headers...))); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEntriesThatAreNoPlainFilesRefuseTheWholeArchive(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"parent": {Name: "../x"}, "root": {Name: "/x"}, "through": {Name: "a/../../x"}, "inner dot": {Name: "a/./x"}, "double": {Name: "a//x"},
		"drive": {Name: "C:/x"}, "windows": {Name: `C:\x`}, "backslash": {Name: `a\..\b`}, "control": {Name: "a\nb"}, "escape": {Name: "\x1b[31m"},
		"no name": {Name: ""}, "only dot": {Name: "."}, "no text": {Name: "\xff"},
		"symlink":  {Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		"hardlink": {Name: "x", Typeflag: tar.TypeLink, Linkname: "y"},
		"device":   {Name: "x", Typeflag: tar.TypeChar}, "block": {Name: "x", Typeflag: tar.TypeBlock}, "fifo": {Name: "x", Typeflag: tar.TypeFifo},
		"folder": {Name: "x/../../y/", Typeflag: tar.TypeDir},
	} {
		t.Run(name, func(t *testing.T) {
			var refused *EntryError
			if _, err := Unpack(bytes.NewReader(plain(t, tar.Header{Name: "good"}, h)), Limits{}); !errors.As(err, &refused) {
				t.Errorf("Unpack: %v, want an EntryError", err)
			} else if strings.ContainsAny(err.Error(), "\n\x1b") || !utf8.ValidString(err.Error()) {
				t.Errorf("error text %q is not escaped", err)
			}
		})
	}
}

func TestNamesThatCollideRefuseTheWholeArchive(t *testing.T) {
	for name, headers := range map[string][]tar.Header{
		"twice": {{Name: "x"}, {Name: "./x"}}, "file below file": {{Name: "x"}, {Name: "x/y"}}, "file over folder": {{Name: "x/y"}, {Name: "x"}},
		"folder over file":       {{Name: "x"}, {Name: "x/", Typeflag: tar.TypeDir}},
		"file over empty folder": {{Name: "x/", Typeflag: tar.TypeDir}, {Name: "x"}},
	} {
		var refused *EntryError
		if _, err := Unpack(bytes.NewReader(plain(t, headers...)), Limits{}); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachLimitIsNamedWithWhereItWasPassed(t *testing.T) {
	many := make([]tar.Header, 60)
	for i := range many {
		many[i] = tar.Header{Name: fmt.Sprintf("d/%03d", i), Size: 1000}
	}
	data := plain(t, many...)
	for name, l := range map[string]Limits{
		"entries": {Entries: 50}, "bytes unpacked": {Unpacked: 50_000}, "bytes packed": {Packed: 100}, "bytes in one file": {File: 999},
		"bytes of path": {PathLength: 3}, "folders in depth": {PathDepth: 1},
	} {
		var limit *LimitError
		if _, err := Unpack(bytes.NewReader(data), l); !errors.As(err, &limit) || limit.Limit != name {
			t.Errorf("few %s: %v", name, err)
		} else if limit.Path == "" && name != "bytes packed" {
			t.Errorf("%s: no place in %v", name, err)
		}
	}
	var limit *LimitError
	long := plain(t, tar.Header{Name: strings.Repeat("n", 300)})
	if _, err := Unpack(bytes.NewReader(long), Limits{}); !errors.As(err, &limit) || limit.Limit != "bytes of name" {
		t.Errorf("long name: %v", err)
	}
	exact := Limits{Entries: 61, Unpacked: 60_000, Packed: int64(len(data)), File: 1000, PathLength: 5, PathDepth: 2}
	if _, err := Unpack(bytes.NewReader(data), exact); err != nil {
		t.Errorf("at the limits: %v", err)
	}
}

// bomb is a large file in an archive that takes hardly any room.
func bomb(t testing.TB, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "c/zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: size}); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for ; size > 0; size -= int64(len(chunk)) {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBombsAreRefusedByWhatTheyClaim(t *testing.T) {
	data := bomb(t, 16<<20)
	var limit *LimitError
	allocated := testing.AllocsPerRun(1, func() {
		if _, err := UnpackChart(bytes.NewReader(data)); !errors.As(err, &limit) || limit.Limit != "bytes in one file" || limit.Path != "c/zeros" {
			t.Errorf("bomb of %d bytes: %v", len(data), err)
		}
	})
	if allocated > 200 {
		t.Errorf("refusing took %v allocations", allocated)
	}
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for i := range 3000 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint(i, "/"), Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Unpack(bytes.NewReader(zip(t, raw.Bytes())), Limits{Entries: 1000}); !errors.As(err, &limit) || limit.Limit != "entries" {
		t.Errorf("many folders: %v", err)
	}
	// Nothing but padding, which compresses to nothing: the stream has a limit of its own.
	empty := zip(t, append(plain(t, tar.Header{Name: "x"}), make([]byte, 4<<20)...))
	if _, err := Unpack(bytes.NewReader(empty), Limits{Unpacked: 1 << 20, Entries: 10}); !errors.As(err, &limit) || limit.Limit != "bytes unpacked" {
		t.Errorf("endless padding: %v", err)
	}
}

func TestFragmentsAreNotTakenForTheWhole(t *testing.T) {
	raw := plain(t, tar.Header{Name: "a", Size: 5000}, tar.Header{Name: "b", Size: 3000})
	for n := 0; n < len(raw)-512; n += 256 {
		if _, err := Unpack(bytes.NewReader(raw[:n]), Limits{}); err == nil {
			t.Errorf("first %d of %d bytes were taken", n, len(raw))
		}
	}
	gz := zip(t, raw)
	for n := range gz {
		if _, err := Unpack(bytes.NewReader(gz[:n]), Limits{}); err == nil {
			t.Errorf("first %d of %d packed bytes were taken", n, len(gz))
		}
	}
}

func TestWhatIsNoArchiveSaysSo(t *testing.T) {
	raw := plain(t, tar.Header{Name: "a"})
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("<html>not found</html>"), "page": bytes.Repeat([]byte("<html>"), 1000), "zip": []byte("PK\x03\x04 and so on"),
		"zstd": {0x28, 0xb5, 0x2f, 0xfd, 0}, "gzip of text": zip(t, bytes.Repeat([]byte("text"), 1000)), "gzip of gzip": zip(t, zip(t, raw)),
		"bytes after the end": append(bytes.Clone(raw), "more"...), "archive after the end": append(bytes.Clone(raw), raw...),
	} {
		if _, err := Unpack(bytes.NewReader(data), Limits{}); !errors.Is(err, ErrFormat) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Unpack(bytes.NewReader(append(zip(t, raw), "garbage"...)), Limits{}); err == nil {
		t.Error("bytes after the end of the gzip stream were taken")
	}
	if _, err := Unpack(bytes.NewReader(plain(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir})), Limits{}); !errors.Is(err, ErrNoFiles) {
		t.Errorf("only folders: %v", err)
	}
}

func FuzzUnpack(f *testing.F) {
	raw := plain(f, tar.Header{Name: "app/", Typeflag: tar.TypeDir}, tar.Header{Name: "app/Chart.yaml"}, tar.Header{Name: "app/run.sh", Mode: 0o755})
	f.Add(raw)
	f.Add(zip(f, raw))
	f.Add(plain(f, tar.Header{Name: strings.Repeat("p/", 200) + "x"}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "x"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := Limits{Packed: 1 << 20, Unpacked: 1 << 20, File: 1 << 19, Entries: 100, PathLength: 200, PathDepth: 10}
		files, err := Unpack(bytes.NewReader(data), l)
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < 0x20 }) || len(err.Error()) > 2000 {
				t.Errorf("error text %q", err)
			}
			return
		}
		entries, total := 0, int64(0)
		err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if entries++; !d.IsDir() && info.Mode() != 0o644 && info.Mode() != 0o755 {
				t.Errorf("%q has mode %v", name, info.Mode())
			}
			total += info.Size()
			if len(name) > l.PathLength || !fs.ValidPath(name) {
				t.Errorf("path %q", name)
			}
			return nil
		})
		if err != nil || entries > l.Entries+1 || total > l.Unpacked {
			t.Errorf("%d entries, %d bytes, %v", entries, total, err)
		}
	})
}
