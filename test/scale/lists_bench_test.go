package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	hubapi "github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/person"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

const (
	listedClusters = 10_000
	listedServices = 10
	// listedReports is how many agents report something new each second while lists are read.
	listedReports = 300
	listTurns     = 400
)

// listed is a fleet of 10,000 clusters with 10 services each, behind /v1.
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

// serve is /v1 on this machine.
func (l *listed) serve(b *testing.B) string {
	mux := http.NewServeMux()
	hubapi.New(hubapi.Options{
		View: l.view, Sources: func() []v1.Source { return nil },
		Allow: func(*http.Request, string) (person.Person, error) { return person.Person{Name: "bench"}, nil },
	}).Routes(mux)
	server := httptest.NewServer(mux)
	b.Cleanup(server.Close)
	return server.URL
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

// storm has agents report, at an even pace, until ctx ends.
func (l *listed) storm(ctx context.Context) {
	tick := time.NewTicker(time.Second / listedReports)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.view.Reported(l.report(round%listedClusters, round/listedClusters+1), false)
		}
	}
}

// BenchmarkLists reads filtered pages of 200 rows out of 100,000 while agents report, and prints a line "bench NAME VALUE UNIT"
// for each figure that has a target, beside that target. It runs once.
func BenchmarkLists(b *testing.B) {
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
	hub := l.serve(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { l.storm(ctx) })
	queries := []url.Values{
		{"filter": {"health:degraded env:prod"}, "limit": {"200"}},
		{"filter": {"health:degraded region:eu-0* image"}, "sort": {"-health,service"}},
		{"filter": {"!health:healthy message~pulled"}, "sort": {"-cluster"}},
		{"filter": {"edge-099"}, "sort": {"service,-ready"}},
		{"filter": {"env:staging"}, "sort": {"version,objects"}},
		{"sort": {"-health"}},
		{},
	}
	figure("list_100k_services_p99_ms", l.read(b, hub+"/v1/deployments", queries), "ms", 50)
	figure("list_10k_clusters_p99_ms", l.read(b, hub+"/v1/clusters", []url.Values{
		{"filter": {"health:degraded env:prod"}}, {"sort": {"-health,name"}}, {"filter": {"region:eu-07"}, "sort": {"reported"}},
	}), "ms", 50)
	figure("status_10k_clusters_p99_ms", l.read(b, hub+"/v1/status", []url.Values{{}}), "ms", 300)
	figure("summary_10k_clusters_p99_ms", l.read(b, hub+"/v1/summary", []url.Values{{}}), "ms", 50)
	cancel()
}

// read asks turn by turn, going on to the second page of each list, and gives the 99th percentile.
func (l *listed) read(b *testing.B, address string, queries []url.Values) float64 {
	b.Helper()
	var took []time.Duration
	for turn := range listTurns {
		query := queries[turn%len(queries)]
		began := time.Now()
		page := get(b, address+"?"+query.Encode())
		took = append(took, time.Since(began))
		if page.Next == "" {
			continue
		}
		next := url.Values{"continue": {page.Next}}
		for name, value := range query {
			next[name] = value
		}
		began = time.Now()
		get(b, address+"?"+next.Encode())
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return ms(took[len(took)*99/100])
}

func get(b *testing.B, address string) v1.List[json.RawMessage] {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || len(body) >= 100_000 {
		b.Fatalf("%s: %s, %d bytes, %v", address, response.Status, len(body), err)
	}
	var page v1.List[json.RawMessage]
	if err := json.Unmarshal(body, &page); err != nil {
		b.Fatal(err)
	}
	return page
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
