package unseal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	mask = "***"
	// shortest is the length of the shortest value that is looked for: a shorter one is everywhere, and masking it would
	// tell where.
	shortest = 4
	// run is how many bytes of the inside of a value are one too many.
	run = 12
	// layers is how often base64 is decoded that is in base64.
	layers = 3
	// maxSearched is how many bytes of values are looked for, and maxParts how many values and lines of them: each costs as much as
	// some hundred bytes.
	maxSearched = 1 << 20
	maxParts    = 20_000
	// maxParsed is how large a plaintext is looked into for its values, in bytes.
	maxParsed = 1 << 20

	unrepeated = "what was said is not repeated: it may hold something of the large sealed files here"
)

// Redact puts *** in place of values, of their usual encodings, of longer pieces of them, of beginnings that were cut off by
// dots, and of base64 that holds a value among other text. It is for what others say of plaintext that went through their hands.
// Where there are too many values to look for, nothing of the message is left.
func Redact(message string, values []string) string {
	if len(values) == 0 || message == "" {
		return message
	}
	total, parts := 0, 0
	for _, value := range values {
		total += len(value)
		parts += 1 + strings.Count(value, "\n")
	}
	if total > maxSearched || parts > maxParts {
		return unrepeated
	}
	hidden := make([]bool, len(message))
	cuts := cutsIn(message)
	inside := windowsOf(message)
	most := maxSearched
	if len(cuts) == 0 && len(message) < run { // it holds a form as a whole or not at all
		most = len(message)
	}
	for _, value := range values {
		for _, form := range forms(value, most) {
			hideWhole(message, form, hidden)
			hideBeginnings(message, form, cuts, hidden)
			inside.hidePieces(form, hidden)
		}
	}
	hideEncoded(message, values, layers, hidden)
	var out strings.Builder
	for i := range len(message) {
		switch {
		case !hidden[i]:
			out.WriteByte(message[i])
		case i == 0 || !hidden[i-1]:
			out.WriteString(mask)
		}
	}
	return out.String()
}

