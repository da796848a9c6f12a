package completions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/pluralsh/plural/internal/replace"
)

// Bounds of the cache.
const (
	fresh     = 5 * time.Second
	maxAnswer = 1 << 20 // bytes of one answer
	maxKept   = 64      // answers
)

// Cache keeps a hub's answers on disk for a few seconds. The zero value keeps none.
type Cache struct {
	// Dir is a folder of its own; whatever is in it may be deleted.
	Dir string
	// Hub is whose answers they are.
	Hub string
	Now func() time.Time
}

type answer struct {
	At    time.Time `json:"at"`
	Words []Word    `json:"words"`
}

func (c Cache) name(kind Kind, prefix string) string {
	sum := sha256.Sum256([]byte(c.Hub + "\x00" + string(kind) + "\x00" + prefix))
	return hex.EncodeToString(sum[:12]) + ".json"
}

func (c Cache) get(kind Kind, prefix string) ([]Word, bool) {
	if c.Dir == "" {
		return nil, false
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, false
	}
	defer root.Close()
	file, err := root.Open(c.name(kind, prefix))
	if err != nil {
		return nil, false
	}
	defer file.Close()
	var kept answer
	if json.NewDecoder(io.LimitReader(file, maxAnswer)).Decode(&kept) != nil {
		return nil, false
	}
	age := c.Now().Sub(kept.At)
	return kept.Words, age >= 0 && age < fresh
}

// put keeps an answer. It is no matter when that fails: the hub is asked again.
func (c Cache) put(kind Kind, prefix string, words []Word) {
	if c.Dir == "" || os.MkdirAll(c.Dir, 0o700) != nil {
		return
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return
	}
	defer root.Close()
	if old, err := os.ReadDir(c.Dir); err == nil && len(old) >= maxKept {
		for _, entry := range old {
			_ = root.Remove(entry.Name())
		}
	}
	text, err := json.Marshal(answer{c.Now(), words})
	if err == nil {
		_ = replace.File(root, c.name(kind, prefix), text, 0o600)
	}
}
