package values

import "strings"

// Label is how a key that List gave is written in the file. False says that it has more than one part: what comes back
// then is the whole path.
func Label(key string) (label string, single bool) {
	escaped, single := false, true
	for _, r := range key {
		if !escaped && (r == '.' || r == '[') {
			single = false
		}
		escaped = !escaped && r == '\\'
	}
	return strings.NewReplacer(`\\`, `\`, `\.`, `.`, `\[`, `[`, `\]`, `]`).Replace(key), single
}
