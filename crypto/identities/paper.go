package identities

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/keys"
)

// A line of the sheet: its number, groups of letters, and a checksum over both.
const (
	groupSize     = 4
	groupsPerLine = 6
	lineSize      = groupSize * groupsPerLine
)

// alphabet is what checksums are written in: that of the keys, without what looks like something else.
const alphabet = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"

// prefix is how an identity begins, with and without the dashes that typing may lose.
type prefix struct{ typed, real string }

func prefixes() []prefix {
	return []prefix{{"AGESECRETKEYPQ1", "AGE-SECRET-KEY-PQ-1"}, {"AGESECRETKEY1", "AGE-SECRET-KEY-1"}}
}

// Sheet is what stands on paper beside the keys.
type Sheet struct {
	// Name is whose the identity is.
	Name string
	// Repository is the id of the repository that it was made for; it may be empty.
	Repository string
	// Made is when the sheet was written.
	Made time.Time
}

// Paper writes identities down so that they can be typed in again: numbered lines in groups of four, each with a
// checksum. The text holds the private keys.
func Paper(s Sheet, ids []age.Identity) (string, error) {
	text, _, err := write(ids)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# plural identity of %s, written down on %s\n#\n", s.Name, s.Made.Format(time.DateOnly))
	if s.Repository != "" {
		fmt.Fprintf(&b, "# repository  %s\n", s.Repository)
	}
	b.WriteString(`#
# Whoever has this sheet can read all that it opens: keep it like a passport.
# To restore it, type the numbered lines into a file, and run:
#
#   plural crypto import FILE
#
# Capitals, spaces and dashes do not matter; leave out lines that begin with #.
`)
	number := 0
	for line := range strings.Lines(string(text)) {
		if public, ok := strings.CutPrefix(line, "# public key: "); ok {
			fmt.Fprintf(&b, "#\n# public key  %s", public)
			continue
		}
		for _, part := range cut(flat(line), lineSize) {
			number++
			fmt.Fprintf(&b, "%3d  %-*s  %s\n", number, lineSize+groupsPerLine-1, strings.Join(cut(part, groupSize), " "), checksum(number, part))
		}
	}
	return b.String(), nil
}

// ParsePaper reads what Paper wrote, as people type it in: in any case, with or without spaces, dashes, the lines'
// numbers, and lines that begin with #. It also takes an identity file as it is, asking for its passphrase if it has
// one. The error names the line that is mistyped, in a file called name, and never what stands in it.
func ParsePaper(name string, text []byte, ask keys.Passphrase) ([]age.Identity, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	if bytes.Contains(text, []byte("AGE-SECRET-KEY-")) || bytes.Contains(text, []byte("age-encryption.org/")) || bytes.Contains(text, []byte("-----BEGIN")) {
		return keys.ParseIdentities(name, text, ask)
	}
	var all strings.Builder
	at, number := 0, 0
	for line := range strings.Lines(string(text)) {
		at++
		typed := flat(line)
		if typed == "" || strings.HasPrefix(typed, "#") {
			continue
		}
		number++
		data, ok := verified(number, typed)
		if !ok {
			return nil, mistyped(name, at, number, typed)
		}
		all.WriteString(data)
	}
	if number == 0 {
		return nil, fmt.Errorf("%s holds no identity: type in the numbered lines of the sheet", name)
	}
	return rebuild(name, all.String())
}

func mistyped(name string, at, number int, typed string) error {
	if _, ok := verified(number+1, typed); ok {
		return fmt.Errorf("%s:%d: line %d of the sheet is missing here", name, at, number)
	}
	return fmt.Errorf("%s:%d: line %d of the sheet is mistyped: compare it letter by letter", name, at, number)
}

// verified is the data of a line whose checksum is right, with or without its number in front.
func verified(number int, typed string) (string, bool) {
	without, numbered := strings.CutPrefix(typed, strconv.Itoa(number))
	candidates := []string{typed}
	if numbered {
		candidates = []string{without, typed}
	}
	for _, c := range candidates {
		if split := len(c) - groupSize; split > 0 && checksum(number, c[:split]) == c[split:] {
			return c[:split], true
		}
	}
	return "", false
}

// rebuild cuts the typed letters into identities again; age's own checksum guards each of them.
func rebuild(name, typed string) ([]age.Identity, error) {
	var file strings.Builder
	for rest := typed; rest != ""; {
		real, body, ok := cutPrefix(rest)
		if !ok {
			return nil, fmt.Errorf("%s: the sheet's first line does not begin an identity", name)
		}
		end := len(body)
		for _, p := range prefixes() {
			if at := strings.Index(body, p.typed); at >= 0 {
				end = min(end, at)
			}
		}
		fmt.Fprintf(&file, "%s%s\n", real, body[:end])
		rest = body[end:]
	}
	ids, err := keys.ParseIdentities(name, []byte(file.String()), nil)
	if err != nil {
		return nil, errors.New(name + ": the lines are right one by one, and no identity as a whole: is the last one missing?")
	}
	return ids, nil
}

func cutPrefix(typed string) (real, body string, ok bool) {
	for _, p := range prefixes() {
		if body, ok := strings.CutPrefix(typed, p.typed); ok {
			return p.real, body, true
		}
	}
	return "", "", false
}

// flat is line without what does not matter.
func flat(line string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "", "\t", "", "-", "", "\r", "", "\n", "", ".", "", ":", "").Replace(line))
}

func cut(s string, size int) []string {
	var parts []string
	for len(s) > size {
		parts = append(parts, s[:size])
		s = s[size:]
	}
	return append(parts, s)
}

// checksum tells a line from one that differs in a letter, or that has another number: one in a million goes unseen.
func checksum(number int, data string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(number) + " " + data))
	out := make([]byte, groupSize)
	for i := range out {
		out[i] = alphabet[sum[i]%byte(len(alphabet))]
	}
	return string(out)
}
