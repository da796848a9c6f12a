package verify

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Object is a git commit or tag, taken apart for verification.
type Object struct {
	// Kind is "commit" or "tag".
	Kind string
	// Payload is what was signed, byte for byte; Signature is armored, and empty when there is none.
	Payload, Signature []byte
}

// The headers in which git keeps a signature, by the hash that the object's ids are made with.
const (
	headerSHA1   = "gpgsig"
	headerSHA256 = "gpgsig-sha256"
)

// The lines that begin a signature. Git knows four; the last two are told apart only to be refused by name.
const (
	beginPGP     = "-----BEGIN PGP SIGNATURE-----"
	beginSSH     = "-----BEGIN SSH SIGNATURE-----"
	beginMessage = "-----BEGIN PGP MESSAGE-----"
	beginX509    = "-----BEGIN SIGNED MESSAGE-----"
)

// Split takes the raw body of a commit or tag apart as git does: a commit's signature stands in a header, a tag's at
// its end. What git and other programs might read differently (a signature header twice, two trees) is ErrMalformed.
func Split(kind string, body []byte) (Object, error) {
	switch kind {
	case "commit":
		return splitCommit(body)
	case "tag":
		return splitTag(body)
	}
	return Object{}, fmt.Errorf("%w: a %.20q carries none, only a commit or a tag does", ErrMalformed, kind)
}

func splitCommit(body []byte) (Object, error) {
	headers, message := splitHeaders(body)
	id, ok := headers.one("tree")
	if !ok || headers[0].name != "tree" {
		return Object{}, fmt.Errorf("%w: the commit does not begin with its one tree", ErrMalformed)
	}
	ours := headerSHA1
	if len(id) == 64 {
		ours = headerSHA256
	}
	rest, signature, err := headers.takeSignature(ours)
	if err != nil {
		return Object{}, err
	}
	return Object{Kind: "commit", Payload: append(rest.bytes(), message...), Signature: signature}, nil
}

func splitTag(body []byte) (Object, error) {
	headers, _ := splitHeaders(body)
	if _, ok := headers.one("object"); !ok || headers[0].name != "object" {
		return Object{}, fmt.Errorf("%w: the tag does not begin with its one object", ErrMalformed)
	}
	end := signatureStart(body)
	// Headers that carry a signature over the same tag under its other id are not signed themselves.
	headers, message := splitHeaders(body[:end])
	rest, _, err := headers.takeSignature("")
	if err != nil {
		return Object{}, err
	}
	return Object{Kind: "tag", Payload: append(rest.bytes(), message...), Signature: body[end:]}, nil
}

// signatureStart is where the last line stands that begins a signature, or the body's end.
func signatureStart(body []byte) int {
	at, match := 0, len(body)
	for line := range bytes.Lines(body) {
		if startsSignature(line) {
			match = at
		}
		at += len(line)
	}
	return match
}

func startsSignature(text []byte) bool {
	for _, begin := range []string{beginPGP, beginSSH, beginMessage, beginX509} {
		if bytes.HasPrefix(text, []byte(begin)) {
			return true
		}
	}
	return false
}

// header is one header with the lines that continue it, which begin with a space.
type header struct {
	name string
	raw  []byte
}

type headers []header

// splitHeaders gives the headers, and the rest from the empty line on.
func splitHeaders(body []byte) (headers, []byte) {
	var all headers
	at := 0
	for line := range bytes.Lines(body) {
		if line[0] == '\n' {
			break
		}
		end := at + len(line)
		if last := len(all) - 1; line[0] == ' ' && last >= 0 {
			all[last].raw = body[at-len(all[last].raw) : end]
		} else {
			name, _, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
			all = append(all, header{name: name, raw: line})
		}
		at = end
	}
	return all, body[at:]
}

// one is the value of a header that stands there exactly once.
func (h headers) one(name string) (value string, ok bool) {
	for _, header := range h {
		if header.name != name {
			continue
		}
		if ok {
			return "", false
		}
		value, ok = string(bytes.TrimSuffix(header.raw[min(len(name)+1, len(header.raw)):], []byte("\n"))), true
	}
	return value, ok
}

// takeSignature leaves out all headers that hold signatures, and gives the text of the one called ours.
func (h headers) takeSignature(ours string) (rest headers, signature []byte, err error) {
	seen := map[string]bool{}
	for _, header := range h {
		if !strings.HasPrefix(header.name, headerSHA1) {
			rest = append(rest, header)
			continue
		}
		if header.name != headerSHA1 && header.name != headerSHA256 {
			return nil, nil, fmt.Errorf("%w: header %.40q, which no signature covers", ErrMalformed, header.name)
		}
		if seen[header.name] {
			return nil, nil, fmt.Errorf("%w: header %s stands there twice", ErrMalformed, header.name)
		}
		seen[header.name] = true
		if header.name == ours {
			text := header.raw[min(len(ours)+1, len(header.raw)):]
			signature = bytes.ReplaceAll(text, []byte("\n "), []byte("\n"))
		}
	}
	return rest, signature, nil
}

func (h headers) bytes() []byte {
	var out []byte
	for _, header := range h {
		out = append(out, header.raw...)
	}
	return out
}

// made is when the object says that it was made: a commit's committer and a tag's tagger stand with a time.
func (o Object) made() (time.Time, bool) {
	name := "committer"
	if o.Kind == "tag" {
		name = "tagger"
	}
	all, _ := splitHeaders(o.Payload)
	line, ok := all.one(name)
	fields := strings.Fields(line[strings.LastIndexByte(line, '>')+1:])
	if !ok || len(fields) == 0 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	return time.Unix(seconds, 0), err == nil && seconds >= 0
}
