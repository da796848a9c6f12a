// Package keys owns the parsing of people's and machines' keys.
//
// It refuses to know where the text lies and what a key may open: callers bring the text, and a name to call it by in
// errors.
//
// A line of a member's file becomes a Recipient, which is an age.Recipient with the text that others see; the text of a
// private key becomes identities, which ask for a passphrase when they are first used. No error repeats what might be a
// private key.
package keys

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

const (
	// MaxText bounds the text of keys, in bytes.
	MaxText = 64 << 10
	// MaxKeys bounds the keys of one member.
	MaxKeys = 32
)

// Kind is how a key works.
type Kind string

// The kinds of keys.
const (
	Age        Kind = "age"
	AgePQ      Kind = "age-pq" // also safe against quantum computers
	SSHEd25519 Kind = "ssh-ed25519"
	SSHRSA     Kind = "ssh-rsa"
	Plugin     Kind = "plugin"
)

// ErrUnsuitable means that a public key is well formed, and that nothing can be sealed to it.
var ErrUnsuitable = errors.New("nothing can be sealed to this key")

// Recipient is a public key.
type Recipient struct {
	age.Recipient
	// Text is the key in the one form that tells it from others, without a comment.
	Text string
	// Comment is what stood behind an SSH key, usually whose it is.
	Comment string
	Kind    Kind
}

// String is the key's text.
func (r Recipient) String() string { return r.Text }

// WrapWithLabels keeps what the key says about which others may stand beside it.
func (r Recipient) WrapWithLabels(fileKey []byte) (stanzas []*age.Stanza, labels []string, err error) {
	if labelled, ok := r.Recipient.(age.RecipientWithLabels); ok {
		return labelled.WrapWithLabels(fileKey)
	}
	stanzas, err = r.Wrap(fileKey)
	return stanzas, nil, err
}

// Fingerprint is a short, stable id of a public key to show to people: "sha256:" and 16 hex digits. The comment of
// an SSH key does not count.
func Fingerprint(text string) string {
	text = strings.TrimSpace(text)
	if r, err := ParseRecipient(text); err == nil {
		text = r.Text
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("sha256:%x", sum[:8])
}

// ParseRecipient reads one public key: age1…, age1pq1…, age1PLUGIN1…, ssh-ed25519 …, or ssh-rsa … of 2,048 bits or more.
// Errors wrap ErrUnsuitable for SSH keys that only sign.
func ParseRecipient(line string) (Recipient, error) {
	line = strings.TrimSpace(line)
	switch {
	case len(line) > MaxText:
		return Recipient{}, fmt.Errorf("the key is longer than %d bytes", MaxText)
	case isPrivate(line):
		return Recipient{}, errors.New("this is a private key, and must stay with its owner: give the public one")
	case strings.HasPrefix(line, "age1"):
		return parseAge(line)
	}
	return parseSSH(line)
}

// isPrivate says whether text looks like a private key, in which case no error may repeat it.
func isPrivate(text string) bool {
	upper := strings.ToUpper(text)
	return strings.HasPrefix(upper, "AGE-SECRET-KEY-") || strings.HasPrefix(upper, "AGE-PLUGIN-") ||
		strings.HasPrefix(upper, "-----BEGIN")
}

func parseAge(line string) (Recipient, error) {
	r := Recipient{Text: line, Kind: Plugin}
	var err error
	switch {
	case strings.HasPrefix(line, "age1pq1"):
		r.Kind = AgePQ
		r.Recipient, err = age.ParseHybridRecipient(line)
	case strings.Count(line, "1") > 1:
		r.Recipient, err = parsePlugin(line)
	default:
		r.Kind = Age
		r.Recipient, err = age.ParseX25519Recipient(line)
	}
	if err != nil {
		return Recipient{}, fmt.Errorf("bad key %.80q: is it complete?", line)
	}
	return r, nil
}

func parsePlugin(line string) (age.Recipient, error) {
	name, _, err := plugin.ParseRecipient(line)
	if err != nil {
		return nil, err
	}
	if err := checkPlugin(name); err != nil {
		return nil, err
	}
	return plugin.NewRecipient(line, talk(nil))
}

var pluginName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// checkPlugin is stricter than age, because the name becomes that of a program to run.
func checkPlugin(name string) error {
	if !pluginName.MatchString(name) {
		return fmt.Errorf("bad plugin name %.80q: want lower-case letters, digits and dashes", name)
	}
	return nil
}

// ParseRecipients reads the public keys of a member's file, one a line; lines that begin with # are comments. Errors begin
// with "file:line: ".
func ParseRecipients(file string, text []byte) ([]Recipient, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%s: larger than %d bytes", file, MaxText)
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s: not a text of public keys", file)
	}
	var all []Recipient
	seen := map[string]int{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSpace(string(line))
		if line == "" || line[0] == '#' {
			continue
		}
		r, err := ParseRecipient(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		if before, ok := seen[r.Text]; ok {
			return nil, fmt.Errorf("%s:%d: the key of line %d again: remove one", file, number, before)
		}
		if seen[r.Text] = number; len(seen) > MaxKeys {
			return nil, fmt.Errorf("%s:%d: more than %d keys", file, number, MaxKeys)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: holds no public key: add a line such as age1… or ssh-ed25519 …", file)
	}
	return all, nil
}
