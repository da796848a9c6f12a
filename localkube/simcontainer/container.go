// Package simcontainer owns what a container would say and do if somebody looked into it, while nothing runs.
//
// It refuses to know about nodes, HTTP or API servers, and starts no process: its programs are a handful of words that
// are understood here, its files are bytes in memory, its ports answer from a constant.
//
// Data passes through like this: the caller says which container is meant, as a value, and hands over the streams of
// whoever looks; WriteLog, Exec, Attach and Forward each play one request to its end. Only Files last longer than
// a request, as long as their pod is remembered.
package simcontainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
)

// Explanation is the first line of every log.
const Explanation = "simulated container: nothing runs here"

// tick is how often a container that is listened to says that it is still there.
const tick = time.Second

// Container is one container of a pod.
type Container struct {
	Pod, Name string
	Started   time.Time       // in the log's first line
	Ended     bool            // it has completed: its log is not followed
	Lines     int             // of its log, besides the first
	Env       []corev1.EnvVar // what env prints; values from elsewhere are not resolved
	Files     *Files          // of the pod
}

// Streams are the ends of one session. A stream that was not asked for is nil, and with a terminal Stderr always is.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Terminal       bool
	Resize         <-chan remotecommand.TerminalSize // nil without a terminal; closed by whoever made it
}

// Attach plays the container's first process: it repeats what it is told until the input ends, or, when nobody
// speaks to it, says every second that it is there, until ctx ends or nobody listens.
func (c Container) Attach(ctx context.Context, streams Streams) error {
	session, end := newSession(ctx, c, streams)
	defer end()
	if streams.Stdin != nil {
		if _, err := io.Copy(session.out, session.in); !errors.Is(err, errInterrupted) {
			return err
		}
		return nil
	}
	return c.speak(ctx, func(line string) error {
		_, err := fmt.Fprintln(session.out, line)
		return err
	})
}

// speak hands over a line every tick until ctx ends, which is no error, or say fails.
func (c Container) speak(ctx context.Context, say func(string) error) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if err := say(fmt.Sprintf("simulated container: second %d", int(now.Sub(c.Started).Seconds()))); err != nil {
				return err
			}
		}
	}
}
