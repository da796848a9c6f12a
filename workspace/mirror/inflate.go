package mirror

import (
	"bufio"
	"cmp"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// inflaters lends what inflates objects: making it costs far more than most objects. Go-git's own is not used, because it
// lets a malformed object refer to what another one left in memory.
type inflaters struct {
	pool sync.Pool
	// most is how large an object may be that is held in memory; zero means snapshot.MaxBlob.
	most int64
}

func (z *inflaters) limit() int64 { return cmp.Or(z.most, snapshot.MaxBlob) }

// inflater reads the inflated bytes behind one header.
type inflater struct {
	file          section
	packed, plain *bufio.Reader
	zlib          io.ReadCloser
	left          int64
}

// section reads a file from some offset on.
type section struct {
	r  io.ReaderAt
	at int64
}

func (s *section) Read(p []byte) (int, error) {
	n, err := s.r.ReadAt(p, s.at)
	s.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// behind runs a function on what stands behind a header, which it must read to the end unless it fails. It gives where the
// packed bytes end, if all were read.
func (z *inflaters) behind(r io.ReaderAt, h header, read func(*inflater) error) (end int64, err error) {
	in, ok := z.pool.Get().(*inflater)
	if !ok {
		in = &inflater{packed: bufio.NewReaderSize(nil, 4096), plain: bufio.NewReaderSize(nil, 4096)}
	}
	defer z.pool.Put(in)
	in.file = section{r, h.body}
	in.packed.Reset(&in.file)
	if err = in.restart(); err == nil {
		in.left = h.size
		in.plain.Reset(in)
		err = read(in)
	}
	if err != nil {
		return 0, fmt.Errorf("object at offset %d of the pack: %w", h.at, noEOF(err))
	}
	return in.file.at - int64(in.packed.Buffered()), nil
}

func (in *inflater) restart() (err error) {
	if in.zlib == nil {
		in.zlib, err = zlib.NewReader(in.packed)
		return err
	}
	return in.zlib.(zlib.Resetter).Reset(in.packed, nil)
}

// Read gives just as many bytes as the header says. That there are no more, and that all are what was packed, is known
// with io.EOF.
func (in *inflater) Read(p []byte) (int, error) {
	if in.left > 0 {
		n, err := in.zlib.Read(p[:min(int64(len(p)), in.left)])
		in.left -= int64(n)
		if in.left > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		} else if n > 0 {
			err = nil
		}
		return n, err
	}
	n, err := in.zlib.Read(make([]byte, 1))
	if n == 0 && err == nil || n > 0 {
		return 0, fmt.Errorf("%w: it is longer than its header says", errMalformed)
	}
	return 0, err
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// end checks that nothing is left.
func (in *inflater) end() error {
	_, err := in.plain.ReadByte()
	switch {
	case err == nil:
		return fmt.Errorf("%w: something stands behind its end", errMalformed)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// inflate reads the content of an object that is no delta.
func (z *inflaters) inflate(r io.ReaderAt, h header) ([]byte, error) {
	if h.size > z.limit() {
		return nil, h.tooLarge(z.limit())
	}
	data := make([]byte, h.size)
	_, err := z.behind(r, h, func(in *inflater) error {
		if _, err := io.ReadFull(in.plain, data); err != nil {
			return err
		}
		return in.end()
	})
	return data, err
}

// deltaSizes reads the two numbers that a delta starts with: what its base measures, and what it grows to.
func (z *inflaters) deltaSizes(r io.ReaderAt, h header) (base, result int64, err error) {
	_, err = z.behind(r, h, func(in *inflater) error {
		base, result, err = readSizes(in.plain)
		return err
	})
	return base, result, err
}

func readSizes(r io.ByteReader) (base, result int64, err error) {
	var sizes [2]int64
	for i := range sizes {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return 0, 0, fmt.Errorf("%w: delta: %w", errMalformed, noEOF(err))
		}
		sizes[i] = int64(min(n, math.MaxInt64))
	}
	return sizes[0], sizes[1], nil
}

// applyDelta gives what a delta makes of its base. The delta itself is never in memory.
func (z *inflaters) applyDelta(r io.ReaderAt, h header, base []byte) (result []byte, err error) {
	_, err = z.behind(r, h, func(in *inflater) error {
		from, to, err := readSizes(in.plain)
		if err != nil {
			return err
		}
		if from != int64(len(base)) {
			return fmt.Errorf("%w: a delta of something else", errMalformed)
		}
		if to > z.limit() {
			return &snapshot.LimitError{What: "result of a delta", Size: to, Max: z.limit()}
		}
		result = make([]byte, 0, to)
		for int64(len(result)) < to {
			if result, err = instruction(in.plain, base, result, int(to)); err != nil {
				return err
			}
		}
		return in.end()
	})
	return result, err
}

// instruction carries out one of a delta: to copy from the base, or to add what follows.
func instruction(r *bufio.Reader, base, result []byte, to int) ([]byte, error) {
	what, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	room := to - len(result)
	if what&0x80 == 0 {
		n := int(what)
		if n == 0 || n > room {
			return nil, fmt.Errorf("%w: a delta adds %d bytes", errMalformed, n)
		}
		result = result[:len(result)+n]
		_, err := io.ReadFull(r, result[len(result)-n:])
		return result, err
	}
	var numbers [7]byte // four of an offset, three of a size; those that are zero are left out
	for i := range numbers {
		if what&(1<<i) != 0 {
			if numbers[i], err = r.ReadByte(); err != nil {
				return nil, err
			}
		}
	}
	at := int(binary.LittleEndian.Uint32(numbers[:4]))
	n := int(numbers[4]) | int(numbers[5])<<8 | int(numbers[6])<<16
	if n == 0 {
		n = 1 << 16
	}
	if n > room || at > len(base) || n > len(base)-at {
		return nil, fmt.Errorf("%w: a delta copies %d bytes from %d of %d", errMalformed, n, at, len(base))
	}
	return append(result, base[at:at+n]...), nil
}
