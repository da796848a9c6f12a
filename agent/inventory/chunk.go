package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// maxChunk keeps a ConfigMap, with its metadata, inside what the API server accepts.
	maxChunk = 700_000
	// maxChunks bounds what one head can ask for.
	maxChunks = 100

	indexFormat = "plural.sh/inventory-chunks/v1"
)

// index is what the head of an inventory says that does not fit into one ConfigMap.
type index struct {
	Format  string  `json:"format"`
	Service string  `json:"service"`
	Chunks  []chunk `json:"chunks"`
}

// chunk is a part of the compressed text, in a ConfigMap of its own.
type chunk struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	packed []byte
}

// split cuts a compressed text. The chunks' names tell it from all others that could be written for the service, also from
// the same text on top of another version: whoever deletes the chunks of an older version never deletes these.
func split(inv *Inventory, packed []byte, size int) []chunk {
	var chunks []chunk
	for part := range slices.Chunk(packed, size) {
		content := sha256.Sum256(part)
		name := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%x", inv.stored.version, len(chunks), content))
		chunks = append(chunks, chunk{
			Name:   chunkPrefix + inv.Service + "-" + hex.EncodeToString(name[:16]),
			SHA256: hex.EncodeToString(content[:]),
			packed: part,
		})
	}
	return chunks
}

func decodeIndex(service, text string) ([]chunk, error) {
	if len(text) > maxChunk {
		return nil, fmt.Errorf("more than %d bytes", maxChunk)
	}
	var doc index
	if err := decodeStrictly([]byte(text), &doc); err != nil {
		return nil, err
	}
	switch {
	case doc.Format != indexFormat:
		return nil, fmt.Errorf("format %q: want %q", doc.Format, indexFormat)
	case doc.Service != service:
		return nil, fmt.Errorf("it is the inventory of service %q", doc.Service)
	case len(doc.Chunks) == 0 || len(doc.Chunks) > maxChunks:
		return nil, fmt.Errorf("%d chunks: want 1 to %d", len(doc.Chunks), maxChunks)
	}
	for _, c := range doc.Chunks {
		digest, ours := strings.CutPrefix(c.Name, chunkPrefix+service+"-")
		if _, err := hex.DecodeString(digest); !ours || err != nil {
			return nil, fmt.Errorf("%q is no name of a chunk of service %q", c.Name, service)
		}
	}
	return doc.Chunks, nil
}

// content is the part of the text that the ConfigMap holds.
func (c chunk) content(obj *unstructured.Unstructured) ([]byte, error) {
	packed, err := binary(obj, chunkKey)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != c.SHA256 {
		return nil, fmt.Errorf("its content is not what was written")
	}
	return packed, nil
}
