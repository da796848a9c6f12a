package guide

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// page is what a page of the guide has its reader do, in order.
type page struct {
	steps []step
	// others are lines of blocks that nobody is to type: of files, and of what is only looked at.
	others []string
}

// step is a command with what the page shows of its output, or a file to write.
type step struct {
	line    int
	command string
	shown   []string
	// notRun is why a test cannot type the command; empty when it does.
	notRun  string
	file    string
	content string
}

// fails says whether the page shows the command to fail, as programs of this system say it.
func (s *step) fails() bool {
	for _, line := range s.shown {
		if strings.HasPrefix(line, "error: ") {
			return true
		}
	}
	return false
}

var fileComment = regexp.MustCompile(`^# ([A-Za-z0-9_./-]+\.[a-z]+|[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+)$`)

// readPage finds the steps of a page. A block of the language console has commands, each after "$ ", and below each what it
// prints; "> " continues the command of a line that ends in a backslash. Any other block with the comment "# FILE" as its first
// line is that file. A block below the comment "<!-- not run: REASON -->", which readers do not see, is not typed.
func readPage(text string) (*page, error) {
	p := &page{}
	language, reason, open := "", "", false
	var block []string
	for i, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && !open:
			language, open, block = fence, true, nil
		case isFence:
			open = false
			if err := p.add(language, reason, block, i+1-len(block)); err != nil {
				return nil, err
			}
			reason = ""
		case open:
			block = append(block, line)
		case reason != "" && line != "":
			return nil, fmt.Errorf("line %d: what is not run is the block right below the comment that says so", i+1)
		default:
			if m := notRunComment.FindStringSubmatch(line); m != nil {
				reason = m[1]
			}
		}
	}
	if open || reason != "" {
		return nil, fmt.Errorf("a block of %q is never closed, or %q says it of none", language, reason)
	}
	return p, nil
}

var notRunComment = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// add takes a block that begins at a line, with the reason why it is not run.
func (p *page) add(language, reason string, block []string, at int) error {
	if language == "console" {
		return p.console(reason, block, at)
	}
	if reason != "" {
		for i, line := range block {
			p.steps = append(p.steps, step{line: at + i, command: strings.TrimSpace(line), notRun: reason})
		}
		return nil
	}
	if len(block) > 0 {
		if m := fileComment.FindStringSubmatch(block[0]); m != nil {
			p.steps = append(p.steps, step{line: at, file: path.Clean(m[1]), content: strings.Join(block[1:], "\n") + "\n"})
		}
	}
	p.others = append(p.others, block...)
	return nil
}

func (p *page) console(reason string, block []string, at int) error {
	var now *step
	continued := false
	for i, line := range block {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case continued:
			rest, ok := strings.CutPrefix(line, "> ")
			if !ok {
				return fmt.Errorf("line %d: want %q, which goes on with the command above", at+i, "> ")
			}
			now.command += "\n" + rest
			continued = strings.HasSuffix(rest, `\`)
		case isCommand:
			p.steps = append(p.steps, step{line: at + i, command: command, notRun: reason})
			now = &p.steps[len(p.steps)-1]
			continued = strings.HasSuffix(command, `\`)
		case now == nil:
			return fmt.Errorf("line %d: output of no command: %q", at+i, line)
		case line != "":
			now.shown = append(now.shown, line)
		}
	}
	return nil
}

// What differs from run to run is not compared: times, durations, names of commits, digests.
var volatile = []struct {
	found *regexp.Regexp
	as    string
}{
	{regexp.MustCompile(`\b\d\d:\d\d(:\d\d)?\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]*[0-9][0-9a-f]*[a-f][0-9a-f]*\b|\b[0-9a-f]*[a-f][0-9a-f]*[0-9][0-9a-f]*\b|\b\d{7,}\b`), "HEX"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m|h)\b`), "LONG"},
	{regexp.MustCompile(`\s+`), " "},
}

func plain(line string) string {
	for _, v := range volatile {
		line = v.found.ReplaceAllString(line, v.as)
	}
	return strings.TrimSpace(line)
}

// missing is the first line of what is shown that does not follow in what was printed; empty when all do. "..." stands for any
// number of lines, and within a line for anything.
func missing(shown []string, printed string) string {
	lines := strings.Split(printed, "\n")
	at := 0
	for _, want := range shown {
		if strings.TrimSpace(want) == "..." {
			continue
		}
		parts := strings.Split(plain(want), "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(strings.TrimSpace(parts[i]))
		}
		pattern := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
		for at < len(lines) && !pattern.MatchString(plain(lines[at])) {
			at++
		}
		if at == len(lines) {
			return want
		}
		at++
	}
	return ""
}
