// Package seal owns one sealed file: an age file that says, under its own authentication, where it belongs.
//
// It refuses to know whose keys it is given, where files lie and what a policy wants. Bytes come in, bytes go out.
//
// Seal encrypts with age for its recipients, and adds one header stanza that names the repository, the path, and the
// groups with their epochs. The stanza stands in clear and is covered by the header's MAC, which is made with the file key;
// other age programs pass over it. Open checks the header, the MAC and every chunk before it returns the first byte,
// with the binding that the MAC has proved. Inspect reads the same claims without a key, and so proves nothing.
package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

const (
	// MaxHeader bounds the header of a sealed file, in bytes.
	MaxHeader = 1 << 20
	// MaxFile bounds a sealed file, in bytes.
	MaxFile = 32 << 20
)

var (
	// ErrNotSealed means that the bytes do not begin like an age file.
	ErrNotSealed = errors.New("not a sealed file")
	// ErrNoMatch means that the file is for none of the identities.
	ErrNoMatch = errors.New("no identity fits")
	// ErrDamaged means that the file was truncated, altered or never well formed.
	ErrDamaged = errors.New("sealed file is damaged")
)

// Seal encrypts plaintext for the recipients and binds it. The result is binary, and differs each time. Passphrases are
// refused: age lets nothing stand beside them.
func Seal(plaintext []byte, b Binding, to ...age.Recipient) ([]byte, error) {
	b = b.sorted()
	if err := b.valid(); err != nil {
		return nil, err
	}
	if len(to) == 0 {
		return nil, errors.New("no recipients: nobody could open the file")
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, b.beside(to)...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plaintext); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if sealed.Len() > MaxFile {
		return nil, fmt.Errorf("the sealed file would be %d bytes, more than %d", sealed.Len(), MaxFile)
	}
	// What nobody could open must not be written: age itself seals for more recipients than it opens.
	if _, err := Inspect(sealed.Bytes()); err != nil {
		return nil, fmt.Errorf("what was sealed for %d recipients would not open again: %w", len(to), err)
	}
	return sealed.Bytes(), nil
}

// Open decrypts a binary or armored file with the first identity that fits. It returns the whole plaintext, or nothing and
// an error that is ErrNotSealed, ErrNoMatch, ErrDamaged, or what an identity said that could not be asked. The binding is
// nil when the file has none; whether it is the right one is for the caller to Check.
//
// A passphrase is tried only when the caller brings an age.ScryptIdentity, whose limit on work is the caller's too.
func Open(sealed []byte, with ...age.Identity) ([]byte, *Binding, error) {
	file, err := parse(sealed)
	if err != nil {
		return nil, nil, err
	}
	if len(with) == 0 {
		return nil, nil, ErrNoMatch
	}
	r, err := age.Decrypt(bytes.NewReader(file.data), watched(with)...)
	if err != nil {
		return nil, nil, refused(err)
	}
	plaintext := make([]byte, 0, len(file.data)-file.header+bytes.MinRead)
	buffer := bytes.NewBuffer(plaintext)
	if _, err := buffer.ReadFrom(r); err != nil {
		clear(buffer.Bytes())
		return nil, nil, damaged(err)
	}
	return buffer.Bytes(), file.binding, nil
}

// Inspect reads the binding that a file claims, without a key: anybody could have written it. It is nil when the file has
// none. Errors are ErrNotSealed and ErrDamaged; no error means that the file has the shape of a whole age file.
func Inspect(sealed []byte) (*Binding, error) {
	file, err := parse(sealed)
	if err != nil {
		return nil, err
	}
	return file.binding, nil
}

// identityError is what an identity said instead of whether it fits: a passphrase not given, a plugin not found.
type identityError struct{ error }

func (e identityError) Unwrap() error { return e.error }

// watcher tells an identity's own trouble apart from a header that is wrong.
type watcher struct{ age.Identity }

func (w watcher) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	key, err := w.Identity.Unwrap(stanzas)
	if err != nil && !errors.Is(err, age.ErrIncorrectIdentity) {
		return nil, identityError{err}
	}
	return key, err
}

// watched leaves age's own identities as they are: they ask nobody, and age tries them first.
func watched(ids []age.Identity) []age.Identity {
	all := make([]age.Identity, len(ids))
	for i, id := range ids {
		switch id.(type) {
		case *age.X25519Identity, *age.HybridIdentity, *age.ScryptIdentity:
			all[i] = id
		default:
			all[i] = watcher{id}
		}
	}
	return all
}

// refused gives age's error its class.
func refused(err error) error {
	var noMatch *age.NoIdentityMatchError
	if errors.As(err, &noMatch) {
		return ErrNoMatch
	}
	var own identityError
	if errors.As(err, &own) {
		return own.error
	}
	return damaged(err)
}

// damaged bounds the cause: age quotes lines of the file, which may be long.
func damaged(err error) error {
	const most = 200
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrDamaged)
	}
	return fmt.Errorf("%w: %.*s", ErrDamaged, most, err.Error())
}
