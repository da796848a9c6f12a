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
	"time"
)

// Chain checks the lines of one replica, one after the other.
type Chain struct {
	// Again says that lines may come a second time, as they do from sinks.
	Again bool

	// Lines are those that follow each other, and Torn those among them that were cut off when the hub died. Doubles came again.
	Lines, Torn, Doubles int
	// First and Last are when the first and the last of them were written.
	First, Last time.Time
	// Before is the hash that the first line names: of a line that nobody has here. Whole says that there is none before the first.
	Before string
	Whole  bool
	// Head is the hash of the last line.
	Head string

	// recent are the hashes of the newest lines, where lines may come again.
	recent map[string]bool
	order  []string
}

// maxAgain bounds how far back a line is known to have come before. A batch for a sink has fewer.
const maxAgain = 4 * maxBatchLines

// ErrBroken says that a line does not follow the one before it.
var ErrBroken = errors.New(
	"it names another line than the one before it: that one was changed, or lines between them were taken out or put in")

// chained is what the chain needs to know of a line.
type chained struct {
	Time     time.Time     `json:"time"`
	Stage    string        `json:"stage"`
	Duration time.Duration `json:"duration_ns"`
	Prev     *string       `json:"prev"`
}

// written is when the line of a record was: the end of an act comes when it is over.
func (c *chained) written() time.Time {
	if c.Stage == End {
		return c.Time.Add(c.Duration)
	}
	return c.Time
}

// Add takes the next line, without its line feed. The error is ErrBroken; the line is then not counted, and nothing may be added any
// more. A line that was cut off names nothing, so nobody sees whether lines directly before it were changed
// or are missing.
func (c *Chain) Add(line []byte) error {
	var read chained
	whole := json.Unmarshal(line, &read) == nil && read.Prev != nil
	sum := Hash(line)
	switch {
	case c.Lines == 0 && whole:
		c.Before, c.Whole = *read.Prev, *read.Prev == ""
	case c.Again && c.recent[sum]:
		c.Doubles++
		return nil
	case c.Lines > 0 && whole && *read.Prev != c.Head:
		return ErrBroken
	}
	c.Lines++
	c.Head = sum
	c.remember(sum)
	if !whole {
		c.Torn++
		return nil
	}
	c.Last = read.written()
	if c.First.IsZero() {
		c.First = c.Last
	}
	return nil
}

func (c *Chain) remember(sum string) {
	if !c.Again {
		return
	}
	if c.recent == nil {
		c.recent = map[string]bool{}
	}
	c.recent[sum] = true
	if c.order = append(c.order, sum); len(c.order) > maxAgain {
		delete(c.recent, c.order[0])
		c.order = c.order[1:]
	}
}

// Hash is what the next line names of a line without its line feed.
func Hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// Entry is a line with the replica that wrote it, as exports and sinks have it: an object with replica, hash and record, which is
// the line byte by byte. A line that is not the JSON of an object stands in the place of record as torn, in Base64.
type Entry struct {
	Replica string
	Line    []byte
}

// MarshalEntry is the JSON of an entry, in one line. It is composed by hand: encoders change the bytes of the record.
func (e *Entry) MarshalEntry() []byte {
	replica, err := json.Marshal(e.Replica)
	if err != nil { // a text always encodes
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"replica":%s,"hash":%q,`, replica, Hash(e.Line))
	if isObject(e.Line) {
		b.WriteString(`"record":`)
		b.Write(e.Line)
	} else {
		torn, err := json.Marshal(e.Line)
		if err != nil { // bytes always encode
			return nil
		}
		b.WriteString(`"torn":`)
		b.Write(torn)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// isObject says whether a line can stand in another one as it is.
func isObject(line []byte) bool {
	return len(line) > 1 && line[0] == '{' && line[len(line)-1] == '}' && bytes.IndexByte(line, '\n') < 0 && json.Valid(line)
}

// ErrHash says that an entry's record is not the line that its hash is of.
var ErrHash = errors.New("its record is not what its hash is of: one of them was changed")

// ParseEntry reads an entry; false for a text that is none, as the lines of a hub's own files are.
func ParseEntry(text []byte) (*Entry, bool, error) {
	var read struct {
		Replica string          `json:"replica"`
		Hash    string          `json:"hash"`
		Record  json.RawMessage `json:"record"`
		Torn    []byte          `json:"torn"`
	}
	if json.Unmarshal(text, &read) != nil || read.Replica == "" || read.Hash == "" {
		return nil, false, nil
	}
	entry := &Entry{read.Replica, read.Record}
	if read.Record == nil {
		entry.Line = read.Torn
	}
	if Hash(entry.Line) != read.Hash {
		return entry, true, ErrHash
	}
	return entry, true, nil
}

// Lines calls each with the lines of a file, without their line feeds, until it returns an error.
func Lines(r io.Reader, each func(number int, line []byte) error) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("line %d: it is longer than %d bytes: this is no audit log", n, maxLine)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		if told := each(n, bytes.TrimSuffix(line, []byte("\n"))); told != nil || err != nil {
			return told
		}
	}
}
