package logs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// maxPods is how many logs are read in one go: a hub lets one person have 64 requests under way.
	maxPods = 32
	// lookEvery is how often new pods are looked for.
	lookEvery = 5 * time.Second
	// atOnce is how many clusters are asked at the same time.
	atOnce = 8
)

// reader reads the logs of a service's pods.
type reader struct {
	*options
	hub     *client.Client
	service string
	out     *lines

	mu sync.Mutex // guards what follows
	// reading are pods whose log is being read, ended when that of others came to an end.
	reading map[pod]bool
	ended   map[pod]time.Time
	// told are problems that were told.
	told map[string]bool
}

func newReader(o *options, hub *client.Client, service string, out *lines) *reader {
	return &reader{
		options: o, hub: hub, service: service, out: out,
		reading: map[pod]bool{}, ended: map[pod]time.Time{}, told: map[string]bool{},
	}
}

func (r *reader) run(ctx context.Context) error {
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) > maxPods {
		return &ui.Err{Msg: fmt.Sprintf("%s has %d pods, and at most %d logs are read in one go", r.service, len(pods), maxPods), Fix: "name clusters: --cluster CLUSTER"}
	}
	if r.follow {
		return r.followAll(ctx, pods)
	}
	if len(pods) == 0 {
		r.f.Say("%s has no pods there", ui.Clean(r.service))
	}
	failures := 0
	for _, p := range pods {
		if _, err := r.one(ctx, p, len(pods) > 1, r.query()); err != nil {
			failures++
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failures > 0 && failures == len(pods) {
		return ui.Silent(ui.ExitFailed) // each has been told
	}
	return nil
}

// followAll reads all logs at once, and those of pods that come, until ctx ends. A log that ends is gone on with, from there,
// for as long as its pod is there: the container may have been started again.
func (r *reader) followAll(ctx context.Context, pods []pod) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		for _, p := range pods {
			if query, ok := r.begin(p); ok {
				readers.Go(func() {
					opened, _ := r.one(ctx, p, true, query)
					r.end(p, opened)
				})
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		if now, err := r.pods(ctx); err == nil {
			pods = now
			r.forget(pods)
		}
	}
}

// begin says whether a pod's log is to be read, and what of it: nobody reads it, and there is room.
func (r *reader) begin(p pod) (query url.Values, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading[p] || len(r.reading) >= maxPods {
		return nil, false
	}
	r.reading[p] = true
	query = r.query()
	if ended, again := r.ended[p]; again {
		// What lies between two seconds is lost, and nothing comes twice.
		query.Set("since", max(r.f.Now().Sub(ended).Truncate(time.Second), time.Second).String())
		query.Del("tail")
	}
	return query, true
}

// end says that a pod's log came to its end, if it was opened at all.
func (r *reader) end(p pod, opened bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reading, p)
	if opened {
		r.ended[p] = r.f.Now()
	}
}

// forget drops what is known of pods that are there no more.
func (r *reader) forget(there []pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.ended, func(p pod, _ time.Time) bool { return !slices.Contains(there, p) })
}

// one reads one pod's log, and says whether there was one. A problem is told here, for the others go on.
func (r *reader) one(ctx context.Context, p pod, several bool, query url.Values) (opened bool, err error) {
	whose := ""
	if several {
		whose = p.String()
	}
	opened, err = copyLog(ctx, r.hub, p.path(), query, r.out.of(whose))
	if err != nil && ctx.Err() == nil {
		r.tell(p.String(), err)
	}
	return opened, err
}

// tell says each problem once.
func (r *reader) tell(whose string, err error) {
	text := fmt.Sprintf("%s: %v", ui.Clean(whose), ui.Clean(cmdutil.Explain(err).Error()))
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told[text] {
		r.told[text] = true
		r.f.Say("%s", text)
	}
}

// pods are the service's, on the clusters that are meant. A cluster that does not answer is told, and left out; that none
// does is an error.
func (r *reader) pods(ctx context.Context) ([]pod, error) {
	clusters, err := r.where(ctx)
	if err != nil {
		return nil, err
	}
	found := make([][]pod, len(clusters))
	failed := make([]error, len(clusters))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, cluster := range clusters {
		group.Go(func() error {
			found[i], failed[i] = r.on(ctx, cluster)
			return nil // the others go on
		})
	}
	_ = group.Wait()
	var last error
	for i, err := range failed {
		if err != nil {
			last = err
			r.tell(clusters[i], err)
		}
	}
	if last != nil && !slices.Contains(failed, nil) {
		return nil, last
	}
	return sorted(slices.Concat(found...)), nil
}

// where are the clusters that are meant.
func (r *reader) where(ctx context.Context) ([]string, error) {
	s, err := r.hub.Service(ctx, r.service)
	if err != nil {
		return nil, err
	}
	var all []string
	for i := range s.Deployments {
		all = append(all, s.Deployments[i].Cluster)
	}
	for _, name := range r.clusters {
		if !slices.Contains(all, name) {
			return nil, &ui.Err{Msg: fmt.Sprintf("service %s does not run on cluster %q", r.service, name), Fix: "plural service get " + r.service}
		}
	}
	if len(r.clusters) > 0 {
		return r.clusters, nil
	}
	if len(all) == 0 {
		return nil, errors.New("service " + r.service + " runs on no cluster")
	}
	return all, nil
}

// on are the service's pods on one cluster.
func (r *reader) on(ctx context.Context, cluster string) ([]pod, error) {
	objects, err := r.hub.ServiceObjects(ctx, cluster, r.service)
	if err != nil {
		return nil, err
	}
	var pods []pod
	for i := range objects.Items {
		if o := &objects.Items[i]; o.Group == "" && o.Kind == "Pod" {
			pods = append(pods, pod{cluster, o.Namespace, o.Name})
		}
	}
	return pods, nil
}
