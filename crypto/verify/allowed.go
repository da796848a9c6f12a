package verify

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// signer is one line of authorized_keys or allowed_signers.
type signer struct {
	key ssh.PublicKey
	// name is the line's principals, or else its comment.
	name string
	// namespaces are patterns; nil allows every namespace.
	namespaces []string
	// after and before bound when the key may sign; zero does not.
	after, before time.Time
}

func (k *Keys) addLines(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("not a file of public keys: want OpenPGP, SSH or PEM")
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSpace(string(line))
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := parseSigner(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		k.ssh = append(k.ssh, s)
	}
	return nil
}

// parseSigner reads "TYPE KEY [COMMENT]", or "PRINCIPALS [OPTIONS] TYPE KEY [COMMENT]" as ssh-keygen does for -Y
// verify.
func parseSigner(line string) (signer, error) {
	first, rest := cutField(line)
	if key, comment, ok := parseKey(first, rest); ok {
		return newSigner(signer{key: key, name: comment})
	}
	second, afterSecond := cutField(rest)
	s := signer{name: strings.Trim(first, `"`)}
	if strings.ContainsAny(first, `=`) {
		return signer{}, errors.New("options before an SSH key: want TYPE KEY or PRINCIPALS OPTIONS TYPE KEY")
	}
	var ok bool
	if s.key, _, ok = parseKey(second, afterSecond); ok {
		return newSigner(s)
	}
	third, afterThird := cutField(afterSecond)
	if s.key, _, ok = parseKey(third, afterThird); !ok {
		return signer{}, errors.New("not an SSH public key: want TYPE KEY [COMMENT] or PRINCIPALS [OPTIONS] TYPE KEY")
	}
	if err := s.options(second); err != nil {
		return signer{}, err
	}
	return newSigner(s)
}

// cutField cuts off what stands before the first blank that is not quoted.
func cutField(line string) (field, rest string) {
	quoted := false
	for i, c := range line {
		if c == '"' {
			quoted = !quoted
		}
		if (c == ' ' || c == '\t') && !quoted {
			return line[:i], strings.TrimLeft(line[i:], " \t")
		}
	}
	return line, ""
}

// parseKey wants the key's type to stand before it, so that no option or principal can pass for it.
func parseKey(kind, rest string) (key ssh.PublicKey, comment string, ok bool) {
	encoded, comment := cutField(rest)
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(kind + " " + encoded))
	if err != nil || len(options) > 0 || key.Type() != kind {
		return nil, "", false
	}
	return key, comment, true
}

func newSigner(s signer) (signer, error) {
	if _, ok := s.key.(*ssh.Certificate); ok {
		return signer{}, errors.New("certificates are not supported: give the plain public key")
	}
	if err := strongSSH(s.key); err != nil {
		return signer{}, err
	}
	if s.name = printable(strings.TrimSpace(s.name)); s.name == "" {
		s.name = "a key without a name"
	}
	return s, nil
}

func strongSSH(key ssh.PublicKey) error {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return nil
	case ssh.KeyAlgoRSA:
		public, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			return fmt.Errorf("the SSH key is %w", ErrWeak)
		}
		if key, ok := public.CryptoPublicKey().(*rsa.PublicKey); !ok || key.N.BitLen() < minRSA {
			return fmt.Errorf("the SSH key is %w: RSA of less than %d bits", ErrWeak, minRSA)
		}
		return nil
	}
	return fmt.Errorf("the SSH key is %w: %.60q", ErrWeak, key.Type())
}

// options reads what stands between principals and key, separated by commas outside quotes.
func (s *signer) options(text string) error {
	for text != "" {
		var option string
		option, text = cutOption(text)
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		var err error
		switch strings.ToLower(name) {
		case "namespaces":
			s.namespaces = strings.Split(value, ",")
		case "valid-after":
			s.after, err = parseTime(value)
		case "valid-before":
			s.before, err = parseTime(value)
		case "cert-authority":
			err = errors.New("certificates are not supported: give the plain public key")
		default:
			err = fmt.Errorf("unknown option %.40q: want namespaces, valid-after or valid-before", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func cutOption(text string) (option, rest string) {
	quoted := false
	for i, c := range text {
		if c == '"' {
			quoted = !quoted
		}
		if c == ',' && !quoted {
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// parseTime reads ssh-keygen's times. Without a Z they are in UTC too, for every machine has to come to one verdict.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.Parse(layout, strings.TrimSuffix(text, "Z")); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("bad time %.40q: want YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, in UTC", text)
}

// allows says whether the line's key may sign for a namespace at a time.
func (s *signer) allows(namespace string, at time.Time) error {
	switch {
	case !s.includes(namespace):
		return fmt.Errorf("the key of %s is %w: its namespaces do not include %q", s.name, ErrNamespace, namespace)
	case !s.after.IsZero() && at.Before(s.after):
		return fmt.Errorf("the key of %s is %w: it counts from %s on", s.name, ErrExpired, s.after.Format(time.RFC3339))
	case !s.before.IsZero() && at.After(s.before):
		return fmt.Errorf("the key of %s is %w: it counted until %s", s.name, ErrExpired, s.before.Format(time.RFC3339))
	}
	return nil
}

// includes follows ssh's pattern lists: one that begins with ! takes away what others give.
func (s *signer) includes(namespace string) bool {
	included := s.namespaces == nil
	for _, pattern := range s.namespaces {
		pattern, not := strings.CutPrefix(strings.TrimSpace(pattern), "!")
		if ok, err := path.Match(pattern, namespace); !ok || err != nil {
			continue
		}
		if not {
			return false
		}
		included = true
	}
	return included
}

// printable keeps a name that somebody chose from writing anything but a name into a log or onto a terminal.
func printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "")
	}
	return name
}
