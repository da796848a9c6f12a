package logstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pluralsh/plural/cli/client"
)

const (
	// MaxLogs is how many logs are read in one go: a hub lets one person have 64 requests under way.
	MaxLogs = 32
	// lookEvery is Reader.lookAgain.
	lookEvery = 5 * time.Second
)

// ErrNone means that there was something to read, and that none of it could be. Why has been told for each.
var ErrNone = errors.New("no log could be read")

// ElsewhereError says that a service does not run where it is looked for.
type ElsewhereError struct{ Service, Cluster string }

// Error names both.
func (e *ElsewhereError) Error() string {
	if e.Cluster == "" {
		return "service " + e.Service + " runs on no cluster"
	}
	return fmt.Sprintf("service %s does not run on cluster %q", e.Service, e.Cluster)
}

// ManyError says that there are more pods than logs are read in one go.
type ManyError struct{ Pods int }

// Error says how many.
func (e *ManyError) Error() string {
	return fmt.Sprintf("there are %d pods, and at most %d logs are read in one go", e.Pods, MaxLogs)
}

// Pod is one whose log is read.
type Pod struct{ Cluster, Namespace, Name string }

// String is CLUSTER/NAME.
func (p Pod) String() string { return p.Cluster + "/" + p.Name }

// source is one container's log; of the pod's only container where that is not named.
type source struct {
	Pod
	container string
}

func (s source) String() string {
	if s.container == "" {
		return s.Pod.String()
	}
	return s.Pod.String() + "/" + s.container
}

func (s source) path() string {
	in := "/v1/clusters/" + url.PathEscape(s.Cluster) + "/pods/" + url.PathEscape(s.Namespace)
	return in + "/" + url.PathEscape(s.Name) + "/logs"
}

// pods reads the logs of several pods.
type pods struct {
	*Reader
	// find gives the pods of the clusters that answer soon, and a channel, closed at its end, of the answers of the others; nil
	// where there are none.
	find func(context.Context) ([]Pod, <-chan answer, error)
	// alone says that there is but one pod, whatever comes.
	alone bool

	mu sync.Mutex // guards what follows
	// containers are those of pods that have several.
	containers map[Pod][]string
	// reading are logs that are being read, ended when that of others came to an end.
	reading map[source]bool
	ended   map[source]time.Time
	// waiting is what keeps pods that are not well, as their clusters say it.
	waiting map[Pod]string
	// told are problems that were told.
	told map[string]bool
}

func newPods(r *Reader, of Of) *pods {
	reader := *r
	p := &pods{
		Reader: &reader, containers: map[Pod][]string{},
		reading: map[source]bool{}, ended: map[source]time.Time{}, waiting: map[Pod]string{}, told: map[string]bool{},
	}
	reader.Problem = func(whose string, err error) {
		if r.Problem != nil && p.first(whose, err) {
			r.Problem(whose, err)
		}
	}
	p.find = func(ctx context.Context) ([]Pod, <-chan answer, error) { return p.ofService(ctx, of) }
	if p.alone = of.Service == ""; p.alone {
		p.find = func(context.Context) ([]Pod, <-chan answer, error) { return []Pod{of.Pod}, nil, nil }
	}
	return p
}

// first says that a problem has not been told.
func (p *pods) first(whose string, err error) bool {
	text := whose + "\n" + err.Error()
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.told[text]
	p.told[text] = true
	return first
}

func (p *pods) run(ctx context.Context) error {
	found, late, err := p.find(ctx)
	if err != nil {
		return err
	}
	if len(found) > MaxLogs {
		return &ManyError{Pods: len(found)}
	}
	if p.Follow {
		return p.followAll(ctx, found, late)
	}
	several := len(found) > 1 || late != nil
	failures := p.wholes(ctx, found, several)
	all := len(found)
	for late != nil {
		a, more := <-late
		if !more {
			break
		}
		found = p.take(ctx, a)
		if all += len(found); all > MaxLogs {
			return &ManyError{Pods: all}
		}
		failures += p.wholes(ctx, found, several)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failures > 0 && failures == all {
		return ErrNone
	}
	return nil
}

// wholes reads the logs of pods one after the other, and counts those that could not be read.
func (p *pods) wholes(ctx context.Context, found []Pod, several bool) (failures int) {
	for _, pod := range found {
		if err := p.whole(ctx, pod, several); err != nil {
			failures++
		}
	}
	return failures
}

// whole reads a pod's log to its end: that of each container, where it has several and none is named.
func (p *pods) whole(ctx context.Context, pod Pod, several bool) (err error) {
	for _, s := range p.sources(pod) {
		if _, one := p.one(ctx, s, several || s.container != "", p.query()); one != nil {
			err = one
		}
	}
	if errors.As(err, new(*severalError)) {
		return p.whole(ctx, pod, several) // it is known now which ones
	}
	return err
}

// followAll reads all logs at once, and those of pods that come, until ctx ends. A log that ends is gone on with, from there,
// for as long as its pod is there: the container may have been started again.
func (p *pods) followAll(ctx context.Context, found []Pod, late <-chan answer) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	ticker := time.NewTicker(cmp.Or(p.lookAgain, lookEvery))
	defer ticker.Stop()
	again := make(chan struct{}, 1)
	for {
		for _, pod := range found {
			for _, s := range p.sources(pod) {
				if query, ok := p.begin(s); ok {
					readers.Go(func() {
						opened, err := p.one(ctx, s, !p.alone || s.container != "", query)
						if p.end(s, opened); errors.As(err, new(*severalError)) {
							select {
							case again <- struct{}{}:
							default:
							}
						}
					})
				}
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again:
			continue
		case a, more := <-late:
			if !more {
				late = nil
			}
			found = append(found, p.take(ctx, a)...)
			continue
		case <-ticker.C:
		}
		if late != nil {
			continue // the same would be asked once more
		}
		now, rest, err := p.find(ctx)
		if err != nil {
			continue
		}
		if found, late = now, rest; late == nil {
			p.forget(found)
		}
	}
}

// sources are a pod's logs, as far as they are known to be several.
func (p *pods) sources(pod Pod) []source {
	containers := p.containersOf(pod)
	if p.Container != "" || len(containers) == 0 {
		return []source{{Pod: pod}}
	}
	all := make([]source, len(containers))
	for i, name := range containers {
		all[i] = source{pod, name}
	}
	return all
}

func (p *pods) containersOf(pod Pod) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.containers[pod]
}

