package pipe_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/api/tunnelapi/pipe"
)

// message is one as gRPC's libraries write it.
func message(t *testing.T, data []byte) []byte {
	t.Helper()
	body, err := proto.Marshal(&tunnelapi.Chunk{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 20_000)
	var wire bytes.Buffer
	flushes := 0
	w := pipe.NewWriter(&wire, func() error { flushes++; return nil })
	for _, part := range [][]byte{want[:1], want[1:100], nil, want[100:]} {
		if n, err := w.Write(part); n != len(part) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if flushes != 4 {
		t.Errorf("%d flushes", flushes)
	}
	if got, err := io.ReadAll(iotest.OneByteReader(pipe.NewReader(iotest.HalfReader(&wire)))); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestTheFormIsThatOfGRPC(t *testing.T) {
	var wire bytes.Buffer
	if _, err := pipe.NewWriter(&wire, func() error { return nil }).Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if want := message(t, []byte("hello")); !bytes.Equal(wire.Bytes(), want) {
		t.Errorf("%x, want %x", wire.Bytes(), want)
	}
	mixed := append(message(t, nil), append(message(t, []byte("a")), message(t, []byte("b"))...)...)
	if got, err := io.ReadAll(pipe.NewReader(bytes.NewReader(mixed))); err != nil || string(got) != "ab" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhatIsNoChunkIsAnError(t *testing.T) {
	good := message(t, []byte("hello"))
	for name, wire := range map[string][]byte{
		"compressed":  append([]byte{1}, good[1:]...),
		"too long":    {0, 0xff, 0xff, 0xff, 0xff},
		"cut short":   good[:len(good)-1],
		"half a head": good[:3],
		"no message":  {0, 0, 0, 0, 1, 0xff},
	} {
		if _, err := io.ReadAll(pipe.NewReader(bytes.NewReader(wire))); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 3, 0x0a, 1, 'x'})
	f.Add([]byte{0, 0, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, wire []byte) {
		whole, err := io.ReadAll(pipe.NewReader(bytes.NewReader(wire)))
		if len(whole) > len(wire) {
			t.Errorf("%d bytes carry %d", len(wire), len(whole))
		}
		// However it arrives, it reads the same.
		parts, again := io.ReadAll(pipe.NewReader(iotest.OneByteReader(bytes.NewReader(wire))))
		if !bytes.Equal(whole, parts) || (err == nil) != (again == nil) || errors.Is(err, io.ErrUnexpectedEOF) != errors.Is(again, io.ErrUnexpectedEOF) {
			t.Errorf("%x, %v; in parts %x, %v", whole, err, parts, again)
		}
		if err != nil {
			return
		}
		var wire2 bytes.Buffer
		if _, err := pipe.NewWriter(&wire2, func() error { return nil }).Write(whole); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(pipe.NewReader(&wire2)); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("%x, %v; want %x", got, err, whole)
		}
	})
}
