package simcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pluralsh/plural/agent/sim"
	"github.com/pluralsh/plural/cli/simcmd/stage"
)

// hub is what a scenario needs of the hub that is measured.
type hub interface {
	Usage(ctx context.Context) (stage.Usage, error)
	Hint(ctx context.Context) error
}

// scene is a fleet at work.
type scene struct {
	*options
	hub   hub
	repo  *stage.Repo
	swarm *sim.Swarm
	// lines has the lines of the input, with --step; it is closed at its end.
	lines <-chan struct{}
}

func newScene(o *options, hub hub, repo *stage.Repo, url string, ca []byte) (*scene, error) {
	agents := make([]sim.Identity, o.fleet.Clusters)
	for i := range agents {
		agents[i] = sim.Identity{Cluster: o.fleet.Cluster(i), Key: o.fleet.Key(i)}
	}
	seed := uint64(0)
	for _, b := range []byte(o.fleet.Seed) {
		seed = seed*257 + uint64(b)
	}
	swarm, err := sim.New(sim.Options{
		URL: url, CA: ca, Agents: agents, Ramp: o.ramp, Interval: o.poll, Channels: o.channels, Seed: seed,
		Version: o.factory.Version,
	})
	return &scene{options: o, hub: hub, repo: repo, swarm: swarm}, err
}

// lines tells of each line of the input, and is closed at its end. A read of a terminal cannot be ended: it goes with the program.
func lines(in io.Reader) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		for read := bufio.NewScanner(in); read.Scan(); {
			c <- struct{}{}
		}
	}()
	return c
}

// row is what one scenario showed. Times are in the units that their names say.
type row struct {
	Scenario string `json:"scenario"`
	Clusters int    `json:"clusters"`
	Services int    `json:"services"`
	// Seconds is how long it took. The hub used Cores of processor time a second, and held at most RSSMB resident; PeakMB
	// is the most that it ever held.
	Seconds float64 `json:"seconds"`
	Cores   float64 `json:"hubCores"`
	RSSMB   float64 `json:"hubRssMB"`
	PeakMB  float64 `json:"hubPeakMB,omitempty"`
	// LastAgent is how long it took until the last agent was where it was meant to be, in seconds; Missing are those that
	// never were.
	LastAgent float64 `json:"lastAgentSeconds,omitempty"`
	Missing   int     `json:"missingAgents,omitempty"`
	// P50 and P99 are of polls on open connections, in milliseconds.
	Polls   int64   `json:"polls"`
	P50     float64 `json:"pollP50Ms"`
	P99     float64 `json:"pollP99Ms"`
	Reports int64   `json:"reports"`
	// Turns are reports among them by which a service's health changed.
	Turns       int64 `json:"turns,omitempty"`
	Bundles     int64 `json:"bundles"`
	Connections int64 `json:"connections"`
	// Retries are requests that failed; Failures those that failed again at the first retry or later.
	Retries  int64    `json:"retries"`
	Failures int64    `json:"failures"`
	Errors   []string `json:"errors,omitempty"`
}

// play lets the agents start, then plays the scenarios one after the other.
func (s *scene) play(ctx context.Context, names []string) ([]row, error) {
	ctx, cancel := context.WithCancel(ctx)
	var agents sync.WaitGroup
	defer agents.Wait()
	defer cancel()
	rows := make([]row, 0, len(names)+1)
	add := func(name string, play func(context.Context) (last, error)) error {
		s.factory.Say("playing %s", name)
		row, err := s.measured(ctx, name, play)
		if err != nil {
			return fmt.Errorf("scenario %s: %w", name, err)
		}
		rows = append(rows, *row)
		return nil
	}
	if s.step {
		s.lines = lines(s.factory.IO.In)
	}
	err := add("start", func(ctx context.Context) (last, error) {
		round := s.swarm.Begin(sim.Updated, s.swarm.Size())
		agents.Go(func() { s.swarm.Run(ctx) })
		return s.wait(ctx, round, s.ramp+patience), nil
	})
	for _, name := range names {
		if err == nil && s.step {
			err = s.enter(ctx, name)
		}
		if err != nil {
			return rows, err
		}
		err = add(name, scenarios()[name].with(s))
	}
	return rows, err
}

// enter waits for a line of input, or for its end, while the agents go on.
func (s *scene) enter(ctx context.Context, name string) error {
	s.factory.Say("enter plays %s", name)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.lines:
		return nil
	}
}

// last is how long the last agent took, and how many never came.
type last struct {
	after   time.Duration
	missing int
}

// patience is how much longer than it may take a scenario is waited for.
const patience = 5 * time.Minute

func (s *scene) wait(ctx context.Context, round *sim.Round, most time.Duration) last {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	after, missing := s.swarm.Wait(ctx, round)
	return last{after, missing}
}

// measured plays and measures.
func (s *scene) measured(ctx context.Context, name string, play func(context.Context) (last, error)) (*row, error) {
	s.swarm.Take()
	meter := newMeter(s.hub)
	meter.look(ctx)
	began := time.Now()
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { meter.watch(watched) })
	end, err := play(ctx)
	took := time.Since(began)
	stop()
	watching.Wait()
	meter.look(ctx)
	if err := errors.Join(err, meter.err, ctx.Err()); err != nil {
		return nil, err
	}
	seen := s.swarm.Take()
	return &row{
		Scenario: name, Clusters: s.fleet.Clusters, Services: s.fleet.Services, Seconds: took.Seconds(),
		Cores: meter.cpu.Seconds() / took.Seconds(), RSSMB: megabytes(meter.most.RSS), PeakMB: megabytes(meter.most.Peak),
		LastAgent: end.after.Seconds(), Missing: end.missing,
		Polls: seen.Polls, P50: milliseconds(seen.P50), P99: milliseconds(seen.P99), Reports: seen.Reports, Turns: seen.Turns,
		Bundles: seen.Bundles, Connections: seen.Connections, Retries: seen.Retries, Failures: seen.Failures, Errors: seen.Errors,
	}, nil
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// meter adds up what the hub uses, over its restarts too.
type meter struct {
	hub  hub
	seen bool
	last stage.Usage
	cpu  time.Duration
	most stage.Usage
	err  error
}

func newMeter(h hub) *meter { return &meter{hub: h} }

// watch looks every second until ctx ends.
func (m *meter) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.look(ctx)
		}
	}
}

// look takes a sample. A hub that is being restarted cannot be measured, and is not; one that never could be is an error.
func (m *meter) look(ctx context.Context) {
	now, err := m.hub.Usage(ctx)
	if err != nil {
		if !m.seen {
			m.err = err
		}
		return
	}
	if m.seen && now.CPU >= m.last.CPU { // less is another process's, which begins from nothing
		m.cpu += now.CPU - m.last.CPU
	} else if m.seen {
		m.cpu += now.CPU
	}
	m.seen, m.last, m.err = true, now, nil
	m.most = stage.Usage{RSS: max(m.most.RSS, now.RSS), Peak: max(m.most.Peak, now.Peak)}
}
