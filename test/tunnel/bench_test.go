// Package tunnel owns what the way into a cluster costs, beside other programs' ways.
//
// It refuses to know how a way works: each is a client and a URL at which an API server answers.
package tunnel

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(crowdURL); url != "" {
		crowd(url)
		return
	}
	os.Exit(m.Run())
}

// roundTrip is that of a cluster far away.
const roundTrip = 80 * time.Millisecond

// BenchmarkTunnel prints a line "bench NAME VALUE UNIT" for each figure, of the whole way: TLS to the hub, audit and bounds
// there, the connection that the agent opened, impersonation, TLS to the API server. It runs once.
func BenchmarkTunnel(b *testing.B) {
	if b.N > 1 {
		return
	}
	api, h := apiServer(b), newHub(b)
	agent(b, h, api, nil)
	there, here := direct(b, api), through(b, h)
	alone := p50(b, there)
	report("direct_get_p50_us", micro(alone), "us")
	report("tunnel_added_p50_us", micro(p50(b, here)-alone), "us")
	report("floor_added_p50_us", micro(p50(b, floor(b, api))-alone), "us")
	report("direct_rps_c64", rate(b, there, 64), "1/s")
	report("tunnel_rps_c64", rate(b, here, 64), "1/s")
	report("tunnel_bulk_mb_s", throughput(b, here), "MB/s")
	report("tunnel_unstalled_rps", rate(b, here, 4), "1/s")
	report("tunnel_stalled_reader_rps", stalled(b, here), "1/s")
	report("exec_echo_rtt_us", micro(execEcho(b, here)), "us")
	far(b, "tunnel", func(b *testing.B) way {
		h := newHub(b)
		agent(b, h, api, by(lag(b, h.Listener.Addr().String(), roundTrip)))
		return through(b, h)
	})
}

// far measures what counts on a long line between the agent and the hub.
func far(b *testing.B, name string, open func(b *testing.B) way) {
	b.Run("rtt80", func(b *testing.B) {
		if b.N > 1 {
			return
		}
		w := open(b)
		if err := w.fetch(b.Context(), smallPath, small); err != nil {
			b.Fatal(err)
		}
		report(name+"_burst100_rtt80_ms", float64(burst(b, w).Microseconds())/1000, "ms")
		report(name+"_bulk_rtt80_mb_s", throughput(b, w), "MB/s")
	})
}

func report(name string, value float64, unit string) {
	fmt.Printf("bench %s %.4g %s\n", name, value, unit)
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// p50 is what a question takes, one after the other.
func p50(b *testing.B, w way) time.Duration {
	b.Helper()
	const warm, times = 200, 3000
	all := make([]time.Duration, 0, times)
	for i := range warm + times {
		began := time.Now()
		if err := w.fetch(b.Context(), smallPath, small); err != nil {
			b.Fatal(err)
		}
		if i >= warm {
			all = append(all, time.Since(began))
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// rate is how many questions a second so many askers get answered, in two seconds.
func rate(b *testing.B, w way, askers int) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
	defer cancel()
	var answered, failed atomic.Int64
	var asking sync.WaitGroup
	began := time.Now()
	for range askers {
		asking.Go(func() {
			for ctx.Err() == nil {
				switch err := w.fetch(ctx, smallPath, small); {
				case err == nil:
					answered.Add(1)
				case ctx.Err() == nil:
					failed.Add(1)
				}
			}
		})
	}
	asking.Wait()
	if n := failed.Load(); n > 0 {
		b.Errorf("%d questions failed", n)
	}
	return float64(answered.Load()) / time.Since(began).Seconds()
}

// stalled is the rate of four askers beside a reader of much that has stopped reading; zero when there is nothing to read.
func stalled(b *testing.B, w way) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	answer, err := w.get(ctx, bulkPath)
	if err == nil {
		defer answer.Body.Close()
		_, err = io.ReadFull(answer.Body, make([]byte, 1024))
	}
	if err != nil {
		b.Logf("a large answer does not begin: %v", err)
		return 0
	}
	return rate(b, w, 4)
}

// burst is how long a hundred questions at once take until all are answered, at the best of five times.
func burst(b *testing.B, w way) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	best := time.Hour
	for range 5 {
		var asking sync.WaitGroup
		began := time.Now()
		for range 100 {
			asking.Go(func() {
				if err := w.fetch(ctx, smallPath, small); err != nil {
					b.Error(err)
				}
			})
		}
		asking.Wait()
		best = min(best, time.Since(began))
	}
	return best
}

// patience bounds a large answer: some ways never bring one to its end.
const patience = 20 * time.Second

// throughput is that of one large answer, the best of three; zero when it does not arrive.
func throughput(b *testing.B, w way) float64 {
	b.Helper()
	best := 0.0
	for range 3 {
		ctx, cancel := context.WithTimeout(b.Context(), patience)
		began := time.Now()
		err := w.fetch(ctx, bulkPath, bulk)
		cancel()
		if err != nil {
			b.Logf("a large answer does not arrive: %v", err)
			return 0
		}
		best = max(best, bulk/1e6/time.Since(began).Seconds())
	}
	return best
}

// execEcho is how long a keystroke takes to come back, on a connection into a pod.
func execEcho(b *testing.B, w way) time.Duration {
	b.Helper()
	header := http.Header{}
	if w.token != "" {
		header.Set("Authorization", "Bearer "+w.token)
	}
	one := w.client.Transport.(*http.Transport).Clone()
	one.ForceAttemptHTTP2, one.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	defer one.CloseIdleConnections()
	conn, answer, err := websocket.Dial(b.Context(), w.base+execPath, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: one}, HTTPHeader: header, Subprotocols: []string{"v5.channel.k8s.io"},
	})
	if answer != nil && answer.Body != nil {
		defer answer.Body.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer conn.CloseNow()
	const warm, times = 100, 2000
	all := make([]time.Duration, 0, times)
	for i := range warm + times {
		began := time.Now()
		err := conn.Write(b.Context(), websocket.MessageBinary, []byte{0, 'x'})
		if err == nil {
			_, _, err = conn.Read(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		if i >= warm {
			all = append(all, time.Since(began))
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}
