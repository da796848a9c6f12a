package seal

import (
	"bytes"
	"errors"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"
)

const (
	intro     = "age-encryption.org/"
	nonceSize = 16
	tagSize   = 16
	chunkSize = 64<<10 + tagSize
	// maxLeading is how much white space age lets stand before an armor.
	maxLeading = 1024
)

// IsSealed says whether data begins like an age file of any version, binary or armored.
func IsSealed(data []byte) bool { return bytes.HasPrefix(data, []byte(intro)) || isArmored(data) }

func isArmored(data []byte) bool {
	start := data[:min(len(data), maxLeading+len(armor.Header))]
	return bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte(armor.Header))
}

// file is a sealed file that has the right shape.
type file struct {
	data    []byte // binary
	header  int    // length, with the line of the MAC
	binding *Binding
}

func parse(sealed []byte) (*file, error) {
	if !IsSealed(sealed) {
		return nil, ErrNotSealed
	}
	if len(sealed) > MaxFile {
		return nil, damaged(errors.New("it is too large"))
	}
	data := sealed
	if isArmored(sealed) {
		var err error
		if data, err = io.ReadAll(armor.NewReader(bytes.NewReader(sealed))); err != nil {
			return nil, damaged(err)
		}
	}
	header, err := headerLen(data)
	if err != nil {
		return nil, err
	}
	stanzas, err := readStanzas(data[:header])
	if err != nil {
		return nil, err
	}
	binding, err := findBinding(stanzas)
	if err != nil {
		return nil, err
	}
	if err := checkPayload(len(data) - header); err != nil {
		return nil, err
	}
	return &file{data: data, header: header, binding: binding}, nil
}

// headerLen finds the end of the header without looking into it: the first line that begins with three dashes, which
// neither a stanza nor base64 can.
func headerLen(data []byte) (int, error) {
	head := data[:min(len(data), MaxHeader)]
	last := bytes.Index(head, []byte("\n---"))
	if last >= 0 {
		if end := bytes.IndexByte(head[last+1:], '\n'); end >= 0 {
			return last + 1 + end + 1, nil
		}
	}
	if len(data) > MaxHeader {
		return 0, damaged(errors.New("its header is too large"))
	}
	return 0, damaged(io.ErrUnexpectedEOF)
}

// headerReader is an identity that fits nothing and remembers what it was shown, so that age's own parser reads the header.
type headerReader struct{ stanzas []*age.Stanza }

func (s *headerReader) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	s.stanzas = stanzas
	return nil, age.ErrIncorrectIdentity
}

func readStanzas(header []byte) ([]*age.Stanza, error) {
	var seen headerReader
	_, err := age.DecryptHeader(header, &seen)
	if seen.stanzas == nil {
		return nil, damaged(err)
	}
	for _, s := range seen.stanzas {
		if s.Type == "scrypt" && len(seen.stanzas) > 1 {
			return nil, damaged(errors.New("a passphrase stands beside other recipients"))
		}
	}
	return seen.stanzas, nil
}

// checkPayload says whether a payload of n bytes can be a nonce and whole chunks, of which only an only one may be empty.
func checkPayload(n int) error {
	n -= nonceSize
	rest := n % chunkSize
	if n < tagSize || rest > 0 && rest < tagSize || rest == tagSize && n > tagSize {
		return damaged(io.ErrUnexpectedEOF)
	}
	return nil
}
