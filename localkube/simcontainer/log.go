package simcontainer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxLines is how many lines a log may be said to have.
const MaxLines = 1_000_000

// timestampFormat is the one of kubelets: as many digits in every line.
const timestampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// errEnough ends a log whose bytes were counted beforehand.
var errEnough = errors.New("as many bytes as were asked for")

// flushWriter is an output that holds back what it was given until it is told not to.
type flushWriter interface {
	io.Writer
	Flush()
}

// WriteLog writes the log as the options say. With Follow it goes on, a line every second, until ctx ends or the output
// fails; otherwise, and for a container that has completed, it ends with what is there. All of it is standard output.
func (c Container) WriteLog(ctx context.Context, o *corev1.PodLogOptions, output flushWriter) error {
	if o.Previous {
		return fmt.Errorf("previous terminated container %q in pod %q not found", c.Name, c.Pod)
	}
	if o.Stream != nil && *o.Stream == corev1.LogStreamStderr {
		return nil
	}
	log := logWriter{to: bufio.NewWriterSize(output, 32<<10), timestamps: o.Timestamps, left: -1}
	if o.LimitBytes != nil {
		log.left = *o.LimitBytes
	}
	err := c.writeLines(ctx, o, &log)
	if err == nil {
		err = log.to.Flush()
	}
	if err == nil && o.Follow && !c.Ended {
		output.Flush()
		err = c.speak(ctx, func(line string) error {
			if err := log.write(time.Now(), line); err != nil {
				return err
			}
			if err := log.to.Flush(); err != nil {
				return err
			}
			output.Flush()
			return nil
		})
	}
	if errors.Is(err, errEnough) {
		err = log.to.Flush()
	}
	output.Flush()
	return err
}

// writeLines writes the lines that stand in the log already. All are from the start of the container.
func (c Container) writeLines(ctx context.Context, o *corev1.PodLogOptions, log *logWriter) error {
	if since(o).After(c.Started) {
		return nil
	}
	first := 0
	if o.TailLines != nil {
		first = max(0, 1+c.Lines-int(min(*o.TailLines, MaxLines+1)))
	}
	for i := first; i <= c.Lines; i++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		line := Explanation
		if i > 0 {
			line = fmt.Sprintf("simulated line %d of %d", i, c.Lines)
		}
		if err := log.write(c.Started, line); err != nil {
			return err
		}
	}
	return nil
}

// since is the time before which lines are left out.
func since(o *corev1.PodLogOptions) time.Time {
	switch {
	case o.SinceTime != nil:
		return o.SinceTime.Time
	case o.SinceSeconds != nil:
		return time.Now().Add(-time.Duration(*o.SinceSeconds) * time.Second)
	default:
		return time.Time{}
	}
}

// logWriter writes lines until their bytes are used up.
type logWriter struct {
	to         *bufio.Writer
	timestamps bool
	left       int64 // bytes that may still be written; below 0: any number
}

func (l *logWriter) write(at time.Time, line string) error {
	if l.timestamps {
		line = at.UTC().Format(timestampFormat) + " " + line
	}
	line += "\n"
	if l.left >= 0 {
		line = line[:min(int64(len(line)), l.left)]
		l.left -= int64(len(line))
	}
	if _, err := l.to.WriteString(line); err != nil {
		return err
	}
	if l.left == 0 {
		return errEnough
	}
	return nil
}
