package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// Files of a log: the newest has no time in its name, the others that at which they were full.
const (
	newestName = "audit.jsonl"
	fullPrefix = "audit-"
	fullTime   = "20060102T150405.000000000Z"
	suffix     = ".jsonl"
)

// maxLine bounds one line, in bytes, as it is read.
const maxLine = 1 << 20

// line is a record as it stands in the file.
type line struct {
	*Record
	// Prev is the SHA-256 of the line before, in hex, without its line feed; empty in the first line of all.
	Prev string `json:"prev"`
}

// file is the log on disk. Only one goroutine may use it.
type file struct {
	dir      string
	max      int64
	keep     int
	now      func() time.Time
	log      *slog.Logger
	out      *os.File
	size     int64
	unsynced bool
	prev     string
	text     bytes.Buffer // JSON, and then the same in ASCII
	buffer   bytes.Buffer
}

// openFile goes on with the newest file, and gives the records at its end to seen.
func openFile(o Options, seen func(Record)) (*file, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	f := &file{dir: o.Dir, max: o.MaxBytes, keep: o.Keep, now: o.Now, log: o.Log}
	if err := f.open(); err != nil {
		return nil, err
	}
	if err := f.resume(seen); err != nil {
		return nil, errors.Join(err, f.out.Close())
	}
	return f, nil
}

func (f *file) open() (err error) {
	f.out, err = os.OpenFile(filepath.Join(f.dir, newestName), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.out.Stat()
	if err != nil {
		return errors.Join(err, f.out.Close())
	}
	f.size = info.Size()
	return nil
}

// resume reads the end of the file. A line that was cut off when the hub died stays as it is: the next one names its hash.
func (f *file) resume(seen func(Record)) error {
	from := max(0, f.size-maxLine)
	tail := make([]byte, f.size-from)
	if _, err := f.out.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(tail) == 0 {
		return f.inherit()
	}
	if tail[len(tail)-1] != '\n' {
		if _, err := f.out.WriteString("\n"); err != nil {
			return err
		}
		f.size++
	}
	lines := bytes.Split(bytes.TrimSuffix(tail, []byte("\n")), []byte("\n"))
	for _, text := range lines {
		var r Record
		if json.Unmarshal(text, &r) == nil {
			seen(r)
		}
	}
	f.prev = hash(lines[len(lines)-1])
	return nil
}

// inherit finds the hash that the first line of a file has to name: the hub died, or the disk was full, between two files.
func (f *file) inherit() error {
	full, err := f.full()
	if err != nil || len(full) == 0 {
		return err
	}
	older, err := os.Open(full[len(full)-1])
	if err != nil {
		return err
	}
	defer older.Close()
	last, err := lastLine(older)
	if last != nil {
		f.prev = hash(last)
	}
	return err
}

func lastLine(from *os.File) ([]byte, error) {
	info, err := from.Stat()
	if err != nil {
		return nil, err
	}
	tail := make([]byte, min(info.Size(), maxLine))
	if _, err := from.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	tail = bytes.TrimSuffix(tail, []byte("\n"))
	return tail[bytes.LastIndexByte(tail, '\n')+1:], nil
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// append writes one line. When that fails in the middle, the next line begins behind what was written.
func (f *file) append(r *Record) error {
	if f.size >= f.max {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	f.text.Reset()
	encoder := json.NewEncoder(&f.text)
	encoder.SetEscapeHTML(false) // no browser reads it, and an ampersand is not to take six bytes
	if err := encoder.Encode(line{r, f.prev}); err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	f.buffer.Reset()
	plain(&f.buffer, bytes.TrimSuffix(f.text.Bytes(), []byte("\n")))
	n, err := f.out.Write(append(f.buffer.Bytes(), '\n'))
	f.unsynced = true
	if err != nil {
		return errors.Join(err, f.restore(n))
	}
	f.size += int64(n)
	f.prev = hash(f.buffer.Bytes())
	return nil
}

// restore takes back the beginning of a line of which the disk did not take the rest.
func (f *file) restore(written int) error {
	if written == 0 {
		return nil
	}
	return f.out.Truncate(f.size)
}

// plain copies JSON with everything beyond ASCII escaped: whoever looks at the file with a terminal sees what is there.
func plain(to *bytes.Buffer, text []byte) {
	for len(text) > 0 {
		if n := bytes.IndexFunc(text, func(r rune) bool { return r >= 0x7f }); n != 0 {
			if n < 0 {
				n = len(text)
			}
			to.Write(text[:n])
			text = text[n:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(to, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		fmt.Fprintf(to, `\u%04x`, r)
	}
}

// rotate begins a new file, and deletes the oldest.
func (f *file) rotate() error {
	newest := filepath.Join(f.dir, newestName)
	full, err := f.next()
	if err != nil {
		return err
	}
	f.sync()
	if err := os.Rename(newest, full); err != nil {
		return err
	}
	old := f.out
	if err := f.open(); err != nil {
		f.out = old
		return errors.Join(err, os.Rename(full, newest))
	}
	old.Close()
	return f.prune()
}

// next is the name of a file that is full now: it comes behind the others, also when the clock stands still, or was set back.
func (f *file) next() (string, error) {
	at := f.now().UTC()
	full, err := f.full()
	if err != nil {
		return "", err
	}
	if len(full) > 0 {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(full[len(full)-1]), fullPrefix), suffix)
		if last, err := time.Parse(fullTime, name); err == nil && !at.After(last) {
			at = last.Add(1)
		}
	}
	return filepath.Join(f.dir, fullPrefix+at.Format(fullTime)+suffix), nil
}

func (f *file) prune() error {
	full, err := f.full()
	if err != nil {
		return err
	}
	for i := range len(full) - (f.keep - 1) {
		if err := os.Remove(full[i]); err != nil {
			return err
		}
	}
	return nil
}

// full are the files that are not written any more, the oldest first.
func (f *file) full() ([]string, error) {
	entries, err := os.ReadDir(f.dir) // sorted, as their times are
	var files []string
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, fullPrefix) && strings.HasSuffix(name, suffix) {
			files = append(files, filepath.Join(f.dir, name))
		}
	}
	return files, err
}

func (f *file) sync() {
	if !f.unsynced {
		return
	}
	if err := f.out.Sync(); err != nil {
		f.log.Warn("audit log cannot be synced", "error", err)
		return
	}
	f.unsynced = false
}

func (f *file) close() {
	f.sync()
	f.out.Close()
}

// Verify says whether the lines follow each other as they were written. The first one's predecessor is taken as given: it
// stood in a file that may be gone.
func Verify(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	prev := ""
	for n := 1; lines.Scan(); n++ {
		var l line
		err := json.Unmarshal(lines.Bytes(), &l)
		if err == nil && n > 1 && l.Prev != prev {
			return fmt.Errorf("line %d: the line before it is not the one that it was written after", n)
		}
		prev = hash(lines.Bytes()) // of a line that was cut off as well
	}
	return lines.Err()
}
