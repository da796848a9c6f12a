package sync

import (
	"strconv"
	"strings"
)

// edition counts what a hub serves, within one stream: of two with the same stream the smaller number is the older. The
// zero edition is that of a hub which does not say.
type edition struct {
	stream string
	number uint64
}

// parseEdition reads "STREAM-N". What it cannot read is no edition.
func parseEdition(text string) edition {
	at := strings.LastIndexByte(text, '-')
	if at < 1 {
		return edition{}
	}
	number, err := strconv.ParseUint(text[at+1:], 10, 64)
	if err != nil {
		return edition{}
	}
	return edition{text[:at], number}
}

// String is what parseEdition reads.
func (e edition) String() string {
	if e.stream == "" {
		return ""
	}
	return e.stream + "-" + strconv.FormatUint(e.number, 10)
}

// before says whether e is known to be older. Editions of different streams cannot be compared.
func (e edition) before(other edition) bool {
	return e.stream != "" && e.stream == other.stream && e.number < other.number
}
