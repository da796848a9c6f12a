package mirror

import (
	"bufio"
	"bytes"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
)

// A pack's index is git's, in its second version: a table of how many ids start with at most a byte, the ids in order,
// their checksums, where their objects start, the pack's checksum and its own.

const (
	indexMagic  = "\xfftOc\x00\x00\x00\x02"
	fanoutSize  = 256 * 4
	indexFixed  = len(indexMagic) + fanoutSize + 2*sumSize
	indexObject = sumSize + 4 + 4
)

// entry is one object of a pack.
type entry struct {
	id plumbing.Hash
	// at is where the object starts, sum the CRC-32 of its packed bytes.
	at, sum uint32
}

// index finds objects in a pack. It is kept in memory: 28 bytes an object.
type index struct {
	n               int
	fanout, ids, at []byte
}

// openIndex reads the index of the pack with the given checksum.
func openIndex(name string, pack []byte) (*index, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	n := (info.Size() - int64(indexFixed)) / int64(indexObject)
	if n < 0 || n > maxObjects {
		return nil, errors.New("read pack index: truncated or too large")
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("read pack index: %w", err)
	}
	return parseIndex(data, pack)
}

func parseIndex(data, pack []byte) (*index, error) {
	n := (len(data) - indexFixed) / indexObject
	end := len(data) - sumSize
	sum := hash.New(crypto.SHA1)
	switch {
	case n < 0 || len(data) != indexFixed+n*indexObject || !bytes.HasPrefix(data, []byte(indexMagic)):
		return nil, errors.New("read pack index: truncated or of an unknown form")
	case !bytes.Equal(data[end-sumSize:end], pack):
		return nil, errors.New("read pack index: it belongs to another pack")
	}
	_, _ = sum.Write(data[:end]) // a hash takes everything
	if !bytes.Equal(sum.Sum(nil), data[end:]) {
		return nil, errors.New("read pack index: its checksum does not match")
	}
	x := &index{n: n}
	x.fanout, data = data[len(indexMagic):len(indexMagic)+fanoutSize], data[len(indexMagic)+fanoutSize:]
	x.ids, x.at = data[:n*sumSize], data[n*(sumSize+4):n*indexObject]
	for i := range 256 {
		if x.upTo(i) < x.upTo(i-1) || x.upTo(i) > n {
			return nil, errors.New("read pack index: malformed")
		}
	}
	return x, nil
}

// upTo is how many ids start with at most this byte.
func (x *index) upTo(first int) int {
	if first < 0 {
		return 0
	}
	return int(binary.BigEndian.Uint32(x.fanout[4*first:]))
}

// find gives where an object starts.
func (x *index) find(id plumbing.Hash) (at int64, ok bool) {
	low, high := x.upTo(int(id[0])-1), x.upTo(int(id[0]))
	i := low + sort.Search(high-low, func(i int) bool {
		return bytes.Compare(x.ids[(low+i)*sumSize:(low+i+1)*sumSize], id[:]) >= 0
	})
	if i >= high || !bytes.Equal(x.ids[i*sumSize:(i+1)*sumSize], id[:]) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint32(x.at[4*i:])), true
}

// writeIndex makes the index file of a pack, in the pack's folder. It brings the entries into order.
func writeIndex(dir string, entries []entry, pack []byte) (err error) {
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.id[:], b.id[:]) })
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.id == b.id })
	tmp, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	err = encodeIndex(tmp, entries, pack)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), filepath.Join(dir, indexName(packName(pack)))); err != nil {
		return err
	}
	return syncDir(dir)
}

func encodeIndex(w io.Writer, entries []entry, pack []byte) error {
	sum := hash.New(crypto.SHA1)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	put := func(n uint32) { _, _ = out.Write(binary.BigEndian.AppendUint32(nil, n)) } // Flush tells of errors
	_, _ = out.WriteString(indexMagic)
	i := 0
	for first := range 256 {
		for i < len(entries) && int(entries[i].id[0]) == first {
			i++
		}
		put(uint32(i))
	}
	for _, e := range entries {
		_, _ = out.Write(e.id[:])
	}
	for _, e := range entries {
		put(e.sum)
	}
	for _, e := range entries {
		put(e.at)
	}
	_, _ = out.Write(pack)
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}
