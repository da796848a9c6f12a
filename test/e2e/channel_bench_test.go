package e2e

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkHint measures how long a commit takes to three clusters whose agents ask every half minute only, so that the hub
// has to tell them. It runs once, however long that takes.
func BenchmarkHint(b *testing.B) {
	if b.N > 1 {
		return
	}
	r := reach(b)
	r.commit("Add a shop", shopFiles())
	values := r.configs("shop")
	r.eventually("all clusters run the shop", timeout, func() bool { return values("one") })
	n := 0
	report("commit_to_applied_hint_p50_ms", milliseconds(median(20, func() time.Duration {
		n++
		value := fmt.Sprintf("measured-%d", n)
		r.write(map[string]string{"apps/shop/config.yaml": configMap("shop", value)})
		r.git("commit", "-qam", "Change the shop to "+value)
		began := time.Now()
		r.git("push", "-q", "origin", "HEAD")
		r.eventually("all clusters have "+value, time.Minute, func() bool { return values(value) })
		return time.Since(began)
	})), "ms")
}
