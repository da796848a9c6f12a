package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxName bounds a name, in bytes.
const MaxName = 64

// CheckName says what is wrong with the name of a group or member. Names are names of files, and must be so on every
// system.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > MaxName:
		return fmt.Errorf("the name %.20q... is longer than %d characters", name, MaxName)
	case !isAlphanumeric(name[0]) || !isAlphanumeric(name[len(name)-1]) || strings.ContainsFunc(name, isForeign):
		return fmt.Errorf("bad name %q: use letters, digits, and inside also . _ @ + -", name)
	case isDevice(name):
		return fmt.Errorf("bad name %q: Windows keeps it for a device, choose another", name)
	}
	return nil
}

// SameFile says whether two names would be one file where case does not count.
func SameFile(a, b string) bool { return strings.EqualFold(a, b) }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isForeign(r rune) bool {
	return r >= utf8.RuneSelf || !isAlphanumeric(byte(r)) && !strings.ContainsRune("._@+-", r)
}

// isDevice knows what Windows opens instead of a file of that name, whatever follows a dot.
func isDevice(name string) bool {
	base, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (base[:3] == "com" || base[:3] == "lpt") && '0' <= base[3] && base[3] <= '9'
}
