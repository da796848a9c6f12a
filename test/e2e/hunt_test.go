package e2e

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// hunt looks for canaries in whatever form they may have got: as they are, in base64 wherever they begin in it, in hex,
// escaped, and in compressed streams.
type hunt struct {
	// needles are what is looked for, by its first four bytes.
	needles map[uint32][]needle
	// begins is a set of hashes of the keys of needles: nearly every place in a file is passed over by it.
	begins [1 << 16]bool
	finds  map[find]int
	bytes  int64
	zstd   *zstd.Decoder
}

type needle struct {
	find
	text []byte
}

// find is a canary that turned up. Where is the file or process, How the form.
type find struct{ Where, Canary, How string }

func newHunt(t testing.TB, canaries []string) *hunt {
	t.Helper()
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(decoder.Close)
	h := &hunt{needles: map[uint32][]needle{}, finds: map[find]int{}, zstd: decoder}
	for _, canary := range canaries {
		for text, how := range forms(canary) {
			key := binary.LittleEndian.Uint32([]byte(text))
			h.needles[key] = append(h.needles[key], needle{find{Canary: canary, How: how}, []byte(text)})
			h.begins[spread(key)] = true
		}
	}
	return h
}

func spread(key uint32) uint16 { return uint16((key * 2654435761) >> 16) }

// forms are the texts that give a canary away, with their names.
func forms(canary string) map[string]string {
	all := map[string]string{}
	add := func(how, text string) {
		if _, known := all[text]; !known {
			all[text] = how
		}
	}
	add("raw", canary)
	quoted := func(text string) string {
		raw, err := json.Marshal(text)
		if err != nil {
			panic(err) // a string has a JSON form
		}
		return string(raw[1 : len(raw)-1])
	}
	add("JSON", quoted(canary))
	add("JSON in JSON", quoted(quoted(canary)))
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(canary); err != nil {
		panic(err)
	}
	add("JSON", strings.Trim(plain.String(), "\n")[1:plain.Len()-2])
	add("YAML", strings.ReplaceAll(canary, "'", "''"))
	add("Go", fmt.Sprintf("%+q", canary)[1:len(fmt.Sprintf("%+q", canary))-1])
	add("URL", url.QueryEscape(canary))
	add("URL", url.PathEscape(canary))
	add("hex", hex.EncodeToString([]byte(canary)))
	add("hex", strings.ToUpper(hex.EncodeToString([]byte(canary))))
	for _, once := range based(canary) {
		add("base64", once)
		for _, twice := range based(once) {
			add("base64 in base64", twice)
		}
	}
	return all
}

// based is what of a text's base64 is the same whatever stands before and after it, for each of the places where it can
// begin in a group of three bytes.
func based(text string) []string {
	var all []string
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			whole := encoding.EncodeToString(append(make([]byte, shift), text...))
			from := (shift*8 + 5) / 6
			to := (shift + len(text)) * 8 / 6
			all = append(all, whole[from:to])
		}
	}
	return all
}

// Bounds of what is unpacked: one stream, and streams in streams.
const (
	maxUnpacked = 64 << 20
	maxDepth    = 3
)

// search looks through data, and through what is packed in it.
func (h *hunt) search(where string, data []byte) { h.searchPacked(where, data, 0) }

func (h *hunt) searchPacked(where string, data []byte, depth int) {
	h.bytes += int64(len(data))
	for i := 0; i+4 <= len(data); i++ {
		if key := binary.LittleEndian.Uint32(data[i:]); h.begins[spread(key)] {
			for _, n := range h.needles[key] {
				if bytes.HasPrefix(data[i:], n.text) {
					h.finds[find{where, n.Canary, n.How}]++
				}
			}
		}
		if depth < maxDepth {
			if unpacked := h.unpack(data[i:]); len(unpacked) > 0 {
				h.searchPacked(where+" unpacked", unpacked, depth+1)
			}
		}
	}
}

