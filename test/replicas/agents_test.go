package replicas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/agent/link"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/api/token"
)

// load is one agent for each cluster, polling far more often than real ones do. An agent asks once more when a request
// fails; what fails twice is a failure.
type load struct {
	stop func()

	mu       sync.Mutex
	requests int
	retries  int
	failures []string
	polls    map[string]*api.Poll // by cluster: what it was told last
	etags    map[string]string
	bundles  map[string]bool // that were read and are what their keys say
}

// newLoad starts agents that go to url until stop.
func newLoad(w *world, url string) *load {
	w.t.Helper()
	ca, err := os.ReadFile(w.pki.ca)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{polls: map[string]*api.Poll{}, etags: map[string]string{}, bundles: map[string]bool{}}
	var agents sync.WaitGroup
	l.stop = func() { cancel(); agents.Wait() }
	w.t.Cleanup(l.stop)
	for _, name := range slices.Sorted(maps.Keys(w.keys)) {
		signer := token.NewSigner(w.keys[name], name, hubURL, time.Now)
		hub, err := link.New(link.Options{URL: url, CA: ca, Token: signer.Token, UserAgent: "test"})
		if err != nil {
			w.t.Fatal(err)
		}
		agents.Go(func() { l.agent(ctx, hub, name) })
	}
	return l
}

// agent polls, fetches what is new to anybody, and reports, five times a second.
func (l *load) agent(ctx context.Context, hub *link.Hub, name string) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := uint64(1); ; n++ {
		l.poll(ctx, hub, name)
		l.report(ctx, hub, name, n)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// try makes a request, and once more if it fails.
func (l *load) try(ctx context.Context, what string, request func() error) bool {
	err := request()
	l.mu.Lock()
	l.requests++
	if err != nil && ctx.Err() == nil {
		l.retries++
	}
	l.mu.Unlock()
	if err == nil || ctx.Err() != nil {
		return err == nil
	}
	again := request()
	if again != nil && ctx.Err() == nil {
		l.mu.Lock()
		l.failures = append(l.failures, fmt.Sprintf("%s %s: %v; before: %v", time.Now().Format(time.TimeOnly), what, again, err))
		l.mu.Unlock()
	}
	return again == nil
}

func (l *load) poll(ctx context.Context, hub *link.Hub, name string) {
	l.mu.Lock()
	etag := l.etags[name]
	l.mu.Unlock()
	var answer *api.Poll
	ok := l.try(ctx, "poll of "+name, func() (err error) {
		answer, etag, _, err = hub.Poll(ctx, etag)
		return err
	})
	if !ok || answer == nil {
		return
	}
	for _, d := range answer.GetDeployments() {
		if d.GetHold() == "" {
			l.fetch(ctx, hub, d)
		}
	}
	l.mu.Lock()
	l.polls[name], l.etags[name] = answer, etag
	l.mu.Unlock()
}

// fetch reads a bundle that no agent has read yet, and compares it with its key.
func (l *load) fetch(ctx context.Context, hub *link.Hub, d *api.Deployment) {
	l.mu.Lock()
	known := l.bundles[d.GetBundle()]
	l.mu.Unlock()
	if known {
		return
	}
	ok := l.try(ctx, "bundle of "+d.GetService(), func() error {
		data, err := hub.Bundle(ctx, d.GetBundle())
		if err != nil {
			return err
		}
		files, err := bundle.Unpack(bytes.NewReader(data), bundle.DefaultLimits())
		if err != nil {
			return err
		}
		if key, err := files.Key(d.GetInputs()); err != nil || key != d.GetBundle() {
			return errors.Join(fmt.Errorf("the bundle holds %s instead of %s", key, d.GetBundle()), err)
		}
		return nil
	})
	l.mu.Lock()
	l.bundles[d.GetBundle()] = l.bundles[d.GetBundle()] || ok
	l.mu.Unlock()
}

func (l *load) report(ctx context.Context, hub *link.Hub, name string, n uint64) {
	l.mu.Lock()
	told := l.polls[name]
	l.mu.Unlock()
	report := &api.Report{AgentVersion: "test", Boot: name, Sequence: n}
	for _, d := range told.GetDeployments() {
		report.Services = append(report.Services, &api.ServiceReport{
			Service: d.GetService(), Key: d.GetKey(), AppliedKey: d.GetKey(), Phase: api.Phase_HEALTHY,
		})
	}
	l.try(ctx, "report of "+name, func() error { return hub.Report(ctx, report) })
}

// all says whether every cluster was told of a deployment of the service whose bundle is other than before, and it was
// fetched.
func (l *load) all(service, before string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.polls) < clusters {
		return false
	}
	for _, told := range l.polls {
		if got := bundleOf(told, service); got == "" || got == before || !l.bundles[got] {
			return false
		}
	}
	return true
}

// bundle is what the first cluster was told of a service.
func (l *load) bundle(service string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bundleOf(l.polls["c-00"], service)
}

func bundleOf(told *api.Poll, service string) string {
	for _, d := range told.GetDeployments() {
		if d.GetService() == service && d.GetHold() == "" {
			return d.GetBundle()
		}
	}
	return ""
}

// check wants no failure, and says how many requests were tried twice.
func (l *load) check(t *testing.T, mostRetries int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d requests, %d of them twice, %d failures", l.requests, l.retries, len(l.failures))
	for _, failure := range l.failures[:min(len(l.failures), 10)] {
		t.Error(failure)
	}
	if l.retries > mostRetries {
		t.Errorf("%d requests were tried twice, at most %d were to be expected", l.retries, mostRetries)
	}
}

// same says where two loads were told different things, or nothing.
func same(a, b *load) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(a.polls) < clusters || len(b.polls) < clusters {
		return fmt.Sprintf("%d and %d clusters were told anything", len(a.polls), len(b.polls))
	}
	for name, told := range a.polls {
		if !proto.Equal(told, b.polls[name]) {
			return fmt.Sprintf("%s was told %v, and %v", name, told, b.polls[name])
		}
	}
	return ""
}
