package sealer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/seal"
)

// mark stands for a ciphertext with the plaintext that it holds. Nobody without the group's identity can make one, or
// learn anything from it.
type mark [16]byte

// maxMarks bounds what is remembered; a memory that grows past it begins anew.
const maxMarks = 200_000

// Memory spares opening a file again that an earlier run opened: git asks for every file whose time changed, and opening
// is most of the work. It is a file of marks, which may be lost, and which a wrong one in it cannot deceive. It is safe
// for concurrent use.
type Memory struct {
	name string

	mu    sync.Mutex
	known map[mark]bool // guarded by mu
	grown bool          // guarded by mu
}

// Remember reads the memory in the file called name. One that is not there, or cannot be read, is empty.
func Remember(name string) *Memory {
	m := &Memory{name: name, known: map[mark]bool{}}
	text, err := os.ReadFile(name)
	if err != nil || len(text) > maxMarks*len(mark{}) {
		return m
	}
	for ; len(text) >= len(mark{}); text = text[len(mark{}):] {
		m.known[mark(text)] = true
	}
	return m
}

// Save writes the memory, if it has grown.
func (m *Memory) Save() (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.grown {
		return nil
	}
	var all bytes.Buffer
	for one := range m.known {
		all.Write(one[:])
	}
	if err := os.MkdirAll(filepath.Dir(m.name), 0o700); err != nil {
		return fmt.Errorf("write memory of sealed files: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(m.name), "known-*")
	if err != nil {
		return fmt.Errorf("write memory of sealed files: %w", err)
	}
	_, err = file.Write(all.Bytes())
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), m.name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write memory of sealed files: %w", err)
	}
	return nil
}

func (m *Memory) has(one mark) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[one]
}

func (m *Memory) add(one mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[one] {
		return
	}
	if len(m.known) >= maxMarks {
		clear(m.known)
	}
	m.known[one], m.grown = true, true
}

// marker makes marks under one group's identity.
type marker struct{ key [sha256.Size]byte }

// newMarker derives a key that says nothing of the identity. It is false for an identity without a text.
func newMarker(id age.Identity) (marker, bool) {
	secret, ok := id.(fmt.Stringer)
	if !ok {
		return marker{}, false
	}
	return marker{sha256.Sum256([]byte("plural memory of sealed files\x00" + secret.String()))}, true
}

func (k marker) mark(sealed, plaintext []byte) mark {
	mac := hmac.New(sha256.New, k.key[:])
	digest := sha256.Sum256(sealed)
	mac.Write(digest[:])
	mac.Write(plaintext)
	return mark(mac.Sum(nil))
}

// markerFor is the marker of the first group of a file that the person can reach; false when nothing is remembered.
func (v *Vault) markerFor(claims *seal.Binding) (marker, bool) {
	if v.config.Memory == nil || claims == nil {
		return marker{}, false
	}
	ring, err := v.ring()
	if err != nil {
		return marker{}, false
	}
	for _, epoch := range claims.Groups {
		if id := v.identity(ring, epoch); id != nil {
			return newMarker(id)
		}
	}
	return marker{}, false
}

// remembers says whether an earlier run found that sealed holds plaintext.
func (v *Vault) remembers(claims *seal.Binding, sealed, plaintext []byte) bool {
	k, ok := v.markerFor(claims)
	return ok && v.config.Memory.has(k.mark(sealed, plaintext))
}

// remember notes what was opened and verified.
func (v *Vault) remember(claims *seal.Binding, sealed, plaintext []byte) {
	if k, ok := v.markerFor(claims); ok {
		v.config.Memory.add(k.mark(sealed, plaintext))
	}
}