// encodedText is what may be base64, of either alphabet.
var encodedText = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}={0,2}`)

// hideEncoded hides base64 whose plaintext holds a value: what was encoded together with other text, as in a basic auth header, or
// in a pull secret, where one is in another, so many times. All plaintext is searched at once, for a search costs what the values
// measure that may be in it.
func hideEncoded(message string, values []string, layers int, hidden []bool) {
	found := encodedText.FindAllStringIndex(message, -1)
	if len(found) == 0 || layers == 0 {
		return
	}
	var all []byte
	longest := 0
	ends := make([]int, len(found)) // of what each decodes to
	for i, at := range found {
		text := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(message[at[0]:at[1]], "="))
		for skip := range 4 { // something else of the alphabet may stand before it
			rest := text[skip:]
			if len(rest)%4 == 1 { // which no encoding has
				rest = rest[:len(rest)-1]
			}
			decoded, _ := base64.RawStdEncoding.DecodeString(rest) // all of it is of the alphabet
			all, longest = append(append(all, decoded...), 0), max(longest, len(decoded))
		}
		ends[i] = len(all)
	}
	plain, inside := string(all), make([]bool, len(all))
	for _, value := range values {
		for _, form := range forms(value, longest) {
			hideWhole(plain, form, inside)
		}
	}
	hideEncoded(plain, values, layers-1, inside)
	begin := 0
	for i, at := range found {
		if slices.Contains(inside[begin:ends[i]], true) {
			mark(hidden, at[0], at[1]-at[0])
		}
		begin = ends[i]
	}
}

// forms are the ways in which a value, or a line of it, is printed, but for those that are sure to be longer than most.
func forms(value string, most int) []string {
	parts := append(strings.Split(value, "\n"), value)
	var all []string
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if len(part) < shortest || len(part) > most {
			continue
		}
		for _, quoted := range []string{quoteJSON(part), strconv.Quote(part), strconv.QuoteToASCII(part)} {
			all = append(all, quoted[1:len(quoted)-1])
		}
		all = append(all, part, url.QueryEscape(part), url.PathEscape(part), base64.StdEncoding.EncodeToString([]byte(part)))
	}
	if len(value) <= most {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(form string) bool { return len(form) < shortest })
}

func quoteJSON(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return strconv.Quote(text)
	}
	return string(quoted)
}

func hideWhole(message, form string, hidden []bool) {
	for from := 0; ; {
		i := strings.Index(message[from:], form)
		if i < 0 {
			return
		}
		mark(hidden, from+i, len(form))
		from += i + 1
	}
}

// cutsIn are the places where something may have been cut off: before dots.
func cutsIn(message string) []int {
	var cuts []int
	for i := range message {
		if strings.HasPrefix(message[i:], "...") || strings.HasPrefix(message[i:], "…") {
			cuts = append(cuts, i)
		}
	}
	return cuts
}

func hideBeginnings(message, form string, cuts []int, hidden []bool) {
	for _, cut := range cuts {
		for n := min(len(form), cut); n >= shortest; n-- {
			if strings.HasSuffix(message[:cut], form[:n]) {
				mark(hidden, cut-n, n)
				break
			}
		}
	}
}

// windows are where each run of bytes of a message begins; nil for one that is shorter.
type windows struct {
	at map[string][]int
	// begin are the first two bytes of each, which nearly all that is looked for does not have.
	begin [1 << 16]bool
}

func windowsOf(message string) *windows {
	if len(message) < run {
		return nil
	}
	w := &windows{at: map[string][]int{}}
	for i := 0; i+run <= len(message); i++ {
		w.at[message[i:i+run]] = append(w.at[message[i:i+run]], i)
		w.begin[beginning(message[i:])] = true
	}
	return w
}

func beginning(text string) int { return int(text[0])<<8 | int(text[1]) }

func (w *windows) hidePieces(form string, hidden []bool) {
	if w == nil {
		return
	}
	for i := 0; i+run <= len(form); i++ {
		if !w.begin[beginning(form[i:])] {
			continue
		}
		for _, at := range w.at[form[i:i+run]] {
			mark(hidden, at, run)
		}
	}
}

func mark(hidden []bool, at, n int) {
	for i := at; i < at+n; i++ {
		hidden[i] = true
	}
}

// scalars are the values in a plaintext: those of YAML and JSON, those of env lines, and what is neither as it is. What says
// which object a manifest is about is no secret, and is left out: messages need it.
func scalars(plain []byte) []string {
	if len(plain) > maxParsed {
		return []string{string(plain)}
	}
	var found []string
	decoder := yaml.NewDecoder(bytes.NewReader(plain))
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil || doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind == yaml.ScalarNode {
			return append(found, lines(string(plain))...)
		}
		found = append(found, scalarsOf(doc.Content[0], "")...)
	}
}

func scalarsOf(node *yaml.Node, at string) []string {
	var found []string
	switch node.Kind {
	case yaml.ScalarNode:
		if isIdentity(at) || node.ShortTag() == "!!bool" || node.ShortTag() == "!!null" {
			return nil
		}
		found = slices.DeleteFunc(append(numbers(node), node.Value), func(text string) bool { return len(text) < shortest })
		if decoded, err := base64.StdEncoding.DecodeString(node.Value); err == nil && len(decoded) >= shortest {
			found = append(found, string(decoded))
		}
	case yaml.SequenceNode:
		for _, child := range node.Content {
			found = append(found, scalarsOf(child, below)...)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := at + "." + node.Content[i].Value
			if strings.Count(at, ".") > 1 {
				name = below
			}
			found = append(found, scalarsOf(node.Content[i+1], name)...)
		}
	}
	return found
}

// numbers are what others write for a number, however it was written. JSON has the large ones as fractions, and Helm's templates
// print them as Go does: 4.8296615e+07.
func numbers(node *yaml.Node) (found []string) {
	var whole int64
	var number float64
	tag := node.ShortTag()
	if tag == "!!int" && node.Decode(&whole) == nil {
		found = append(found, strconv.FormatInt(whole, 10))
	}
	if (tag == "!!int" || tag == "!!float") && node.Decode(&number) == nil {
		found = append(found, strconv.FormatFloat(number, 'f', -1, 64), strconv.FormatFloat(number, 'g', -1, 64))
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(text string) bool { return text == node.Value })
}

// below is the place of everything that no identity is made of.
const below = "..."

func isIdentity(at string) bool {
	return slices.Contains([]string{".apiVersion", ".kind", ".type", ".metadata.name", ".metadata.namespace"}, at)
}

func lines(text string) []string {
	found := []string{text}
	for line := range strings.SplitSeq(text, "\n") {
		if _, value, ok := strings.Cut(line, "="); ok {
			found = append(found, strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return found
}
