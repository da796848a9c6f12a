package inventory

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// codec makes inventories small. It is safe for concurrent use.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// newCodec takes little memory: an agent has one for as long as it runs.
func newCodec() (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("prepare compression: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxText))
	if err != nil {
		return nil, fmt.Errorf("prepare compression: %w", err)
	}
	return &codec{encoder, decoder}, nil
}

func (c *codec) pack(text []byte) []byte { return c.encoder.EncodeAll(text, nil) }

// unpack gives at most maxText bytes.
func (c *codec) unpack(packed []byte) ([]byte, error) {
	text, err := c.decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return text, nil
}
