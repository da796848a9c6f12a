package gitsource

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
)

// maxListing bounds a list of refs, in bytes: half a million of usual length.
const maxListing = 64 << 20

// maxWants bounds how many objects one request names.
const maxWants = 1000

// greeting is what a server says first. One that speaks protocol version 2 tells what it can do, an older one lists all
// its refs besides, of which only those that were looked for are kept.
type greeting struct {
	v2 bool
	// can are the server's capabilities with their values.
	can map[string]string
	// refs are by full name, offered what may be asked for by its id; both are empty with version 2.
	refs    map[string]string
	offered map[string]bool
	// branches are the ids of all branches and tags, when a commit was looked for; at most maxWants.
	branches []string
	// fingerprint is the same as long as no ref moves.
	fingerprint string
	listed      bool // any ref at all
}

// readGreeting reads to its end what a server says first.
func readGreeting(r io.Reader, look lookout) (*greeting, error) {
	p := newPackets(io.LimitReader(r, maxListing))
	line, m, err := p.line()
	if strings.HasPrefix(line, "# service=") {
		if _, m, err = p.line(); err == nil && m == flush {
			line, m, err = p.line()
		}
	}
	g := &greeting{can: map[string]string{}, refs: map[string]string{}, offered: map[string]bool{}}
	switch {
	case err != nil:
		return nil, err
	case m != data: // an old server's way to be empty
		return g, nil
	case line == "version 2":
		g.v2 = true
		return g, g.readCapabilities(p)
	case line == "version 1":
		if line, m, err = p.line(); err != nil || m != data {
			return g, err
		}
	}
	return g, g.readRefs(p, line, look)
}

func (g *greeting) readCapabilities(p *packets) error {
	const most = 1000
	for range most {
		line, m, err := p.line()
		if err != nil {
			return err
		}
		if m != data {
			return g.check()
		}
		name, value, _ := strings.Cut(line, "=")
		g.can[name] = value
	}
	return errors.New("not git's protocol: capabilities without end")
}

// errObjectFormat refuses repositories of git's other hash.
var errObjectFormat = errors.New("the repository names its objects by SHA-256, which is not supported: use one with SHA-1")

func (g *greeting) check() error {
	if format := g.can["object-format"]; format != "" && format != "sha1" {
		return errObjectFormat
	}
	return nil
}

// has says whether a command of version 2 has a feature.
func (g *greeting) has(command, feature string) bool {
	return slices.Contains(strings.Fields(g.can[command]), feature)
}

// readRefs reads an older server's list: the first line carries the capabilities behind a zero byte.
func (g *greeting) readRefs(p *packets, line string, look lookout) error {
	line, capabilities, _ := strings.Cut(line, "\x00")
	for capability := range strings.FieldsSeq(capabilities) {
		name, value, _ := strings.Cut(capability, "=")
		g.can[name] = value
	}
	if err := g.check(); err != nil {
		return err
	}
	sum := sha256.New()
	for {
		if err := g.takeRef(line, sum, look); err != nil {
			return err
		}
		var m mark
		var err error
		if line, m, err = p.line(); err != nil {
			return err
		}
		if m != data {
			g.fingerprint = string(sum.Sum(nil))
			return nil
		}
	}
}

func (g *greeting) takeRef(line string, sum hash.Hash, look lookout) error {
	id, name, ok := strings.Cut(line, " ")
	if id == "shallow" || name == "capabilities^{}" {
		return nil
	}
	if !ok || !isID(id) {
		return fmt.Errorf("not git's protocol: %.100q in the list of refs", line)
	}
	if strings.HasSuffix(name, "^{}") {
		return nil
	}
	sum.Write([]byte(id))
	g.listed = true
	if look.names[name] {
		g.refs[name] = id
	}
	if look.ids[id] {
		g.offered[id] = true
	}
	ours := strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")
	if ours && len(look.ids) > 0 && len(g.branches) < maxWants {
		g.branches = append(g.branches, id)
	}
	return nil
}

// readListing reads the answer to version 2's ls-refs: a line for each ref whose name begins with one that was asked for.
func readListing(r io.Reader, look lookout) (map[string]string, bool, error) {
	p := newPackets(io.LimitReader(r, maxListing))
	refs := map[string]string{}
	unborn := false
	for {
		line, m, err := p.line()
		if err != nil {
			return nil, false, err
		}
		if m != data {
			return refs, unborn, nil
		}
		id, rest, ok := strings.Cut(line, " ")
		name, _, _ := strings.Cut(rest, " ")
		switch {
		case id == "unborn":
			unborn = true
		case !ok || !isID(id):
			return nil, false, fmt.Errorf("not git's protocol: %.100q in the list of refs", line)
		case look.names[name]:
			refs[name] = id
		}
	}
}

// isID says whether a text is an object's id: 40 lower-case hex digits.
func isID(s string) bool {
	return len(s) == 40 && strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) < 0
}
