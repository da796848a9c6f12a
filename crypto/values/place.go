package values

import (
	"fmt"
	"strconv"
	"strings"
)

// place is a key in its parts, from the top of a document down.
type place []step

// step is the name of a key, or, when list is set, the place in a list.
type step struct {
	key   string
	index int
	list  bool
}

// String writes the place as parsePlace reads it.
func (p place) String() string {
	var b strings.Builder
	for i, s := range p {
		if s.list {
			fmt.Fprintf(&b, "[%d]", s.index)
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(escape(s.key))
	}
	return b.String()
}

// escape writes a name so that it stays one part of a key, on one line.
func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, ".", `\.`, "[", `\[`, "\n", `\n`, "\r", `\r`).Replace(name)
}

// parsePlace reads a key such as a.b[0].c.
func parsePlace(key string) (place, error) {
	bad := func(why string) (place, error) {
		return nil, fmt.Errorf("read key %q: %s; keys look like data.password, hosts[0].name or data.tls\\.key", key, why)
	}
	if key == "" {
		return bad("it is empty")
	}
	var p place
	rest := key
	for first := true; rest != ""; first = false {
		if rest[0] == '[' {
			number, after, ok := strings.Cut(rest[1:], "]")
			index, err := strconv.Atoi(number)
			if !ok || err != nil || index < 0 || number[0] == '+' {
				return bad("brackets hold a number, counted from 0")
			}
			p, rest = append(p, step{index: index, list: true}), after
			continue
		}
		if !first {
			if rest[0] != '.' {
				return bad("a dot stands between two parts")
			}
			rest = rest[1:]
		}
		name, after, ok := cutName(rest)
		if !ok {
			return bad("a backslash stands before a dot, a bracket or a backslash")
		}
		if name == "" {
			return bad("a name is empty")
		}
		p, rest = append(p, step{key: name}), after
	}
	return p, nil
}

// cutName takes one name off the front of a key.
func cutName(text string) (name, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '.', '[':
			return b.String(), text[i:], true
		case '\\':
			i++
			if i == len(text) {
				return "", "", false
			}
			switch text[i] {
			case '.', '[', '\\':
				b.WriteByte(text[i])
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			default:
				return "", "", false
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", true
}
