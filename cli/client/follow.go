package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	// maxEvent bounds one line of a stream, in bytes.
	maxEvent = 1 << 20
	// silence is how long a stream may bring nothing, not even a beat, before it counts as broken.
	silence = 45 * time.Second
	// minPause and maxPause lie between two attempts to follow.
	minPause, maxPause = 250 * time.Millisecond, 10 * time.Second
)

// Following says what to follow.
type Following struct {
	// Since is that of a list; empty: from now.
	Since string
	// Kinds are what to be told of; none: all.
	Kinds []v1.ChangeKind
	// Filter is for all kinds but those in Filters.
	Filter  string
	Filters map[v1.ChangeKind]string
	// Connected, if set, is told each time that the stream is there, with nil, or broken, with why.
	Connected func(error)
}

// Follow gives what changes to each, one event at a time, until ctx ends or each returns an error, which it returns. A stream that
// breaks is taken up again where it was. After a v1.Reset, lists have to be read again: Follow goes on with what changes after
// it. What the hub refuses is an *Error.
func (c *Client) Follow(ctx context.Context, f Following, each func(v1.StreamEvent) error) error {
	if f.Connected == nil {
		f.Connected = func(error) {}
	}
	return again(ctx, f.Connected, func() (bool, error) {
		before := f.Since
		err := c.follow(ctx, &f, each)
		return f.Since != before, err
	})
}

// again reads a stream with once until ctx ends, the hub refuses it or is another repository's, or whoever takes the events stops.
// In between it pauses, the longer the more often nothing came. Of what ended a stream, broken is told.
func again(ctx context.Context, broken func(error), once func() (came bool, err error)) error {
	pause := minPause
	for {
		came, err := once()
		var refused *Error
		if stop := (*stopped)(nil); errors.As(err, &stop) {
			return stop.err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.As(err, new(*OtherRepository)) || errors.As(err, &refused) && refusedFor(refused.Status) {
			return err
		}
		broken(err)
		if pause = min(2*pause, maxPause); came {
			pause = minPause
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// stopped is an error of whoever takes the events.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }

// follow reads one stream until it breaks. What it has read to the end stands in f.Since.
func (c *Client) follow(ctx context.Context, f *Following, each func(v1.StreamEvent) error) error {
	return c.events(ctx, "/v1/stream?"+f.query().Encode(), func() { f.Connected(nil) }, func(stream io.Reader, came func()) error {
		return f.read(stream, came, each)
	})
}

// events has read take in one stream until it breaks. That it is there is told to begun, and that something came, by read.
func (c *Client) events(ctx context.Context, path string, begun func(), read func(stream io.Reader, came func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errors.New("nothing came for " + silence.String())) })
	defer quiet.Stop()
	resp, err := c.send(ctx, http.MethodGet, c.base.String()+path, "text/event-stream", nil, c.endless())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	begun()
	err = read(resp.Body, func() { quiet.Reset(silence) })
	if stop := (*stopped)(nil); errors.As(err, &stop) {
		return err
	}
	return c.unreachable(ctx, err)
}

// read takes events in until the stream ends, which is an error, or each returns one, which is a *stopped. It says of each line
// that it came.
func (f *Following) read(stream io.Reader, came func(), each func(v1.StreamEvent) error) error {
	reader := bufio.NewReaderSize(stream, 64<<10)
	var event v1.StreamEvent
	var id string
	for {
		line, err := readLine(reader)
		if err != nil {
			return err
		}
		came()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			id = value
		case "event":
			event.Kind = v1.ChangeKind(value)
		case "data":
			event.Data = append(event.Data, value...)
		}
		if len(event.Data) > maxEvent {
			return fmt.Errorf("an event of more than %d bytes", maxEvent)
		}
		if line != "" {
			continue
		}
		if event.Kind != "" {
			if err := each(event); err != nil {
				return &stopped{err}
			}
		}
		if id != "" {
			f.Since = id
		}
		event, id = v1.StreamEvent{}, ""
	}
}

func (f *Following) query() url.Values {
	query := url.Values{}
	for _, kind := range f.Kinds {
		query.Add("kind", string(kind))
	}
	for name, value := range map[string]string{"filter": f.Filter, "since": f.Since} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for kind, filter := range f.Filters {
		query.Set("filter."+string(kind), filter)
	}
	return query
}

// readLine reads a line of at most maxEvent bytes, without its end.
func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxEvent:
			return "", fmt.Errorf("a line of more than %d bytes", maxEvent)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return "", errors.New("the hub ended the stream")
		case err != nil:
			return "", err
		}
		return strings.TrimRight(string(line), "\r\n"), nil
	}
}
