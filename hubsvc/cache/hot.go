package cache

import (
	"bytes"
	"sync"
)

const (
	// hotFile is the largest file that is kept in memory: below it, opening a file costs more than sending it. A larger
	// one is sent from disk, where the kernel can do so by itself.
	hotFile = 256 << 10
	// hotBytes bounds each of the two halves.
	hotBytes = 8 << 20
)

// hot holds the bytes of small files that are asked for again and again, by the file's name, which stands for its
// content. It has two halves: when the younger is full it becomes the older, which is forgotten; what is still in use
// comes back with its next reader. The zero value is empty.
type hot struct {
	mu           sync.RWMutex // guards what follows
	young, older map[string][]byte
	bytes        int // of the younger half
}

// open gives a file from memory; nil when it is not there.
func (h *hot) open(f *file) *Object {
	h.mu.RLock()
	data, young := h.young[f.name]
	if !young {
		data = h.older[f.name]
	}
	h.mu.RUnlock()
	if data == nil {
		return nil
	}
	if !young {
		h.keep(f, data)
	}
	return &Object{ReadSeekCloser: bytesFile{bytes.NewReader(data)}, Size: f.size, Digest: f.digest}
}

func (h *hot) keep(f *file, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.young == nil || h.bytes+len(data) > hotBytes {
		h.older, h.young, h.bytes = h.young, make(map[string][]byte), 0
	}
	if _, there := h.young[f.name]; !there {
		h.young[f.name] = data
		h.bytes += len(data)
	}
}

func (h *hot) size() (size int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, half := range []map[string][]byte{h.young, h.older} {
		for _, data := range half {
			size += int64(len(data))
		}
	}
	return size
}

// bytesFile needs no closing.
type bytesFile struct{ *bytes.Reader }

func (bytesFile) Close() error { return nil }
