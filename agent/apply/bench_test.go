package apply_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pluralsh/plural/agent/apply"
)

// BenchmarkAPassOver10000ConfigMaps measures passes that change nothing: one that finds all as it was left, and one of a new
// revision that renders the same. The first pass of all, which applies everything, is told in milliseconds.
func BenchmarkAPassOver10000ConfigMaps(b *testing.B) {
	w := newWorld(b)
	engine, err := apply.New(w.config, apply.Options{DigestKey: []byte("of this test"), Rate: 1e6})
	if err != nil {
		b.Fatal(err)
	}
	w.run(engine)
	w.engine = engine
	req := w.request(configMaps("a", 10_000)...)
	start := time.Now()
	w.settles(req)
	first := float64(time.Since(start).Milliseconds())

	pass := func(b *testing.B, next func()) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			next()
			if result, err := engine.Apply(b.Context(), req); err != nil || !result.Done {
				b.Fatalf("%v, %v", err, result.Waiting)
			}
		}
		b.ReportMetric(first, "first-ms")
	}
	b.Run("as it was left", func(b *testing.B) { pass(b, func() {}) })
	n := 0
	b.Run("rendered anew", func(b *testing.B) { pass(b, func() { n++; req.Key = strconv.Itoa(n) }) })
}
