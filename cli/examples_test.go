package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shell is what of a line in a page belongs to the shell around a command.
var shell = regexp.MustCompile(`\s*(#.*|\|.*|>.*|<.*|&&.*|;.*|\\)$`)

// notTyped are lines that look like commands: they are shown as output.
var notTyped = map[string]bool{"plural up brings all of it back": true}

// TestEveryCommandLineOfThePagesParses looks at what people copy from the README and docs. The guide's lines are run too, elsewhere.
func TestEveryCommandLineOfThePagesParses(t *testing.T) {
	pages := []string{filepath.Join("..", "README.md")}
	err := filepath.WalkDir(filepath.Join("..", "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") && !strings.Contains(path, "decisions") && !strings.Contains(path, "commands") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		inBlock := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				inBlock = !inBlock
				continue
			}
			command := shell.ReplaceAllString(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "")
			command = strings.TrimSuffix(command, " ...")
			if notTyped[command] || strings.Count(command, "'")%2 != 0 { // a bar or a hash within quotes
				continue
			}
			if !inBlock || !strings.HasPrefix(command, "plural ") || strings.ContainsAny(command, `$"…[`) {
				continue
			}
			tried++
			if err := parses(command); err != nil {
				t.Errorf("%s: %q: %v", page, command, err)
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d lines were tried", tried)
	}
}
