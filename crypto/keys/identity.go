package keys

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"filippo.io/age"
	"filippo.io/age/armor"
	"filippo.io/age/plugin"
)

// MaxWork bounds what one try of a passphrase may cost: 2 to this power steps of scrypt, which take a quarter of a
// gigabyte and about a second. It is what the age program asks for.
const MaxWork = 18

// Passphrase asks a person for a passphrase.
type Passphrase = func(prompt string) (string, error)

// ErrPassphrase means that a key is under a passphrase, and that there is nobody to ask for it.
var ErrPassphrase = errors.New("needs a passphrase, which is asked for on a terminal only")

// ParseIdentities reads a person's private keys: a file of age identities, a private SSH key, or such a file under
// a passphrase, which is asked for when the identity is first used. With ask nil, the latter and an encrypted SSH key
// are refused with ErrPassphrase. Name is what errors and prompts call the text.
//
// A line AGE-PLUGIN-NAME-1… makes an identity that runs the program age-plugin-NAME. It stands in a file of the person's
// own; what a stranger could have written belongs to age.ParseIdentities, which knows no programs.
func ParseIdentities(name string, text []byte, ask Passphrase) ([]age.Identity, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, MaxText)
	}
	start := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case bytes.HasPrefix(start, []byte("age-encryption.org/")), bytes.HasPrefix(start, []byte(armor.Header)):
		return lockedFile(name, text, ask)
	case bytes.HasPrefix(start, []byte("-----BEGIN")):
		id, err := parseSSHIdentity(name, start, ask)
		if err != nil {
			return nil, err
		}
		return []age.Identity{id}, nil
	}
	return parseLines(name, text, ask)
}

func parseLines(name string, text []byte, ask Passphrase) ([]age.Identity, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s: not a text of private keys", name)
	}
	var all []age.Identity
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSpace(string(line))
		if line == "" || line[0] == '#' {
			continue
		}
		id, err := parseIdentity(line, ask)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if all = append(all, id); len(all) > MaxKeys {
			return nil, fmt.Errorf("%s:%d: more than %d keys", name, number, MaxKeys)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: holds no private key: want a line AGE-SECRET-KEY-1… or a private SSH key", name)
	}
	return all, nil
}

// parseIdentity repeats nothing of the line in its errors.
func parseIdentity(line string, ask Passphrase) (age.Identity, error) {
	var id age.Identity
	var err error
	switch {
	case strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1"):
		id, err = age.ParseHybridIdentity(line)
	case strings.HasPrefix(line, "AGE-SECRET-KEY-1"):
		id, err = age.ParseX25519Identity(line)
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		id, err = parsePluginIdentity(line, ask)
	case strings.HasPrefix(line, "age1"), strings.HasPrefix(line, "ssh-"):
		return nil, errors.New("this is a public key: the private one is wanted")
	default:
		return nil, errors.New("not a private key: want AGE-SECRET-KEY-1…, AGE-SECRET-KEY-PQ-1… or AGE-PLUGIN-NAME-1…")
	}
	if err != nil {
		return nil, errors.New("the private key is malformed: is it complete?")
	}
	return id, nil
}

func parsePluginIdentity(line string, ask Passphrase) (age.Identity, error) {
	name, _, err := plugin.ParseIdentity(line)
	if err != nil {
		return nil, err
	}
	if err := checkPlugin(name); err != nil {
		return nil, err
	}
	id, err := plugin.NewIdentity(line, talk(ask))
	if err != nil {
		return nil, err
	}
	return &oneByOne{Identity: id}, nil
}

// talk lets a plugin ask its questions. What it only wants to say is dropped: there is nobody here to say it to.
func talk(ask Passphrase) *plugin.ClientUI {
	ui := &plugin.ClientUI{DisplayMessage: func(string, string) error { return nil }}
	if ask == nil {
		return ui
	}
	ui.RequestValue = func(name, prompt string, _ bool) (string, error) { return ask(name + ": " + prompt) }
	ui.Confirm = func(name, prompt, yes, no string) (bool, error) {
		answer, err := ask(fmt.Sprintf("%s: %s (%s or %s)", name, prompt, yes, no))
		return strings.EqualFold(strings.TrimSpace(answer), yes), err
	}
	return ui
}

// RecipientOf returns the public half of an age identity, or of an SSH key that ParseIdentities read. A plugin's is not
// known, nor is that of a file under a passphrase.
func RecipientOf(id age.Identity) (text string, ok bool) {
	switch id := id.(type) {
	case *age.X25519Identity:
		return id.Recipient().String(), true
	case *age.HybridIdentity:
		return id.Recipient().String(), true
	case interface{ recipient() string }:
		return id.recipient(), true
	}
	return "", false
}

// locked is a file of identities under a passphrase.
type locked struct {
	open func() ([]age.Identity, error) // asks once, whatever the answer
}

func lockedFile(name string, text []byte, ask Passphrase) ([]age.Identity, error) {
	if ask == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrPassphrase)
	}
	open := func() ([]age.Identity, error) { return openFile(name, text, ask) }
	return []age.Identity{&locked{open: sync.OnceValues(open)}}, nil
}

// String hides the keys.
func (l *locked) String() string { return "[redacted]" }

// GoString hides the keys.
func (l *locked) GoString() string { return "[redacted]" }

// Unwrap opens the file of identities, and tries each.
func (l *locked) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	ids, err := l.open()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		fileKey, err := id.Unwrap(stanzas)
		if !errors.Is(err, age.ErrIncorrectIdentity) {
			return fileKey, err
		}
	}
	return nil, age.ErrIncorrectIdentity
}

func openFile(name string, text []byte, ask Passphrase) ([]age.Identity, error) {
	passphrase, err := ask("Passphrase of " + name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, fmt.Errorf("%s: the passphrase is empty", name)
	}
	id.SetMaxWorkFactor(MaxWork)
	plaintext, err := decrypt(text, id)
	defer clear(plaintext)
	if err != nil {
		// Never age.ErrIncorrectIdentity: that would pass for a key that is merely another one.
		return nil, fmt.Errorf("%s: the passphrase is wrong, or the file is damaged or was made with a dearer one than 2^%d", name, MaxWork)
	}
	return parseLines(name, plaintext, ask)
}

func decrypt(text []byte, id age.Identity) ([]byte, error) {
	var in io.Reader = bytes.NewReader(text)
	if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte(armor.Header)) {
		in = armor.NewReader(in)
	}
	r, err := age.Decrypt(in, id)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
