package tunnel

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// raw is a message that passes through undecoded. Whoever received it frees its data.
type raw struct{ data mem.BufferSlice }

// rawCodec leaves messages as they are. It has the name of the codec that both ends use.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*raw)
	if !ok {
		return nil, fmt.Errorf("%T does not pass between replicas", v)
	}
	m.data.Ref() // gRPC frees its own
	return m.data, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*raw)
	if !ok {
		return fmt.Errorf("%T does not pass between replicas", v)
	}
	data.Ref() // gRPC frees its own
	m.data = data
	return nil
}
