package gitsource

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the format's own: it hides names, it proves nothing
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// HostKeyError says that a host showed another key than it is known by. Nothing is fetched until a person has looked.
type HostKeyError struct {
	// Address is the host with its port.
	Address string
	// Shown is the fingerprint of the key that the host showed.
	Shown string
	// Known are the fingerprints in known_hosts; Revoked says that Shown is among those that must never be trusted.
	Known   []string
	Revoked bool
}

func (e *HostKeyError) Error() string {
	if e.Revoked {
		return fmt.Sprintf("host key of %s is revoked: it showed %s, which known_hosts marks as @revoked; nothing was sent to it",
			e.Address, e.Shown)
	}
	return fmt.Sprintf("host key of %s has changed: it showed %s, known_hosts has %s; somebody may stand in between, "+
		"so nothing was sent to it; compare with what the host publishes before you change known_hosts",
		e.Address, e.Shown, strings.Join(e.Known, ", "))
}

// knownHost is one line of known_hosts.
type knownHost struct {
	patterns []string
	key      ssh.PublicKey
	revoked  bool
}

type knownHosts []knownHost

// parseKnownHosts reads OpenSSH's format, with hashed names, patterns and @revoked.
func parseKnownHosts(text []byte) (knownHosts, error) {
	const mostLines = 10_000
	if bytes.Count(text, []byte("\n")) > mostLines {
		return nil, fmt.Errorf("known_hosts has more than %d lines", mostLines)
	}
	var all knownHosts
	for {
		marker, patterns, key, _, rest, err := ssh.ParseKnownHosts(text)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("known_hosts: %w", err)
		case marker == "cert-authority":
			return nil, errors.New("known_hosts: @cert-authority is not supported: list the host's own keys")
		}
		all = append(all, knownHost{patterns: patterns, key: key, revoked: marker == "revoked"})
		text = rest
	}
}

// check is ssh's HostKeyCallback.
func (k knownHosts) check(address string, shown ssh.PublicKey) error {
	name := strings.ToLower(knownhosts.Normalize(address))
	problem := &HostKeyError{Address: address, Shown: describe(shown)}
	good := false
	for _, line := range k {
		if !line.matches(name) {
			continue
		}
		same := line.key.Type() == shown.Type() && bytes.Equal(line.key.Marshal(), shown.Marshal())
		switch {
		case same && line.revoked:
			problem.Revoked = true
			return problem
		case line.revoked:
		case same:
			good = true
		default:
			problem.Known = append(problem.Known, describe(line.key))
		}
	}
	if good {
		return nil
	}
	return problem
}

func describe(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

// algorithms are those that a host can prove its known keys by: any other would make it look like a stranger.
func (k knownHosts) algorithms(address string) []string {
	name := strings.ToLower(knownhosts.Normalize(address))
	var all []string
	for _, line := range k {
		if line.revoked || !line.matches(name) {
			continue
		}
		of := []string{line.key.Type()}
		if line.key.Type() == ssh.KeyAlgoRSA {
			of = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range of {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// matches says whether the line is about a host, whose name stands in brackets with its port when that is not 22.
func (h knownHost) matches(name string) bool {
	found := false
	for _, pattern := range h.patterns {
		pattern, not := strings.CutPrefix(pattern, "!")
		if !matchHost(pattern, name) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

func matchHost(pattern, name string) bool {
	if hashed, ok := strings.CutPrefix(pattern, "|1|"); ok {
		salt, sum, _ := strings.Cut(hashed, "|")
		key, err := base64.StdEncoding.DecodeString(salt)
		want, sumErr := base64.StdEncoding.DecodeString(sum)
		mac := hmac.New(sha1.New, key)
		mac.Write([]byte(name))
		return err == nil && sumErr == nil && hmac.Equal(mac.Sum(nil), want)
	}
	return matchPattern(strings.ToLower(pattern), name)
}

// matchPattern knows * and ?, and nothing else: brackets stand for themselves here. It takes time by the product of both
// lengths at most.
func matchPattern(pattern, name string) bool {
	star, after := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, after = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			after++
			p, n = star+1, after
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
