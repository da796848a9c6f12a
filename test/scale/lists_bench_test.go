package scale

import (
	"fmt"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

const (
	listedClusters = 10_000
	listedServices = 10
	listTurns      = 400
)

// listed is a fleet of 10,000 clusters with 10 services each, as the hub sees it.
type listed struct {
	view *view.View

	mu      sync.Mutex // guards reports
	reports map[string]*api.Report
}

func newListed() *listed {
	l := &listed{reports: map[string]*api.Report{}}
	d := &view.Desired{Served: v1.Commit{ID: "c1"}, Head: v1.Commit{ID: "c1"}, Deployments: map[string][]*resolve.Deployment{}}
	var wanted []*resolve.Deployment
	for i := range listedServices {
		name := fmt.Sprintf("service-%02d", i)
		d.Fleet.Services = append(d.Fleet.Services, fleet.Service{Metadata: fleet.Metadata{Name: name}})
		wanted = append(wanted, &resolve.Deployment{Service: name, Key: "key-2", Namespace: name, Version: "1.2.3"})
	}
	for i := range listedClusters {
		c := fleet.Cluster{Metadata: fleet.Metadata{Name: fmt.Sprintf("edge-%05d", i)}}
		c.Spec.Agent.Auth = "ed25519:key"
		c.Spec.Tags = map[string]string{"env": []string{"prod", "staging", "dev"}[i%3], "region": fmt.Sprintf("eu-%02d", i%40)}
		d.Fleet.Clusters = append(d.Fleet.Clusters, c)
		d.Deployments[c.Metadata.Name] = wanted
		l.report(i, 0)
	}
	l.view = view.New(view.Options{
		Desired: func() *view.Desired { return d }, Sources: func() []v1.Source { return nil }, Now: time.Now, StaleAfter: time.Hour,
		Report: func(cluster string) (*api.Report, bool) {
			l.mu.Lock()
			defer l.mu.Unlock()
			r, ok := l.reports[cluster]
			return r, ok
		},
		Received: func(cluster string) (int64, bool) {
			l.mu.Lock()
			defer l.mu.Unlock()
			r, ok := l.reports[cluster]
			return r.GetReceivedUnixMs(), ok
		},
	})
	return l
}

// report makes a cluster's agent say something; one row of thirty is not well.
func (l *listed) report(cluster, round int) string {
	name := fmt.Sprintf("edge-%05d", cluster)
	r := &api.Report{AgentVersion: "v0.12.0", KubernetesVersion: "v1.36.1", ReceivedUnixMs: time.Now().UnixMilli()}
	for i := range listedServices {
		s := &api.ServiceReport{
			Service: fmt.Sprintf("service-%02d", i), Key: "key-2", AppliedKey: "key-2", AppliedVersion: "1.2.3",
			Phase: api.Phase_HEALTHY, Objects: 12, Ready: 12,
		}
		if (cluster+i+round)%30 == 0 {
			s.Phase, s.Ready = api.Phase_DEGRADED, 11
			s.Message = fmt.Sprintf("Deployment service-%02d/web: 1 of 3 replicas are ready: image cannot be pulled on %s", i, name)
		}
		r.Services = append(r.Services, s)
	}
	l.mu.Lock()
	l.reports[name] = r
	l.mu.Unlock()
	return name
}

// take has so many agents report, one after another, and gives what the view needs for each, in microseconds.
func (l *listed) take(reports int) float64 {
	var took time.Duration
	for i := range reports {
		cluster := l.report(i*7%listedClusters, 1)
		began := time.Now()
		l.view.Reported(cluster, false)
		l.view.Summary()
		took += time.Since(began)
	}
	return float64(took) / float64(time.Microsecond) / float64(reports)
}

// BenchmarkIndex makes the index of 100,000 rows, and prints a line "bench NAME VALUE UNIT" for each figure that has a target, beside
// that target. It runs once.
func BenchmarkIndex(b *testing.B) {
	if b.N > 1 {
		return
	}
	before := heap()
	l := newListed()
	with := heap()
	began := time.Now()
	l.view.Summary()
	figure("index_100k_first_ms", ms(time.Since(began)), "ms", 0)
	figure("index_100k_mb", float64(heap()-with)/1e6, "MB", 60)
	b.Logf("the fleet itself takes %d MB", (with-before)/1e6)
	figure("index_100k_report_us", l.take(2000), "us", 0)
}

// lists reads filtered pages of 200 rows out of 100,000 from the shipped hub, while its agents report.
func lists(b *testing.B, f *simulated) {
	b.Helper()
	figure("list_100k_services_p99_ms", f.read(b, "/v1/deployments",
		url.Values{"filter": {"health:degraded stage:prod"}, "limit": {"200"}},
		url.Values{"filter": {"health:degraded region:r1 replicas"}, "sort": {"-health,service"}},
		url.Values{"filter": {"!health:healthy message~replicas"}, "sort": {"-cluster"}},
		url.Values{"filter": {"c-099"}, "sort": {"service,-ready"}},
		url.Values{"filter": {"stage:dev"}, "sort": {"version,objects"}},
		url.Values{"sort": {"-health"}},
		url.Values{}), "ms", 50)
	figure("list_10k_clusters_p99_ms", f.read(b, "/v1/clusters",
		url.Values{"filter": {"health:degraded stage:prod"}}, url.Values{"sort": {"-health,name"}}, url.Values{"filter": {"region:r6"}, "sort": {"reported"}}), "ms", 50)
	figure("status_10k_clusters_p99_ms", f.read(b, "/v1/status", url.Values{}), "ms", 300)
	figure("summary_10k_clusters_p99_ms", f.read(b, "/v1/summary", url.Values{}), "ms", 50)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
