package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pluralsh/plural/api/bundle"
)

const (
	// memoryBytes bounds what is served from memory, readers' bundles included: two of the largest.
	memoryBytes = 64 << 20
	// memoryTime is how long a bundle is served from memory before the disk is tried again.
	memoryTime = 10 * time.Second
)

// memory holds bundles that the disk could not take, for as long as somebody asks for them.
type memory struct {
	filling *slots // one at a time: what is being written into memory is not counted yet

	mu    sync.Mutex // guards what follows, and the blobs' fields but key, data and digest
	blobs map[string]*blob
	bytes int64 // of blobs, and of those that were dropped while somebody reads them
}

func newMemory() *memory {
	return &memory{filling: newSlots(1, nil, levelMemory), blobs: map[string]*blob{}}
}

// blob is one bundle in memory.
type blob struct {
	key, digest string
	data        []byte
	until       time.Time
	readers     int
	dropped     bool
}

func newBlob(key string, from source) (*blob, error) {
	var buffer bounded
	if err := from(&buffer); err != nil {
		return nil, err
	}
	data := buffer.Bytes()
	sum := sha256.Sum256(data)
	return &blob{key: key, data: data, digest: hex.EncodeToString(sum[:])}, nil
}

func (b *blob) copyTo(w io.Writer) error {
	_, err := w.Write(b.data)
	return err
}

// open gives a bundle until the disk is to be tried again; nil otherwise.
func (m *memory) open(key string) *Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[key]
	if !ok || time.Now().After(b.until) {
		return nil
	}
	b.readers++
	body := &reader{Reader: bytes.NewReader(b.data), blob: b, memory: m}
	return &Object{ReadSeekCloser: body, Size: int64(len(b.data)), Digest: b.digest}
}

// peek gives a blob also after its time; nil when there is none.
func (m *memory) peek(key string) *blob {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blobs[key]
}

// put takes a blob in; those whose time is nearest its end go first, unless somebody reads them.
func (m *memory) put(b *blob) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.blobs[b.key]; old != nil {
		m.remove(old)
	}
	for m.bytes+int64(len(b.data)) > memoryBytes {
		oldest := m.idle()
		if oldest == nil {
			return ErrNoRoom
		}
		m.remove(oldest)
	}
	b.until = time.Now().Add(memoryTime)
	m.blobs[b.key] = b
	m.bytes += int64(len(b.data))
	return nil
}

// idle is the blob that nobody reads and that came first; nil when all are read.
func (m *memory) idle() (oldest *blob) {
	for _, b := range m.blobs {
		if b.readers == 0 && (oldest == nil || b.until.Before(oldest.until)) {
			oldest = b
		}
	}
	return oldest
}

func (m *memory) prolong(b *blob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.until = time.Now().Add(memoryTime)
}

func (m *memory) drop(b *blob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(b)
}

func (m *memory) remove(b *blob) {
	if m.blobs[b.key] != b {
		return
	}
	delete(m.blobs, b.key)
	b.dropped = true
	m.release(b)
}

// release gives back a blob's bytes once it is neither held nor read.
func (m *memory) release(b *blob) {
	if b.dropped && b.readers == 0 {
		m.bytes -= int64(len(b.data))
	}
}

func (m *memory) size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// reader is one reader's place in a blob.
type reader struct {
	*bytes.Reader
	blob   *blob
	memory *memory
	once   sync.Once
}

func (r *reader) Close() error {
	r.once.Do(func() {
		r.memory.mu.Lock()
		defer r.memory.mu.Unlock()
		r.blob.readers--
		r.memory.release(r.blob)
	})
	return nil
}

// bounded is a buffer that no bundle outgrows.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if most := bundle.DefaultLimits().Packed; int64(b.Len()+len(p)) > most {
		return 0, fmt.Errorf("bundle is larger than %d bytes", most)
	}
	return b.Buffer.Write(p)
}
