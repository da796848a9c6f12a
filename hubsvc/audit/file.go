package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/pluralsh/plural/internal/rotation"
)

// newestName is that of the file that is written.
const newestName = "audit.jsonl"

// maxLine bounds one line, in bytes, as it is read.
const maxLine = 1 << 20

// file is the log on disk. Only one goroutine may use it.
type file struct {
	files    rotation.Files
	max      int64
	now      func() time.Time
	log      *slog.Logger
	out      *os.File
	size     int64
	unsynced bool
	prev     string
	dropping func(oldest int) // is called before so many of the oldest files are deleted; may be nil
	text     bytes.Buffer     // JSON, and then the same in ASCII
	buffer   bytes.Buffer
}

// openFile goes on with the newest file, and gives the records at its end to seen.
func openFile(o Options, seen func(Record)) (*file, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	f := &file{
		files: rotation.Files{Newest: filepath.Join(o.Dir, newestName), Keep: o.Keep}, max: o.MaxBytes, now: o.Now, log: o.Log,
	}
	if err := f.open(); err != nil {
		return nil, err
	}
	if err := f.resume(seen); err != nil {
		return nil, errors.Join(err, f.out.Close())
	}
	return f, nil
}

func (f *file) open() (err error) {
	f.out, err = os.OpenFile(f.files.Newest, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
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
	f.prev = Hash(lines[len(lines)-1])
	return nil
}

// inherit finds the hash that the first line of a file has to name: the hub died, or the disk was full, between two files.
func (f *file) inherit() error {
	full, err := f.files.Full()
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
		f.prev = Hash(last)
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
	r.Prev = f.prev
	if err := encoder.Encode(r); err != nil {
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
	f.prev = Hash(f.buffer.Bytes())
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
	full, err := f.files.Next(f.now())
	if err != nil {
		return err
	}
	f.sync()
	if err := os.Rename(f.files.Newest, full); err != nil {
		return err
	}
	old := f.out
	if err := f.open(); err != nil {
		f.out = old
		return errors.Join(err, os.Rename(full, f.files.Newest))
	}
	old.Close()
	return f.prune()
}

// prune deletes the oldest files, and says so first to whoever may still want to read them.
func (f *file) prune() error {
	full, err := f.files.Full()
	if doomed := len(full) - (f.files.Keep - 1); err == nil && doomed > 0 && f.dropping != nil {
		f.dropping(doomed)
	}
	return errors.Join(err, f.files.Prune())
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
