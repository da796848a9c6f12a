package logs

import (
	"io"
	"sync"

	"github.com/pluralsh/plural/cli/logstream"
	"github.com/pluralsh/plural/cli/ui"
)

// lines prints several logs to one place, each line whole.
type lines struct {
	streams *ui.Streams
	mu      sync.Mutex // guards streams.Out, and what follows
	written bool
}

func (l *lines) line(line logstream.Line) error {
	text := line.Text + "\n"
	if line.From != "" {
		text = l.streams.Paint(ui.Faint, ui.Clean(line.From)) + " " + text
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = true
	_, err := io.WriteString(l.streams.Out, text)
	return err
}
