package identities

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
)

// sheet is a backup of a fresh identity of each kind, and their private texts.
func sheet(t *testing.T) (paper string, private []string) {
	t.Helper()
	var ids []age.Identity
	for _, postQuantum := range []bool{false, true} {
		id, err := generate(postQuantum)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	paper, err := Paper(Sheet{Name: "alice", Repository: "3f0c", Made: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, ids)
	if err != nil {
		t.Fatal(err)
	}
	return paper, texts(ids)
}

func texts(ids []age.Identity) []string {
	var all []string
	for _, id := range ids {
		all = append(all, id.(fmt.Stringer).String())
	}
	return all
}

func TestPaperIsReadHoweverItIsTyped(t *testing.T) {
	paper, private := sheet(t)
	for line := range strings.Lines(paper) {
		if n := len(strings.TrimRight(line, "\n")); n > 80 && !strings.HasPrefix(line, "# public key") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	comments := regexp.MustCompile(`(?m)^#.*\n`)
	numbers := regexp.MustCompile(`(?m)^ *\d+  `)
	for name, typed := range map[string]string{
		"as it is":        paper,
		"without prose":   comments.ReplaceAllString(paper, ""),
		"in lower case":   strings.ToLower(paper),
		"without numbers": numbers.ReplaceAllString(paper, ""),
		"without spaces":  strings.ReplaceAll(comments.ReplaceAllString(paper, ""), " ", ""),
		"with dashes":     strings.ReplaceAll(comments.ReplaceAllString(paper, ""), " ", "-"),
		"from Windows":    strings.ReplaceAll(paper, "\n", "\r\n"),
		"with blanks":     strings.ReplaceAll(paper, "\n", "  \n\n"),
	} {
		ids, err := ParsePaper("sheet", []byte(typed), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(texts(ids), " "); got != strings.Join(private, " ") {
			t.Errorf("%s: another identity came out", name)
		}
	}
}

func TestEveryMistypedLetterNamesItsLine(t *testing.T) {
	paper, _ := sheet(t)
	typed := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(paper, "")
	line := 1
	for i, c := range typed {
		if c == '\n' {
			line++
		}
		if c < 'A' || c > 'Z' {
			continue
		}
		wrong := typed[:i] + string('A'+(c-'A'+1)%26) + typed[i+1:]
		_, err := ParsePaper("sheet", []byte(wrong), nil)
		if want := fmt.Sprintf("sheet:%d: line %d of the sheet is mistyped", line, line); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("letter %d: got %v, want %s", i, err, want)
		}
	}
}

func TestAMissingLineIsNamed(t *testing.T) {
	paper, _ := sheet(t)
	lines := strings.SplitAfter(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(paper, ""), "\n")
	lines = lines[:len(lines)-1]
	for i := range lines {
		typed := strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "")
		want := fmt.Sprintf("line %d of the sheet is missing", i+1)
		if i == len(lines)-1 {
			want = "is the last one missing?"
		}
		if _, err := ParsePaper("sheet", []byte(typed), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPlainIdentityFileIsTakenAsItIs(t *testing.T) {
	_, private := sheet(t)
	ids, err := ParsePaper("key.txt", []byte("# a comment\n"+private[0]+"\n"), nil)
	if err != nil || texts(ids)[0] != private[0] {
		t.Errorf("got %v", err)
	}
}

func FuzzParsePaperNeverShowsWhatWasTyped(f *testing.F) {
	f.Add("  1  AGES ECRE TKEY 1QQQ QQQQ QQQQ  AAAA\n")
	f.Add("# nothing\n")
	f.Add("AGE-SECRET-KEY-1XXXX")
	f.Fuzz(func(t *testing.T, typed string) {
		_, err := ParsePaper("sheet", []byte(typed), nil)
		if err == nil {
			return
		}
		for line := range strings.Lines(typed) {
			if line = strings.TrimSpace(line); len(line) > 12 && strings.Contains(err.Error(), line) {
				t.Errorf("%q shows %q", err, line)
			}
		}
	})
}
