package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptrace"
	"time"

	"github.com/pluralsh/plural/agent/link"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
)

const (
	// The rhythm is that of agent/sync. jitter is the share of each wait that is random.
	jitter = 0.2
	// firstRetry is the wait after a first failure, unless the interval is shorter, doubled with each further one up to
	// lastRetry.
	firstRetry = 2 * time.Second
	lastRetry  = time.Minute
	// defaultBeat is the longest silence until the hub says another.
	defaultBeat = 30 * time.Second
	// kubernetes is what the clusters would be of.
	kubernetes = "v1.35.4"
)

// agent is one of many. Only its own goroutine touches what is not said to be safe.
type agent struct {
	swarm   *Swarm
	index   int
	cluster string
	hub     *link.Hub
	signer  *token.Signer // safe
	line    line          // safe
	wake    chan struct{} // safe
	change  chan struct{} // safe: a service's health is to change
	random  *rand.Rand

	etag     string
	interval time.Duration
	beat     time.Duration
	failures int
	// has are the keys of the bundles that were downloaded and verified.
	has      map[string]struct{}
	services []*api.ServiceReport
	boot     string
	sequence uint64
	// turn is the service whose health changed last.
	turn int
}

// run polls and reports until ctx ends. Both go one after the other, over one connection.
func (a *agent) run(ctx context.Context, first time.Time) {
	polls, reports := first, time.Time{}
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	for {
		woken := false
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
			woken = true
		case <-a.change:
			if a.turnHealth() {
				a.swarm.counted.turned(a.report(ctx))
				reports = time.Now().Add(a.jittered(a.beat))
			}
		case <-timer.C:
		}
		if woken || !time.Now().Before(polls) {
			changed := a.poll(ctx)
			polls = time.Now().Add(a.pause())
			if changed || reports.IsZero() {
				reports = time.Now()
			}
		}
		if !reports.IsZero() && !time.Now().Before(reports) {
			a.report(ctx)
			reports = time.Now().Add(a.jittered(a.beat))
		}
		next := polls
		if !reports.IsZero() && reports.Before(polls) {
			next = reports
		}
		timer.Reset(max(time.Until(next), time.Millisecond))
	}
}

func (a *agent) jittered(d time.Duration) time.Duration {
	if d <= 0 {
		d = defaultBeat
	}
	return d + time.Duration(float64(d)*jitter*(2*a.random.Float64()-1))
}

// pause is the wait until the next poll.
func (a *agent) pause() time.Duration {
	if a.failures == 0 {
		return a.jittered(a.interval)
	}
	return a.jittered(min(min(firstRetry, a.interval)<<min(a.failures-1, 10), max(lastRetry, a.interval)))
}

// poll asks once, and takes in what changed. It says whether something did.
func (a *agent) poll(ctx context.Context) bool {
	asked := time.Now()
	var connected time.Time
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = time.Now() }})
	fresh, etag, _, err := a.hub.Poll(traced, a.etag)
	if err == nil {
		a.swarm.counted.answered(time.Since(connected), fresh != nil)
	}
	if err == nil && fresh != nil {
		err = a.take(ctx, fresh)
	}
	if err != nil {
		if ctx.Err() == nil {
			a.failures++
			a.swarm.counted.failed(a.cluster, a.failures, err)
		}
		return false
	}
	a.failures = 0
	a.swarm.happened(a.index, Polled, asked)
	if fresh == nil {
		return false
	}
	a.etag = etag
	a.swarm.happened(a.index, Updated, time.Now()) // the poll may have been on its way for long
	return true
}

// take downloads and verifies what it does not have, and remembers what to report.
func (a *agent) take(ctx context.Context, fresh *api.Poll) error {
	if fresh.GetCluster() != a.cluster {
		return fmt.Errorf("the hub answers %s with the deployments of %s", a.cluster, fresh.GetCluster())
	}
	needed := make(map[string]struct{}, len(fresh.GetDeployments()))
	services := make([]*api.ServiceReport, 0, len(fresh.GetDeployments()))
	for _, d := range fresh.GetDeployments() {
		for key, inputs := range archives(d) {
			if err := a.fetch(ctx, key, inputs); err != nil {
				return fmt.Errorf("service %s: %w", d.GetService(), err)
			}
			needed[key] = struct{}{}
		}
		services = append(services, healthy(d))
	}
	a.has, a.services, a.turn = needed, services, len(services)-1
	if wanted := time.Duration(fresh.GetIntervalMs()) * time.Millisecond; wanted > 0 {
		a.interval = wanted
	}
	a.beat = time.Duration(fresh.GetReportIntervalMs()) * time.Millisecond
	return nil
}

// archives are the bundles that a deployment is rendered from, with what each holds.
func archives(d *api.Deployment) map[string][]string {
	all := make(map[string][]string, 1)
	if d.GetBundle() != "" {
		all[d.GetBundle()] = d.GetInputs()
	}
	if d.GetSecretsBundle() != "" {
		all[d.GetSecretsBundle()] = d.GetSecretsInputs()
	}
	for _, m := range d.GetMounts() {
		all[m.GetBundle()] = m.GetInputs()
	}
	return all
}

// fetch downloads a bundle and checks that its content is what its key says.
func (a *agent) fetch(ctx context.Context, key string, inputs []string) error {
	if _, ok := a.has[key]; ok {
		return nil
	}
	packed, err := a.hub.Bundle(ctx, key)
	if err != nil {
		return err
	}
	if err := a.swarm.proven.check(key, inputs, packed); err != nil {
		return err
	}
	a.swarm.counted.bundle(len(packed))
	a.has[key] = struct{}{}
	return nil
}

func healthy(d *api.Deployment) *api.ServiceReport {
	if d.GetHold() != "" {
		return &api.ServiceReport{Service: d.GetService(), Phase: api.Phase_HELD, Message: d.GetHold()}
	}
	return &api.ServiceReport{
		Service: d.GetService(), Key: d.GetKey(), AppliedKey: d.GetKey(), Phase: api.Phase_HEALTHY, Objects: 3, Ready: 3,
	}
}

// turnHealth lets the next service fall ill, or recover if it is. It says no where there is none yet.
func (a *agent) turnHealth() bool {
	for range a.services {
		a.turn = (a.turn + 1) % len(a.services)
		switch s := a.services[a.turn]; s.GetPhase() {
		case api.Phase_HEALTHY:
			s.Phase, s.Ready, s.Message = api.Phase_DEGRADED, s.GetObjects()-1, "Deployment "+s.GetService()+": 1 of 2 replicas are ready"
			return true
		case api.Phase_DEGRADED:
			s.Phase, s.Ready, s.Message = api.Phase_HEALTHY, s.GetObjects(), ""
			return true
		}
	}
	return false
}

// report says what the agent has, and whether that arrived. A report that does not is followed by the next.
func (a *agent) report(ctx context.Context) bool {
	a.sequence++
	err := a.hub.Report(ctx, &api.Report{
		AgentVersion: a.swarm.options.Version, KubernetesVersion: kubernetes, Boot: a.boot, Sequence: a.sequence,
		Services: a.services, Root: a.etag,
	})
	if ctx.Err() == nil {
		a.swarm.counted.reported(a.cluster, err)
	}
	return err == nil
}
