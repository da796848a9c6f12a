package simcontainer

import (
	"errors"
	"strings"
)

// word is a piece of a shell's line: an argument, or what joins commands.
type word struct {
	text  string
	joint bool // one of ; && || |
}

// splitWords understands spaces, both kinds of quotes, the backslash, and the joints. Nothing is expanded.
func splitWords(line string) ([]word, error) {
	var words []word
	var text strings.Builder
	open, quote := false, rune(0) // open: a word has begun, even if it is empty
	finish := func() {
		if open {
			words = append(words, word{text: text.String()})
		}
		text.Reset()
		open = false
	}
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case quote != 0 && r == quote:
			quote = 0
		case r == '\\' && quote != '\'' && i+1 < len(runes):
			i++
			open = true
			text.WriteRune(runes[i])
		case quote != 0:
			text.WriteRune(r)
		case r == '\'' || r == '"':
			open, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			finish()
		case jointAt(runes[i:]) != "":
			finish()
			words = append(words, word{text: jointAt(runes[i:]), joint: true})
			i += len(jointAt(runes[i:])) - 1
		default:
			open = true
			text.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, errors.New("syntax error: unterminated quoted string")
	}
	finish()
	return words, nil
}

// jointAt is the joint that the runes begin with, or nothing.
func jointAt(runes []rune) string {
	start := string(runes[:min(2, len(runes))])
	for _, joint := range []string{"&&", "||", "|", ";"} {
		if strings.HasPrefix(start, joint) {
			return joint
		}
	}
	return ""
}
