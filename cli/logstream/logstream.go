// Package logstream owns the reading of logs of pods through a hub.
//
// It refuses to know what becomes of the lines.
//
// A Reader is told whose logs are wanted: the hub's own, an agent's, a pod's, or those of all pods of a service. It finds the
// pods, opens a stream for each, and gives each line, cleaned of whatever a terminal would act on, with whose it is. What cannot
// be read is told beside the lines, once, and the others go on. Where a log is followed, new pods come in, and a stream that ends
// is taken up again where it was.
package logstream

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// maxLine is where a line is broken that has no end, in bytes.
	maxLine = 64 << 10
	// maxOwn is how many lines the hub and agents keep of their own.
	maxOwn = 2000
)

// Of says whose logs are read. Exactly one of Hub, Agent, Service and Pod is set.
type Of struct {
	Hub bool
	// Agent is a cluster, Service a service.
	Agent, Service string
	// Clusters are the only ones on which the service is looked at; none: all.
	Clusters []string
	// Below is the uid of an object of the service: only pods that hang below it are read; empty: all.
	Below string
	Pod   Pod
}

// Options say what of the logs is read.
type Options struct {
	Follow bool
	// Previous, Timestamps and Container are for pods: the containers before the ones that run, a time before each line, and the
	// only container of each pod that is read.
	Previous, Timestamps bool
	Container            string
	// Since is how far back lines are wanted; 0: as far as there are any.
	Since time.Duration
	// Tail is how many of the newest lines of each log are wanted; -1: all.
	Tail int
}

// Line is one line of a log.
type Line struct {
	// From is CLUSTER/POD, empty where there is but one log.
	From string
	// Text has no control character but tabs.
	Text string
}

// Reader reads logs. Its functions may be called by several goroutines at once.
type Reader struct {
	Hub *client.Client
	Options
	Now func() time.Time
	// Line takes a line. An error of it ends the log.
	Line func(Line) error
	// Problem is told what cannot be read: of a pod or a cluster, whose name whose is. The same is told once.
	Problem func(whose string, err error)
	// Ended, if set, is told that a followed log had lines, came to its end, and is taken up again; why is nil where no reason was
	// given. Logs of pods are taken up again in any case, those of the hub and of agents only where it is set.
	Ended func(from string, why error)
	// lookAgain is how often new pods are looked for, and how long after its end a log is taken up again; 0: lookEvery.
	lookAgain time.Duration
}

// Run reads until the logs end, or ctx does where they are followed.
func (r *Reader) Run(ctx context.Context, of Of) error {
	switch {
	case of.Hub:
		return r.own(ctx, "/v1/hub/logs")
	case of.Agent != "":
		return r.own(ctx, "/v1/clusters/"+url.PathEscape(of.Agent)+"/agent/logs")
	}
	return newPods(r, of).run(ctx)
}

// own reads the log of the hub or of an agent, whose lines begin with their time.
func (r *Reader) own(ctx context.Context, path string) error {
	query := url.Values{"tail": {strconv.Itoa(r.Tail)}}
	if r.Tail < 0 || r.Tail > maxOwn {
		query.Set("tail", strconv.Itoa(maxOwn))
	}
	if r.Follow {
		query.Set("follow", "true")
	}
	to := &log{reader: r}
	if r.Since > 0 {
		to.after = r.Now().Add(-r.Since)
	}
	for {
		opened, err := to.read(ctx, path, query)
		if !r.Follow || r.Ended == nil || ctx.Err() != nil || refusal(err) {
			return err
		}
		r.Ended("", err)
		if opened {
			query.Set("tail", strconv.Itoa(maxOwn)) // what came before is left out
			to.again()
		}
		if err := wait(ctx, cmp.Or(r.lookAgain, lookEvery)); err != nil {
			return err
		}
	}
}

// refusal says that the hub will say the same again.
func refusal(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && (refused.Status == 401 || refused.Status == 403 || refused.Status == 404)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// query is what is asked of a pod's log.
func (r *Reader) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]bool{"follow": r.Follow, "previous": r.Previous, "timestamps": r.Timestamps} {
		if value {
			q.Set(name, "true")
		}
	}
	if r.Since > 0 {
		q.Set("since", r.Since.String())
	}
	if r.Tail >= 0 {
		q.Set("tail", strconv.Itoa(r.Tail))
	}
	if r.Container != "" {
		q.Set("container", r.Container)
	}
	return q
}

// log is one of those that are read.
type log struct {
	reader *Reader
	from   string
	// after, when set, leaves out lines that begin with an earlier time.
	after time.Time
	// last is the newest time that a line began with, same are the lines with it; seen are those of the stream before.
	last       time.Time
	same, seen []string
	// lines counts those that were given.
	lines int
}

// read reads one log to its end, and says whether there was one.
func (l *log) read(ctx context.Context, path string, query url.Values) (opened bool, err error) {
	stream, err := l.reader.Hub.Text(ctx, path, query)
	if err != nil {
		return false, err
	}
	err = l.copy(stream)
	return true, errors.Join(err, stream.Close())
}

// copy gives all lines of a stream. An error of the stream comes after the lines before it.
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
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if l.early(text) {
		return nil
	}
	l.lines++
	return l.reader.Line(Line{From: l.from, Text: ui.CleanText(text)})
}

// early says whether a line is older than what is wanted, or was read before.
func (l *log) early(text string) bool {
	if l.after.IsZero() && l.reader.Ended == nil {
		return false
	}
	word, _, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, word)
	if err != nil {
		return false
	}
	if at.Before(l.after) || at.Equal(l.after) && slices.Contains(l.seen, text) {
		return true
	}
	if at.After(l.last) {
		l.last, l.same = at, l.same[:0]
	}
	if at.Equal(l.last) && len(l.same) < maxOwn {
		l.same = append(l.same, text)
	}
	return false
}

// again leaves out, from now on, what has been read.
func (l *log) again() {
	if l.last.After(l.after) {
		l.after, l.seen = l.last, slices.Clone(l.same)
	}
}
