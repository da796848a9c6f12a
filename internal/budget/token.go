package budget

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// tokenDigits is the length of a token.
const tokenDigits = 12

var token = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{12}(@[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$`)
})

// Token names exactly what is to be deleted: whoever agrees to the token agrees to these names, in whatever order, and to
// no others. It is 12 hex digits.
func Token(names []string) string {
	sum := sha256.New()
	for i, name := range slices.Sorted(slices.Values(names)) {
		if i > 0 {
			sum.Write([]byte{'\n'})
		}
		sum.Write([]byte(name))
	}
	return hex.EncodeToString(sum.Sum(nil))[:tokenDigits]
}

// Agreed says whether somebody agreed to all of the names: by the token of exactly these, or by each one's own.
func Agreed(acknowledged, names []string) bool {
	return slices.Contains(acknowledged, Token(names)) || len(Unagreed(acknowledged, names)) == 0
}

// Unagreed are those of the names, in their order, whose own token is not there.
func Unagreed(acknowledged, names []string) []string {
	agreed := make(map[string]bool, len(acknowledged))
	for _, token := range acknowledged {
		agreed[token] = true
	}
	var left []string
	for _, name := range names {
		if !agreed[Token([]string{name})] {
			left = append(left, name)
		}
	}
	return left
}

// For are the tokens that were agreed to for a cluster. TOKEN@CLUSTER is good there alone: what a token stands for that nobody but
// an agent can tell is not agreed to for others, as which it might have shown theirs.
func For(cluster string, acknowledged []string) []string {
	var out []string
	for _, each := range acknowledged {
		if token, on, bound := strings.Cut(each, "@"); !bound || on == cluster {
			out = append(out, token)
		}
	}
	return out
}

// IsToken says whether s could be a Token, or TOKEN@CLUSTER.
func IsToken(s string) bool { return token().MatchString(s) }
