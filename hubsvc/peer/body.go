package peer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync/atomic"
	"time"

	"github.com/pluralsh/plural/api/bundle"
)

var errStalled = fmt.Errorf("it sent nothing for %s", stallTime)

// liveBody is an answer's body that fails when nothing comes any more, and counts what does.
type liveBody struct {
	io.ReadCloser
	ctx   context.Context //nolint:containedctx // the request's own, to tell why it ended
	stall *time.Timer
	end   func()
	count *atomic.Int64
}

func (b *liveBody) Read(p []byte) (int, error) {
	b.stall.Reset(stallTime)
	n, err := b.ReadCloser.Read(p)
	b.stall.Stop() // what the reader does with it may take longer
	b.count.Add(int64(n))
	if cause := context.Cause(b.ctx); err != nil && !errors.Is(err, io.EOF) && cause != nil {
		err = cause
	}
	return n, err
}

func (b *liveBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// verified is a bundle on its way, which does not end well unless it has its digest.
type verified struct {
	io.ReadCloser
	sum  hash.Hash
	want []byte
	left int64
}

func newVerified(body io.ReadCloser, want []byte) *verified {
	return &verified{ReadCloser: body, sum: sha256.New(), want: want, left: bundle.DefaultLimits().Packed}
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.sum.Write(p[:n])
	if v.left -= int64(n); v.left < 0 {
		return n, fmt.Errorf("bundle is larger than %d bytes", bundle.DefaultLimits().Packed)
	}
	if errors.Is(err, io.EOF) && !bytes.Equal(v.sum.Sum(nil), v.want) {
		return n, fmt.Errorf("bundle arrived with digest %x instead of %x", v.sum.Sum(nil), v.want)
	}
	return n, err
}

// resumed is a file of known size that is asked for again, from where it broke off.
type resumed struct {
	open  func(from int64) (io.ReadCloser, error)
	body  io.ReadCloser // nil before the first read, and after a break
	at    int64
	size  int64
	tries int
}

func (r *resumed) Read(p []byte) (int, error) {
	for {
		if r.at == r.size {
			return 0, io.EOF
		}
		n, err := r.read(p[:min(int64(len(p)), r.size-r.at)])
		r.at += int64(n)
		var final *finalError
		if err != nil {
			if r.tries--; r.tries < 0 || errors.As(err, &final) {
				return n, err
			}
		}
		if n > 0 {
			return n, nil
		}
	}
}

func (r *resumed) read(p []byte) (int, error) {
	if r.body == nil {
		body, err := r.open(r.at)
		if err != nil {
			return 0, err
		}
		r.body = body
	}
	n, err := r.body.Read(p)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		_ = r.Close() // what it says now is less than err
	}
	return n, err
}

func (r *resumed) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}

// finalError is one that asking again does not help.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }
