// Package yamlerror owns errors of YAML and JSON libraries in words of YAML, without Go's types.
//
// It refuses to know where a text is from. What it does not know it leaves as it is.
package yamlerror

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	placed  = regexp.MustCompile(`^(?:error converting YAML to JSON: )?(?:yaml: )?(?:unmarshal errors:\n\s*)?(?:line (\d+): )?`)
	ofBlock = regexp.MustCompile(`^(did not find expected (key|node content|'-' indicator|',' or|<)|found undefined tag handle|found incompatible YAML document|found duplicate %)`)
	unfit   = regexp.MustCompile("cannot unmarshal (!![a-z]+)(?: `([^`]*)`)? into ([^ ;,\n]+)")
	unfitIn = regexp.MustCompile(`(?:error unmarshaling JSON: while decoding JSON: )?` +
		`json: cannot unmarshal ([a-z]+) into Go (?:struct field \w+\.(\S+)|value) of type ([^ ;,\n]+)`)
	unknown = regexp.MustCompile(`field (\S+) not found in type \S+`)
)

// Line takes a library's message apart into the line that it is about, from 1, and what it says of it. The line is 0 where it is not
// told. Of mistakes in how a text is put together, the library tells the line before the one where the block or the brackets begin.
func Line(message string) (line int, rest string) {
	found := placed.FindStringSubmatch(message)
	rest = message[len(found[0]):]
	line, err := strconv.Atoi(found[1])
	if err == nil && ofBlock.MatchString(rest) {
		line++
	}
	return line, rest
}

// Plain puts a library's message into words of YAML.
func Plain(message string) string {
	message = unknown.ReplaceAllString(message, `unknown field "$1"`)
	message = unfit.ReplaceAllStringFunc(message, func(found string) string {
		m := unfit.FindStringSubmatch(found)
		what := kind(m[1])
		if m[2] != "" {
			what += " " + `"` + m[2] + `"`
		}
		return what + " stands where " + shape(m[3]) + " belongs"
	})
	return unfitIn.ReplaceAllStringFunc(message, func(found string) string {
		m := unfitIn.FindStringSubmatch(found)
		text := kind(m[1]) + " stands where " + shape(m[3]) + " belongs"
		if m[2] != "" {
			text = m[2] + ": " + text
		}
		return text
	})
}

// kind is what a value is, by its YAML tag or as JSON calls it.
func kind(tag string) string {
	switch strings.TrimPrefix(tag, "!!") {
	case "str", "string":
		return "a text"
	case "seq", "array":
		return "a list"
	case "map", "object":
		return "a mapping"
	case "int", "float", "number":
		return "a number"
	case "bool":
		return "a boolean"
	case "null":
		return "nothing"
	}
	return "a " + strings.TrimPrefix(tag, "!!")
}

// shape is what a Go type is written as.
func shape(of string) string {
	of = strings.TrimLeft(of, "*")
	switch {
	case of == "string":
		return "a text"
	case of == "bool":
		return "true or false"
	case of == "time.Time":
		return "a time"
	case strings.HasPrefix(of, "["):
		return "a list"
	case strings.HasPrefix(of, "map["), strings.Contains(of, "."), strings.HasPrefix(of, "struct"):
		return "a mapping"
	}
	return "a number"
}
