package yamledit

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Agree plans that a person agrees to what tokens name: in the service's document or, when that is empty, in the workspace's.
// Tokens that are written there, and that nothing waits for any more, go.
func Agree(repo fs.FS, service string, tokens []string, waits func(token string) bool) (*Change, error) {
	at := field{service, "spec.acknowledged"}
	if service != "" {
		at.key = "spec.sync.acknowledged"
	}
	var wanted []string
	return at.change(repo, "the tokens",
		func(f *fleet.Fleet) (has, done bool) {
			written, ok := at.agreed(f)
			if wanted == nil {
				wanted = merged(written, tokens, waits)
			}
			return len(written) > 0, ok && slices.Equal(written, wanted)
		},
		func(file string, text []byte, key string, has bool) ([]byte, error) {
			return putList(file, text, key, wanted, has)
		})
}

// agreed is the list as a fleet has it.
func (at field) agreed(f *fleet.Fleet) ([]string, bool) {
	if at.service == "" {
		return f.Workspace.Spec.Acknowledged, true
	}
	s, ok := f.Service(at.service)
	if !ok {
		return nil, false
	}
	return s.Spec.Sync.Acknowledged, true
}

// merged is what is written and still waits, then what is new. It is never nil.
func merged(written, tokens []string, waits func(string) bool) []string {
	out := slices.DeleteFunc(append([]string{}, written...), func(token string) bool { return !waits(token) })
	for _, token := range tokens {
		if !slices.Contains(out, token) {
			out = append(out, token)
		}
	}
	return out
}

// putList is text with a list of strings under the key, in the place of the one that it has, if any.
func putList(file string, text []byte, key string, list []string, has bool) (_ []byte, err error) {
	// values sets scalars: one stands in for the list, which YAML lets stand wherever a scalar may.
	const placeholder = "list-of-tokens-0b1d6d0e"
	if bytes.Contains(text, []byte(placeholder)) {
		return nil, fmt.Errorf("change %q: it holds the word %s", file, placeholder)
	}
	if has {
		if text, err = values.Delete(file, text, key); err != nil {
			return nil, err
		}
	}
	if text, err = values.Set(file, text, key, []byte(placeholder), values.String); err != nil {
		return nil, err
	}
	return bytes.Replace(text, []byte(placeholder), []byte(flow(list)), 1), nil
}

// flow is a list in one line. Some tokens look like numbers, so all are quoted.
func flow(list []string) string {
	quoted := make([]string, len(list))
	for i, item := range list {
		quoted[i] = strconv.Quote(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
