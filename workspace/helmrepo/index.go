package helmrepo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxIndex bounds index.yaml, in bytes; the largest public ones have about 20 MB.
	maxIndex = 64 << 20
	// maxLoose bounds an index in another form than helm writes, which has to be read into memory as a whole.
	maxLoose = 1 << 20
	// maxItem bounds what an index says of one version of a chart, in bytes.
	maxItem = 256 << 10
	// maxVersions bounds the versions of one chart.
	maxVersions = 20_000
	// maxDepth and maxNodes bound the YAML of one version.
	maxDepth, maxNodes = 32, 20_000
)

// IndexError says what is wrong with a repository's index.yaml.
type IndexError struct {
	// Line counts from one; zero when it concerns the whole file.
	Line   int
	Reason string
}

func (e *IndexError) Error() string {
	if e.Line == 0 {
		return "index.yaml " + e.Reason
	}
	return fmt.Sprintf("index.yaml:%d: %s", e.Line, e.Reason)
}

// release is what an index says of one version of a chart.
type release struct {
	Version string   `json:"version" yaml:"version"`
	URLs    []string `json:"urls" yaml:"urls"`
	// Digest is a SHA-256 in hex, perhaps with its name before it.
	Digest  string `json:"digest" yaml:"digest"`
	Removed bool   `json:"removed" yaml:"removed"`
}

// listing is what an index says of one chart.
type listing struct {
	releases []release
	// skipped is the first entry that could not be read, nil when all could.
	skipped error
}

func (l *listing) add(r release, err error, line int) error {
	switch {
	case err != nil:
		if l.skipped == nil {
			l.skipped = &IndexError{Line: line, Reason: err.Error()}
		}
	case !r.Removed:
		l.releases = append(l.releases, r)
	}
	if len(l.releases) > maxVersions {
		return &IndexError{Line: line, Reason: fmt.Sprintf("lists more than %d versions of one chart", maxVersions)}
	}
	return nil
}

// errShape means that an index is not laid out as helm writes it, which says nothing against it yet.
var errShape = errors.New("is not laid out as helm writes it")

// readIndex takes in what an index says of the wanted charts, and holds no more than one version's text at a time. An
// entry that cannot be read is left out, as helm does, and noted.
func readIndex(r io.Reader, wanted map[string]bool) (map[string]*listing, error) {
	start := &recorder{r: &boundedIndex{r: r, left: maxIndex}}
	in := bufio.NewReaderSize(start, maxItem)
	first, err := firstByte(in)
	if err != nil {
		return nil, err
	}
	var charts map[string]*listing
	if first == '{' {
		charts, err = readJSON(in, wanted)
	} else {
		charts, err = readLines(in, wanted)
	}
	if !errors.Is(err, errShape) {
		return charts, err
	}
	rest, readErr := io.ReadAll(io.LimitReader(start, maxLoose))
	if readErr != nil {
		return nil, readErr
	}
	if start.over || len(rest) == maxLoose {
		return nil, fmt.Errorf("%w; in any other form it may have %d bytes", err, maxLoose)
	}
	return readLoose(start.seen.Bytes(), wanted)
}

// firstByte looks past white space and a byte order mark, which it takes away.
func firstByte(in *bufio.Reader) (byte, error) {
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark))
	}
	for n := 1; ; n++ {
		text, err := in.Peek(n)
		if len(text) < n {
			if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
				return 0, &IndexError{Reason: "is empty"}
			}
			return 0, err
		}
		if c := text[n-1]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, nil
		}
	}
}

// recorder keeps the first maxLoose bytes that pass through.
type recorder struct {
	r    io.Reader
	seen bytes.Buffer
	over bool
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.over = r.over || r.seen.Len()+n > maxLoose; r.over {
		r.seen = bytes.Buffer{}
	} else {
		r.seen.Write(p[:n])
	}
	return n, err
}

type boundedIndex struct {
	r    io.Reader
	left int64
}

func (b *boundedIndex) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &IndexError{Reason: fmt.Sprintf("exceeds %d bytes", maxIndex)}
	}
	return n, err
}
