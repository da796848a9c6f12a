package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pluralsh/plural/internal/rotation"
)

// segment is one file of a log as a reader sees it: the lines that were whole when it was opened. The reader holds it open, so that
// it may be renamed and deleted meanwhile.
type segment struct {
	*os.File
	// id is the same whatever the file is named: the beginning of the hash of its first line.
	id   string
	size int64
	// first is what the chain knows of the first line.
	first chained
}

// segments are the files of a log that have a line, the oldest first.
type segments []segment

// idLength is how much of a hash names a file.
const idLength = 32

// Position is a place between two lines of a log. The zero Position is its beginning.
type Position struct {
	File   string `json:"f,omitempty"`
	Offset int64  `json:"o,omitempty"`
	// Line counts the lines before it in the file.
	Line int `json:"n,omitempty"`
	// Hash is that of the line before it.
	Hash string `json:"h,omitempty"`
}

// errGone says that the file of a position was deleted, and with it all that was older.
var errGone = errors.New("the file was deleted, as the oldest ones are")

// openSegments opens the files of the log in dir. The newest is opened before the others are looked for: one that is put aside
// in between is found under its new name.
func openSegments(dir string) (segments, error) {
	files := rotation.Files{Newest: filepath.Join(dir, newestName)}
	var all segments
	if err := all.open(files.Newest); err != nil {
		return nil, err
	}
	newest := all
	full, err := files.Full()
	if err != nil {
		newest.Close()
		return nil, err
	}
	all = nil
	for _, name := range full {
		if err := all.open(name); err != nil {
			newest.Close()
			all.Close()
			return nil, err
		}
	}
	for _, last := range newest {
		if all.find(last.id) >= 0 {
			_ = last.File.Close() // it was put aside after it was opened
			continue
		}
		all = append(all, last)
	}
	return all, nil
}

// open adds a file that has a line. One that is gone is none.
func (s *segments) open(name string) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	one := segment{File: file}
	if err := one.measure(); err != nil || one.size == 0 {
		return errors.Join(err, file.Close())
	}
	*s = append(*s, one)
	return nil
}

// measure finds the first line, and where the last whole one ends.
func (s *segment) measure() error {
	info, err := s.Stat()
	if err != nil {
		return err
	}
	tail := make([]byte, min(info.Size(), maxLine))
	from := info.Size() - int64(len(tail))
	if _, err := s.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	end := bytes.LastIndexByte(tail, '\n') + 1
	if end == 0 {
		return nil
	}
	s.size = from + int64(end)
	line, err := s.firstLine()
	if err != nil {
		return err
	}
	s.id = Hash(line)[:idLength]
	_ = json.Unmarshal(line, &s.first) // a line that was cut off says nothing
	return nil
}

func (s *segment) firstLine() ([]byte, error) {
	for want := int64(4 << 10); ; want *= 16 {
		text := make([]byte, min(want, s.size))
		if _, err := s.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if line, _, ok := bytes.Cut(text, []byte("\n")); ok || int64(len(text)) == s.size || want > maxLine {
			return line, nil
		}
	}
}

// Close closes all.
func (s segments) Close() {
	for _, one := range s {
		_ = one.File.Close() // it was read only
	}
}

// find is where a file stands; -1: it is gone.
func (s segments) find(id string) int {
	return slices.IndexFunc(s, func(one segment) bool { return one.id == id })
}

// behind is how many bytes there are behind a position; all, where its file is gone.
func (s segments) behind(p Position) (bytes int64) {
	at := s.find(p.File)
	for i := range s {
		switch {
		case i == at:
			bytes += max(0, s[i].size-p.Offset)
		case i > at:
			bytes += s[i].size
		}
	}
	return bytes
}

// count is how many lines there are behind a position in so many of the oldest files.
func (s segments) count(p Position, oldest int) (lines int, err error) {
	at := s.find(p.File)
	for i := max(at, 0); i < oldest; i++ {
		offset := int64(0)
		if i == at {
			offset = p.Offset
		}
		err := Lines(io.NewSectionReader(s[i], offset, s[i].size-offset), func(int, []byte) error {
			lines++
			return nil
		})
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// part is some whole lines of one file.
type part struct {
	text []byte
	// name is the file's, from where they begin, to where they end.
	name     string
	from, to Position
}

// lines are those of the part, without their line feeds.
func (p *part) lines() [][]byte {
	return bytes.Split(bytes.TrimSuffix(p.text, []byte("\n")), []byte("\n"))
}

// read is what stands behind a position: at most so many bytes of one file. It is empty at the end. The error is errGone for a
// position in a file that is gone.
func (s segments) read(from Position, most int64) (*part, error) {
	at := 0
	if from.File != "" {
		if at = s.find(from.File); at < 0 {
			return nil, errGone
		}
	}
	if at < len(s) && from.Offset >= s[at].size {
		if at++; at < len(s) {
			from = Position{Hash: from.Hash}
		}
	}
	if at >= len(s) {
		return &part{from: from, to: from}, nil
	}
	one := &s[at]
	from.File = one.id
	p := &part{name: filepath.Base(one.Name()), from: from, to: from, text: make([]byte, min(most, one.size-from.Offset))}
	if _, err := one.ReadAt(p.text, from.Offset); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	if end := bytes.LastIndexByte(p.text, '\n') + 1; end > 0 {
		p.text = p.text[:end]
	}
	all := p.lines()
	p.to.Offset += int64(len(p.text))
	p.to.Line += len(all)
	p.to.Hash = Hash(all[len(all)-1])
	return p, nil
}

// holds says whether the line that a position names stands before it.
func (s segments) holds(p Position) (bool, error) {
	at := s.find(p.File)
	if at < 0 || p.Offset > s[at].size || p.Offset < 1 {
		return false, nil
	}
	text := make([]byte, min(p.Offset, maxLine))
	if _, err := s[at].ReadAt(text, p.Offset-int64(len(text))); err != nil {
		return false, err
	}
	line := bytes.TrimSuffix(text, []byte("\n"))
	return len(line) < len(text) && Hash(line[bytes.LastIndexByte(line, '\n')+1:]) == p.Hash, nil
}

// chunkBytes is how much is read of a file at a time, from its end.
const chunkBytes = 64 << 10

// backward calls each with the lines before a position of file at, the newest first, with where each begins. It stops where each
// says false. What is longer than a line may be comes in pieces.
func (s segments) backward(at int, before int64, each func(line []byte, begins int64) bool) error {
	var held []byte // the end of a line whose beginning is not read yet
	for end := before; end > 0; {
		begin := max(0, end-chunkBytes)
		text := make([]byte, end-begin, int(end-begin)+len(held))
		if _, err := s[at].ReadAt(text, begin); err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		text = append(text, held...)
		end = begin
		for {
			body := bytes.TrimSuffix(text, []byte("\n"))
			cut := bytes.LastIndexByte(body, '\n') + 1
			if cut == 0 && begin > 0 && len(text) < maxLine {
				break
			}
			if len(text) > 0 && !each(body[cut:], begin+int64(cut)) {
				return nil
			}
			if text = text[:cut]; cut == 0 {
				break
			}
		}
		held = text
	}
	return nil
}
