package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// told is all that the program may say: the source of this module, without its tests.
func told(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (path == filepath.Join("..", "localkube") || entry.Name() != ".." && strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		b.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(b.String(), `" +`+"\n", "") // a text that goes on in the next line is cut there, as its page cuts it
}

var (
	// symptom is a heading; that of the words of Kubernetes, which are not in our source, is without a quote.
	symptom = regexp.MustCompile("(?m)^### (`.*)$")
	// inline is a command of ours in a sentence, which may go on in the next line.
	inline = regexp.MustCompile("`(plural [^`]+)`")
)

// TestSymptomsAreWhatTheProgramSays holds each heading of the page to the source: "…" stands for what differs from case to case.
func TestSymptomsAreWhatTheProgramSays(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	source := told(t)
	sections := symptom.FindAllStringSubmatchIndex(string(text), -1)
	if len(sections) < 25 {
		t.Errorf("%d symptoms, want 25 or more", len(sections))
	}
	for i, at := range sections {
		quote, end := strings.Trim(string(text[at[2]:at[3]]), "`"), len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		longest := 0
		for part := range strings.SplitSeq(quote, "…") {
			part = strings.TrimSpace(part)
			longest = max(longest, len(part))
			if !strings.Contains(source, part) {
				t.Errorf("%q: the program does not say %q", quote, part)
			}
		}
		if longest < 8 {
			t.Errorf("%q says too little to be found", quote)
		}
		for _, line := range []string{"\n- **Look**: ", "\n- **Cause**: ", "\n- **Mend**: "} {
			if strings.Count(string(text[at[0]:end]), line) != 1 {
				t.Errorf("%q has not one line %q", quote, strings.TrimSpace(line))
			}
		}
	}
}

func TestCommandsInSentencesAreOurs(t *testing.T) {
	for _, page := range []string{"troubleshooting.md", "concepts.md", "faq.md", "README.md"} {
		text, err := os.ReadFile(filepath.Join("..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range inline.FindAllStringSubmatch(string(text), -1) {
			line := strings.Join(strings.Fields(found[1]), " ")
			if err := parses(line); err != nil {
				t.Errorf("%s: %s: %v", page, line, err)
			}
		}
	}
}
