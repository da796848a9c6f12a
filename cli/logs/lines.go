package logs

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pluralsh/plural/cli/ui"
)

// maxLine is where a line is broken that has no end, in bytes.
const maxLine = 64 << 10

// lines prints several logs to one place, each line whole.
type lines struct {
	streams *ui.Streams
	mu      sync.Mutex // guards streams.Out
}

// log is one of them.
type log struct {
	*lines
	prefix string
	// after, when set, leaves out lines that begin with an earlier time.
	after time.Time
}

// of is the log whose lines begin with whose, if that is not empty.
func (l *lines) of(whose string) *log {
	if whose != "" {
		whose = l.streams.Paint(ui.Faint, ui.Clean(whose)) + " "
	}
	return &log{lines: l, prefix: whose}
}

// copy prints all lines of a stream. An error of the stream comes after the lines before it.
func (l *log) copy(stream io.Reader) error {
	from := bufio.NewReaderSize(stream, maxLine)
	for {
		line, err := from.ReadSlice('\n')
		if len(line) > 0 {
			if err := l.line(string(line)); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

func (l *log) line(text string) error {
	if l.early(text) {
		return nil
	}
	text = l.prefix + shown(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")) + "\n"
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := io.WriteString(l.streams.Out, text)
	return err
}

// early says whether a line is older than what is wanted.
func (l *log) early(text string) bool {
	if l.after.IsZero() {
		return false
	}
	word, _, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, word)
	return err == nil && at.Before(l.after)
}

// shown is a line as a terminal may have it. Tabs stay.
func shown(line string) string {
	parts := strings.Split(line, "\t")
	for i, part := range parts {
		parts[i] = ui.Clean(part)
	}
	return strings.Join(parts, "\t")
}
