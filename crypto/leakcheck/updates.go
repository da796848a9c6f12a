package leakcheck

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// update is one ref that is about to be pushed, as git tells the pre-push hook.
type update struct {
	local     string // zeros when the remote's ref is to be deleted
	remoteRef string
	remote    string // zeros when the remote has no such ref
}

// Bounds of what git tells a hook.
const (
	maxUpdates = 1 << 20
	maxLine    = 64 << 10 // bytes
)

// parseUpdates reads lines of "LOCAL-REF LOCAL-OID REMOTE-REF REMOTE-OID". Empty lines are passed over.
func parseUpdates(r io.Reader) ([]update, error) {
	var all []update
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0:
			continue
		case len(words) < 4 || !isOid(words[len(words)-3]) || !isOid(words[len(words)-1]):
			return nil, fmt.Errorf("what git says of the push, line %d: want LOCAL-REF OID REMOTE-REF OID", number)
		case len(all) == maxUpdates:
			return nil, fmt.Errorf("what git says of the push: more than %d refs", maxUpdates)
		}
		n := len(words) // what was given as the local ref may hold spaces
		all = append(all, update{local: words[n-3], remoteRef: words[n-2], remote: words[n-1]})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read what git says of the push: %w", err)
	}
	return all, nil
}

// isOid accepts names of objects under SHA-1 and SHA-256.
func isOid(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// isZero says whether an object's name stands for none.
func isZero(oid string) bool { return strings.Trim(oid, "0") == "" }
