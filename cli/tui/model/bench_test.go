package model

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	benchClusters = 10_000
	benchServices = 10
)

func benchRow(cluster, service, round int) v1.Deployment {
	d := v1.Deployment{
		Cluster: fmt.Sprintf("edge-%05d", cluster), Service: fmt.Sprintf("service-%02d", service), Phase: v1.Healthy, Key: "key", AppliedKey: "key",
		Version: "1.2.3", Objects: 12, Ready: 12,
	}
	if (cluster+service+round)%30 == 0 {
		d.Phase, d.Ready = v1.Degraded, 11
		d.Message = fmt.Sprintf("Deployment web: 1 of 3 replicas are ready: image cannot be pulled on %s", d.Cluster)
	}
	return d
}

// large is a fleet of 100,000 rows, as a hub lists them.
func large(tb testing.TB) *Fleet {
	tb.Helper()
	f := New(time.Now)
	f.Apply(Batch{State: &State{Link: Live}, Marks: marks(Mark{Begin: true})})
	var b Batch
	for s := range benchServices {
		b.Services.Items = append(b.Services.Items, v1.Service{Name: fmt.Sprintf("service-%02d", s), Namespace: "apps", Source: "."})
	}
	f.Apply(b)
	b = Batch{}
	for c := range benchClusters {
		reported := time.Now()
		b.Clusters.Items = append(b.Clusters.Items, v1.Cluster{
			Name: fmt.Sprintf("edge-%05d", c), Phase: v1.Healthy, LastReport: &reported,
			Tags: map[string]string{"env": []string{"prod", "staging", "dev"}[c%3], "region": fmt.Sprintf("eu-%02d", c%40)},
		})
		for s := range benchServices {
			b.Deployments.Items = append(b.Deployments.Items, benchRow(c, s, 0))
		}
		if len(b.Deployments.Items) >= 500 {
			f.Apply(b)
			b = Batch{}
		}
	}
	f.Apply(b)
	f.Apply(Batch{Marks: marks(Mark{End: true})})
	return f
}

func BenchmarkFill(b *testing.B) {
	before := heap()
	f := large(b)
	f.Deployments.View().Len()
	taken := heap() - before
	runtime.KeepAlive(f)
	for b.Loop() {
		large(b)
	}
	b.ReportMetric(float64(taken)/1e6, "MB")
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkFilter(b *testing.B) {
	f := large(b)
	v := f.Deployments.View()
	for _, text := range []string{
		"e", "edge-001", "service-0", "env:prod", "health:degraded env:prod", "message~image", "^edge-.*9$", "@edge-1*", "-f eg9", "!edge-1 !health:healthy",
	} {
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				if err := v.Filter(text); err != nil {
					b.Fatal(err)
				}
				v.Len()
				_ = v.Filter("")
			}
		})
	}
}

func BenchmarkSort(b *testing.B) {
	f := large(b)
	v := f.Deployments.View()
	for _, column := range f.Deployments.Columns() {
		b.Run(column, func(b *testing.B) {
			for b.Loop() {
				_ = v.Sort(column, true)
				_ = v.Sort("", false)
			}
		})
	}
}

func BenchmarkBatchOf100(b *testing.B) {
	f := large(b)
	v := f.Deployments.View()
	_ = v.Sort("health", true)
	_ = v.Filter("env:prod")
	round := 0
	for b.Loop() {
		round++
		var batch Batch
		for i := range 100 {
			batch.Deployments.Items = append(batch.Deployments.Items, benchRow((i*97+round)%benchClusters, i%10, round))
		}
		f.Apply(batch)
		v.Len()
	}
}