// unpack is the stream that begins data, as far as it goes; nil when none does.
func (h *hunt) unpack(data []byte) []byte {
	var stream io.Reader
	var err error
	switch {
	case len(data) > 4 && data[0] == 0x28 && data[1] == 0xb5 && data[2] == 0x2f && data[3] == 0xfd:
		err = h.zstd.Reset(bytes.NewReader(data))
		stream = h.zstd
	case len(data) > 10 && data[0] == 0x1f && data[1] == 0x8b && data[2] == 8:
		stream, err = gzip.NewReader(bytes.NewReader(data))
	case len(data) > 6 && data[0] == 0x78 && (int(data[0])<<8|int(data[1]))%31 == 0:
		stream, err = zlib.NewReader(bytes.NewReader(data))
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	unpacked, _ := io.ReadAll(io.LimitReader(stream, maxUnpacked)) // what came before a fault counts
	return unpacked
}

// tree looks through every file below dir that skip does not name.
func (h *hunt) tree(t testing.TB, dir string, skip func(path string) bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err): // a file that a running process has taken away
			return nil
		case err != nil:
			return err
		case skip(path):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		h.search(path, []byte(path))
		if entry.IsDir() && isGit(path) {
			h.objects(t, path)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		h.search(path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isGit(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// objects looks through every object of a git repository, those that nothing refers to as well: git undoes the deltas.
func (h *hunt) objects(t testing.TB, gitDir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "--git-dir", gitDir, "cat-file", "--batch-all-objects", "--batch", "--unordered")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read objects of %s: %v", gitDir, err)
	}
	h.search("objects of "+gitDir, out)
}

// found are the canaries that turned up anywhere, sorted.
func (h *hunt) found() []string {
	var list []string
	for f, n := range h.finds {
		list = append(list, fmt.Sprintf("%s: %s of %q, %d times", f.Where, f.How, f.Canary, n))
	}
	slices.Sort(list)
	return list
}

// cannotRead ends a test that would have nothing to look at.
func cannotRead(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("cannot read the %s", what)
	}
	t.Skipf("SKIPPED: cannot read the %s", what)
}

// saw says whether a canary turned up in a place whose name holds where.
func (h *hunt) saw(canary, where string) bool {
	for f := range h.finds {
		if f.Canary == canary && strings.Contains(f.Where, where) {
			return true
		}
	}
	return false
}

// TestHuntFindsWhatIsThere is why the hunt may be believed when it finds nothing.
func TestHuntFindsWhatIsThere(t *testing.T) {
	const canary = `Tr0ub4dor&3 <"söll"> it's`
	packed := func(pack func(io.Writer) io.WriteCloser) []byte {
		var out bytes.Buffer
		w := pack(&out)
		if _, err := io.WriteString(w, "some text before "+canary+" and after"); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	gzipped := packed(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	tests := map[string][]byte{
		"raw": []byte(canary), "hex": []byte(hex.EncodeToString([]byte(canary))), "URL": []byte("?q=" + url.QueryEscape(canary)),
		"gzip": gzipped, "zlib": packed(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"zstd": packed(func(w io.Writer) io.WriteCloser {
			encoder, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return encoder
		}),
		"a stream cut short": gzipped[:len(gzipped)-6],
		"gzip in the middle": append([]byte("a header"), append(gzipped, "a footer"...)...),
	}
	for i, before := range []string{"", "a", "ab"} {
		once := base64.StdEncoding.EncodeToString([]byte(before + canary + "after"))
		tests[fmt.Sprintf("base64 at %d", i)] = []byte(once)
		tests[fmt.Sprintf("URL's base64 at %d", i)] = []byte(base64.URLEncoding.EncodeToString([]byte(before + canary)))
		for j, outer := range []string{"", "a", "ab"} {
			tests[fmt.Sprintf("base64 at %d in base64 at %d", i, j)] = []byte(base64.StdEncoding.EncodeToString([]byte(outer + once)))
		}
	}
	quoted, err := json.Marshal(map[string]string{"a": canary})
	if err != nil {
		t.Fatal(err)
	}
	tests["JSON"] = quoted
	if tests["JSON in JSON"], err = json.Marshal(string(quoted)); err != nil {
		t.Fatal(err)
	}
	for name, data := range tests {
		h := newHunt(t, []string{"another canary", canary})
		h.search(name, slices.Concat([]byte{0, 1, 2, 3, 4}, data, []byte{5, 6, 7}))
		if !h.saw(canary, name) {
			t.Errorf("%s: nothing was found in %q", name, data)
		}
		if h.saw("another canary", name) {
			t.Errorf("%s: found what is not there", name)
		}
	}
	h := newHunt(t, []string{canary})
	h.search("a neighbour", []byte(canary[:len(canary)-1]+"!"))
	if len(h.finds) > 0 {
		t.Errorf("found what is not there: %v", h.found())
	}
}
