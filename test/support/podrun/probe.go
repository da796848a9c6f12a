package podrun

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// haste is how much faster probes are asked than a kubelet does: tests have no time for its pace. As many more may fail.
const haste = 10

// probe asks a container's probes for as long as ctx lasts: first whether it has started, then whether it is ready and lives. One
// that does not live is ended.
func (p *pod) probe(ctx context.Context, c *corev1.Container, process *os.Process) {
	alive := true
	ask(ctx, c.StartupProbe, p.answers, func(yes bool, failures int) bool {
		alive = failures < most(c.StartupProbe)
		return !yes && alive
	})
	if !alive {
		_ = process.Kill() // one that has ended has ended
		return
	}
	p.set(ctx, c.Name, func(s *state) { s.status.Started, s.status.Ready = new(true), c.ReadinessProbe == nil })
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		ready := false
		ask(ctx, c.ReadinessProbe, p.answers, func(yes bool, _ int) bool {
			if yes != ready {
				ready = yes
				p.set(ctx, c.Name, func(s *state) { s.status.Ready = yes })
			}
			return true
		})
	})
	ask(ctx, c.LivenessProbe, p.answers, func(_ bool, failures int) bool {
		if failures < most(c.LivenessProbe) {
			return true
		}
		_ = process.Kill() // one that has ended has ended
		return false
	})
}

// most is how often a probe may fail in a row.
func most(probe *corev1.Probe) int { return haste * int(cmp.Or(probe.FailureThreshold, 3)) }

// ask asks a probe, if there is one, until ctx ends or who hears of its answers has heard enough. Failures are those in a row.
func ask(
	ctx context.Context, probe *corev1.Probe, answers func(context.Context, *corev1.Probe) bool, more func(yes bool, failures int) bool,
) {
	if probe == nil {
		return
	}
	ticker := time.NewTicker(time.Duration(cmp.Or(probe.PeriodSeconds, 10)) * time.Second / haste)
	defer ticker.Stop()
	for failures := 0; ; {
		yes := answers(ctx, probe)
		if failures++; yes {
			failures = 0
		}
		if ctx.Err() != nil || !more(yes, failures) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *pod) answers(ctx context.Context, probe *corev1.Probe) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cmp.Or(probe.TimeoutSeconds, 1))*5*time.Second)
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		get := probe.HTTPGet
		address := p.names.pod(p.namespace, p.name, p.portAt(get.Port))
		url := strings.ToLower(cmp.Or(string(get.Scheme), "http")) + "://" + address + get.Path
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as a kubelet does
		}}
		answer, err := client.Do(request)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, answer.Body) // the status says it all
		_ = answer.Body.Close()
		return answer.StatusCode >= 200 && answer.StatusCode < 400
	case probe.TCPSocket != nil:
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.names.pod(p.namespace, p.name, p.portAt(probe.TCPSocket.Port)))
		if err != nil {
			return false
		}
		_ = conn.Close()
	}
	return true
}
