// Package pipe owns a connection's bytes as chunks of a gRPC stream.
//
// It knows neither HTTP nor what the bytes are. Both ends write it by hand instead of by a gRPC library, whose server inside
// an HTTP server takes in what nobody reads without a bound.
package pipe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// ContentType is that of both directions.
const ContentType = "application/grpc"

const (
	// prefix is the length of what stands before each message: a flag for compression, and the message's length.
	prefix = 5
	// maxMessage bounds one message that is read, in bytes: our own are half of it.
	maxMessage = 2 * tunnelapi.MaxData
)

var errCompressed = errors.New("a message of the pipe is compressed")

type reader struct {
	from   io.Reader
	head   [prefix]byte
	buffer []byte
	left   []byte // of the newest chunk, inside its own memory
}

// NewReader returns what the chunks in a direction of the call carry.
func NewReader(from io.Reader) io.Reader { return &reader{from: from} }

func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.left) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// next reads one message. The end between two messages is io.EOF, that within one is not.
func (r *reader) next() error {
	if _, err := io.ReadFull(r.from, r.head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(r.head[1:])
	switch {
	case r.head[0] != 0:
		return errCompressed
	case size > maxMessage:
		return fmt.Errorf("a message of the pipe has %d bytes, and may have %d", size, maxMessage)
	case int(size) > cap(r.buffer):
		r.buffer = make([]byte, size)
	}
	r.buffer = r.buffer[:size]
	if _, err := io.ReadFull(r.from, r.buffer); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	var chunk tunnelapi.Chunk
	if err := proto.Unmarshal(r.buffer, &chunk); err != nil {
		return errors.New("a message of the pipe is not a chunk")
	}
	r.left = chunk.GetData()
	return nil
}

type writer struct {
	to     io.Writer
	flush  func() error
	buffer []byte
}

// NewWriter returns where to write what chunks in a direction of the call are to carry. Flush is called after each Write.
func NewWriter(to io.Writer, flush func() error) io.Writer { return &writer{to: to, flush: flush} }

func (w *writer) Write(p []byte) (written int, err error) {
	for len(p) > written {
		data := p[written:min(len(p), written+tunnelapi.MaxData)]
		size := protowire.SizeTag(1) + protowire.SizeBytes(len(data))
		w.buffer = binary.BigEndian.AppendUint32(append(w.buffer[:0], 0), uint32(size))
		w.buffer = protowire.AppendBytes(protowire.AppendTag(w.buffer, 1, protowire.BytesType), data)
		if _, err := w.to.Write(w.buffer); err != nil {
			return written, err
		}
		written += len(data)
	}
	return written, w.flush()
}
