package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unique"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

// packed is what a report says, small: a fleet's reports as messages would take ten times the memory. Two reports that
// say the same are equal, and clusters with equal services share their bytes.
type packed struct {
	boot, root, rest unique.Handle[string]
	// issuer is a TokenIssuer, which no two clusters share; empty: none.
	issuer unique.Handle[string]
}

// version is the first byte of a stored value; no protobuf message begins with it.
const version = 0

// packer turns reports into bytes and back. It is safe for concurrent use.
type packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newPacker() (*packer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(64<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("prepare compression: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(4*api.MaxReportBytes))
	if err != nil {
		return nil, fmt.Errorf("prepare compression: %w", err)
	}
	return &packer{encoder, decoder}, nil
}

// pack takes a report apart: what differs from one report of an agent to the next is not in the result.
func (p *packer) pack(r *api.Report) (packed, error) {
	boot, root := r.GetBoot(), r.GetRoot()
	issuer, err := packIssuer(r.GetTokenIssuer())
	if err != nil {
		return packed{}, err
	}
	r.Boot, r.Root, r.Sequence, r.ReceivedUnixMs, r.TokenIssuer = "", "", 0, 0, nil
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return packed{}, fmt.Errorf("encode: %w", err)
	}
	rest := string(p.encoder.EncodeAll(body, nil))
	return packed{unique.Make(boot), unique.Make(root), unique.Make(rest), issuer}, nil
}

func packIssuer(i *api.TokenIssuer) (unique.Handle[string], error) {
	if i == nil {
		return unique.Make(""), nil
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(i)
	if err != nil {
		return unique.Handle[string]{}, fmt.Errorf("encode: %w", err)
	}
	return unique.Make(string(text)), nil
}

// tokenIssuer is what packIssuer kept; nil: nothing.
func (p packed) tokenIssuer() (*api.TokenIssuer, error) {
	text := p.issuer.Value()
	if text == "" {
		return nil, nil
	}
	i := new(api.TokenIssuer)
	if err := proto.Unmarshal([]byte(text), i); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return i, nil
}

// unpack makes a report of what pack kept.
func (p *packer) unpack(from packed) (*api.Report, error) {
	body, err := p.decoder.DecodeAll([]byte(from.rest.Value()), nil)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	r := new(api.Report)
	if err := proto.Unmarshal(body, r); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	r.Boot, r.Root = from.boot.Value(), from.root.Value()
	if r.TokenIssuer, err = from.tokenIssuer(); err != nil {
		return nil, err
	}
	return r, nil
}

// value is how a report is stored: the version, the length of a Report with what pack leaves out, that Report, the
// rest.
func (k *known) value() ([]byte, error) {
	issuer, err := k.packed.tokenIssuer()
	if err != nil {
		return nil, err
	}
	head, err := proto.Marshal(&api.Report{
		Boot: k.packed.boot.Value(), Root: k.packed.root.Value(), Sequence: k.sequence, ReceivedUnixMs: k.received, TokenIssuer: issuer,
	})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	value := binary.AppendUvarint([]byte{version}, uint64(len(head)))
	return append(append(value, head...), k.packed.rest.Value()...), nil
}

// parse reads what value wrote.
func parse(value []byte) (k known, err error) {
	if len(value) == 0 || value[0] != version {
		return known{}, errors.New("stored by another version")
	}
	length, n := binary.Uvarint(value[1:])
	if rest := value[1+max(n, 0):]; n > 0 && length <= uint64(len(rest)) {
		head := new(api.Report)
		if err := proto.Unmarshal(rest[:length], head); err != nil {
			return known{}, fmt.Errorf("decode: %w", err)
		}
		issuer, err := packIssuer(head.GetTokenIssuer())
		if err != nil {
			return known{}, err
		}
		return known{
			packed:   packed{unique.Make(head.GetBoot()), unique.Make(head.GetRoot()), unique.Make(string(rest[length:])), issuer},
			sequence: head.GetSequence(), received: head.GetReceivedUnixMs(),
		}, nil
	}
	return known{}, errors.New("cut off")
}