// begin says whether a log is to be read, and what of it: nobody reads it, and there is room.
func (p *pods) begin(s source) (query url.Values, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reading[s] || len(p.reading) >= MaxLogs {
		return nil, false
	}
	p.reading[s] = true
	query = p.query()
	if ended, again := p.ended[s]; again {
		// What lies between two seconds is lost, and nothing comes twice.
		query.Set("since", max(p.Now().Sub(ended).Truncate(time.Second), time.Second).String())
		query.Del("tail")
	}
	return query, true
}

// end says that a log came to its end, if it was opened at all.
func (p *pods) end(s source, opened bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reading, s)
	if opened {
		p.ended[s] = p.Now()
	}
}

// forget drops what is known of pods that are there no more.
func (p *pods) forget(there []Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.ended, func(s source, _ time.Time) bool { return !slices.Contains(there, s.Pod) })
	maps.DeleteFunc(p.waiting, func(pod Pod, _ string) bool { return !slices.Contains(there, pod) })
	maps.DeleteFunc(p.containers, func(pod Pod, _ []string) bool { return !slices.Contains(there, pod) })
}

// severalError says that a pod has several containers, which are known now.
type severalError struct{ error }

// one reads one log, and says whether there was one. A problem is told here, for the others go on.
func (p *pods) one(ctx context.Context, s source, several bool, query url.Values) (opened bool, err error) {
	whose := ""
	if several {
		whose = s.String()
	}
	if s.container != "" {
		query.Set("container", s.container)
	}
	l := &log{reader: p.Reader, from: whose}
	opened, err = l.read(ctx, s.path(), query)
	if ctx.Err() != nil {
		return opened, err
	}
	if containers := named(err); len(containers) > 0 && p.Container == "" && s.container == "" {
		p.mu.Lock()
		p.containers[s.Pod] = containers
		p.mu.Unlock()
		return opened, &severalError{err}
	}
	if err != nil {
		p.Problem(s.String(), p.unstarted(s.Pod, err))
	} else if p.Follow && p.Ended != nil && l.lines > 0 {
		p.Ended(whose, nil)
	}
	return opened, err
}

// UnstartedError says that a pod has no log, since nothing of it has started.
type UnstartedError struct {
	// Why is what its cluster says of the pod: an image that cannot be pulled, with its name.
	Why string
	// Err is the refusal of its kubelet.
	Err error
}

// Error says why.
func (e *UnstartedError) Error() string { return "it has no log, for it has not started: " + e.Why }

// Unwrap is the refusal.
func (e *UnstartedError) Unwrap() error { return e.Err }

// unstarted is err, with why, where that is a kubelet's word that a container waits to start and more is known of its pod.
func (p *pods) unstarted(pod Pod, err error) error {
	var refused *client.Error
	p.mu.Lock()
	defer p.mu.Unlock()
	if why := p.waiting[pod]; why != "" && errors.As(err, &refused) && strings.Contains(refused.Message, "is waiting to start") {
		return &UnstartedError{Why: why, Err: err}
	}
	return err
}

// choices is how an API server says which containers there are, when it is not told which one is meant. There is no other way to
// know them that would not take rights to read pods.
var choices = regexp.MustCompile(`a container name must be specified for pod .*choose one of: \[([a-z0-9. -]+)\]`)

func named(err error) []string {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return nil
	}
	if found := choices.FindStringSubmatch(refused.Message); found != nil {
		return strings.Fields(found[1])
	}
	return nil
}
