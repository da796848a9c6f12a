package identities

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/pluralsh/plural/crypto/keys"
)

// Options say how an identity is made and kept.
type Options struct {
	// PostQuantum makes a hybrid identity, which a quantum computer does not break.
	PostQuantum bool
	// Passphrase, when not empty, protects the file.
	Passphrase string
	// Keyring keeps the identity in the operating system's keyring instead of a file.
	Keyring bool
}

// Create makes a fresh identity and saves it. It returns the public half and where the private one lies.
func (s Source) Create(name string, o Options) (recipient, place string, err error) {
	id, err := generate(o.PostQuantum)
	if err != nil {
		return "", "", fmt.Errorf("make identity: %w", err)
	}
	return s.Save(name, []age.Identity{id}, o)
}

func generate(postQuantum bool) (age.Identity, error) {
	if postQuantum {
		return age.GenerateHybridIdentity()
	}
	return age.GenerateX25519Identity()
}

// Save keeps ids under name, and never over what stands there: an identity of that name is an error that wraps
// fs.ErrExist. It returns the first one's public half and where the private ones lie.
func (s Source) Save(name string, ids []age.Identity, o Options) (recipient, place string, err error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`).MatchString(name) {
		return "", "", fmt.Errorf("identity name %q: use at most 63 letters, digits, dots, dashes and underscores", name)
	}
	text, recipient, err := write(ids)
	if err != nil {
		return "", "", err
	}
	root, err := s.makeFolder()
	if err != nil {
		return "", "", err
	}
	defer root.Close()
	for _, ext := range []string{plainExt, sealedExt, keyringExt} {
		if _, err := root.Lstat(name + ext); err == nil {
			return "", "", fmt.Errorf("save identity %q: %s: %w", name, filepath.Join(s.Dir, name+ext), fs.ErrExist)
		}
	}
	place, err = s.keep(root, name, text, recipient, o)
	return recipient, place, err
}

// keep puts the text where o wants it.
func (s Source) keep(root *os.Root, name string, text []byte, recipient string, o Options) (place string, err error) {
	if o.Keyring {
		marker := "# the identity is in the operating system's keyring, filed under " + service + "\n# public key: " + recipient + "\n"
		if err := settle(root, name+keyringExt, []byte(marker)); err != nil {
			return "", err
		}
		if err := s.toKeyring(name, text); err != nil {
			return "", errors.Join(err, root.Remove(name+keyringExt))
		}
		return "the keyring", nil
	}
	file := name + plainExt
	if o.Passphrase != "" {
		file = name + sealedExt
		if text, err = protect(text, o.Passphrase); err != nil {
			return "", err
		}
	}
	return filepath.Join(s.Dir, file), settle(root, file, text)
}

// write is the identity file's text, in the form of age-keygen, with the first identity's public half.
func write(ids []age.Identity) (text []byte, recipient string, err error) {
	var b bytes.Buffer
	for _, id := range ids {
		public, ok := keys.RecipientOf(id)
		private, prints := id.(fmt.Stringer)
		if !ok || !prints || !strings.HasPrefix(private.String(), "AGE-SECRET-KEY-") {
			return nil, "", errors.New("only age identities can be saved: an SSH key stays where it is")
		}
		if recipient == "" {
			recipient = public
		}
		fmt.Fprintf(&b, "# public key: %s\n%s\n", public, private)
	}
	if recipient == "" {
		return nil, "", errors.New("there is no identity to save")
	}
	return b.Bytes(), recipient, nil
}

// protect seals text with a passphrase, as age -p does.
func protect(text []byte, passphrase string) ([]byte, error) {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, fmt.Errorf("protect identity: %w", err)
	}
	var b bytes.Buffer
	armored := armor.NewWriter(&b)
	sealed, err := age.Encrypt(armored, to)
	if err == nil {
		_, err = sealed.Write(text)
	}
	if err == nil {
		err = errors.Join(sealed.Close(), armored.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("protect identity: %w", err)
	}
	return b.Bytes(), nil
}

// unprotect opens what protect, or age -p, sealed.
func unprotect(name string, sealed []byte, ask keys.Passphrase) ([]byte, error) {
	if ask == nil {
		return nil, fmt.Errorf("%s: %w", name, keys.ErrPassphrase)
	}
	passphrase, err := ask("Passphrase of " + name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, fmt.Errorf("%s: the passphrase is empty", name)
	}
	id.SetMaxWorkFactor(keys.MaxWork)
	var in io.Reader = bytes.NewReader(sealed)
	if bytes.HasPrefix(sealed, []byte(armor.Header)) {
		in = armor.NewReader(in)
	}
	plaintext, err := age.Decrypt(in, id)
	if err != nil {
		return nil, fmt.Errorf("%s: the passphrase is wrong, or the file is damaged", name)
	}
	return readBounded(plaintext, name)
}

func (s Source) makeFolder() (*os.Root, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of identities: %w", err)
	}
	root, err := s.folder()
	if err == nil && root == nil {
		err = fmt.Errorf("make folder of identities %q: %w", s.Dir, fs.ErrNotExist)
	}
	return root, err
}

// settle puts content beside name and links it into place, which fails when something stands there.
func settle(root *os.Root, name string, content []byte) error {
	temp := "." + name + ".new"
	_ = root.Remove(temp)                    // of a run that was killed
	defer func() { _ = root.Remove(temp) }() // its other name stays
	file, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	if err := root.Link(temp, name); err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	return nil
}
